# SPDX-License-Identifier: Apache-2.0
"""Replace the packages of one module stream with those of another: all downloaded first, then one transaction.

The enabled stream is only a setting of dnf and touches no package, so it can be changed first, and back on failure.
dnf shell ends with 0 whatever happens in it, so its output is read and the packages are checked afterwards.
"""

import contextlib
import os
import re
import tempfile
from typing import Any, List, Sequence

from ..host.files import below, read_text
from ..host.versions import is_part_of
from ..host.whole_file import write_edited
from .module_streams import STATE_FILE, StreamError, check_name

SHELL = ["dnf", "-y", "--allowerasing"]
# Everything must be in the cache by then: a mirror that fails now can break nothing.
FROM_CACHE = ["dnf", "-y", "-C", "--allowerasing"]


def foreign_packages(installed: Any, version: str) -> List[str]:
    """Names of `installed` (`{name: version}`) that are not of `version` (a branch or exact), sorted."""
    return sorted(name for name, found in installed.items() if not is_part_of(found, version))


def switch_script(installed: Any, offered: Any, wanted: Any) -> Any:
    """Lines for dnf shell that bring the packages to a stream in one transaction.

    installed  names that are installed      offered  those of them that the stream has; the others are removed
    wanted     what must be installed afterwards, name or name-version
    """
    stay, gone = [name for name in installed if name in offered], [name for name in installed if name not in offered]
    new = [package for package in wanted if not any(_is_of(package, name) for name in stay)]
    lines = [("remove", gone), ("distro-sync", stay), ("install", new)]
    return "".join(f"{word} {' '.join(names)}\n" for word, names in lines if names) + "run\n"


def _is_of(package: str, name: str) -> bool:
    return package == name or re.match(re.escape(name) + r"-\d", package) is not None


def describe_switch(installed: Any, wanted: Any) -> Any:
    """What a person could type instead, for messages."""
    new = [package for package in wanted if not any(_is_of(package, name) for name in installed)]
    text = f"dnf -y --allowerasing distro-sync {' '.join(installed)}"
    return text + (f"; dnf -y install {' '.join(new)}" if new else "")


@contextlib.contextmanager
def stream_put_back(name: str, dnf: Any, packages: Sequence[str], root: str = "/") -> Any:
    """If the block raises StreamError, enable the stream that was enabled before again, without any network access.

    packages  names (globs) that must be as they were for that, since packages of another stream need that stream;
              [] restores nothing
    """
    path = below(root, STATE_FILE.format(name))
    before = read_text(root, STATE_FILE.format(name))
    installed = dnf.versions(packages)
    try:
        yield
    except StreamError:
        if packages and _is_still(dnf, packages, installed):
            if before is not None:
                write_edited(path, (before + "\n").encode("utf-8"))
            elif os.path.lexists(path):
                os.unlink(path)
        raise


def _is_still(dnf: Any, packages: Sequence[str], installed: Any) -> bool:
    try:
        return dnf.versions(packages) == installed
    except StreamError:
        return False


def replace_packages(dnf: Any, installed: Any, version: str, wanted: Any) -> Any:
    """Change `installed` (`{name: version}`) to the stream that is enabled now; StreamError before anything is removed.

    dnf      a `module_streams.Dnf`          version  that all must have then          wanted  as in `switch_script`
    """
    names = sorted(installed)
    for name in names:
        check_name("a package", name)
    script = switch_script(names, dnf.offered(names), wanted)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="gpuwright-", suffix=".dnf") as file:
        file.write(script)
        file.flush()
        dnf.shell(SHELL + ["--downloadonly", "shell", file.name])
        dnf.shell(FROM_CACHE + ["shell", file.name])
    left = foreign_packages(dnf.versions(names), version)
    if left:
        raise StreamError(
            "dnf reported success, but {} is not of version {}. Next: {}".format(
                ", ".join(left), version, describe_switch(names, wanted)
            )
        )
