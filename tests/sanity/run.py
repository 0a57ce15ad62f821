"""What ansible-test says of the installed collection: `make test-sanity`. Exit status 0 where all is clean.

Left out are tests that need programs which are no Python packages (shellcheck, pslint), pylint, whose rules ruff has
here, and import, which wants every plug-in to load on each Python that Ansible knows: what runs on nodes is tried under
Python 3.6 by its own tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
SKIPPED = ("import", "pylint", "pslint", "shellcheck")
# ansible-test downloads this script, whose host is no registry; Python brings a pip of its own.
GET_PIP = "get_pip_23_1_2.py"


def installed(folder: Path) -> Path:
    """The collection as ansible-galaxy installs it, with its links resolved: ansible-test walks into none."""
    galaxy = [str(PROGRAMS / "ansible-galaxy"), "collection"]
    build = [*galaxy, "build", "--output-path", str(folder)]
    subprocess.run(build, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    (file,) = folder.glob("*.tar.gz")
    install = [*galaxy, "install", "--offline", "-p", str(folder / "linked"), str(file)]
    subprocess.run(install, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    root = folder / "ansible_collections/gpuwright/node"
    shutil.copytree(folder / "linked/ansible_collections/gpuwright/node", root)
    shutil.rmtree(root / "library")
    return root


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        root = installed(Path(name))
        home = Path(name) / "home"
        cache = home / ".ansible/test/cache"
        cache.mkdir(parents=True)
        (cache / GET_PIP).write_text("import ensurepip\n\nensurepip.bootstrap(default_pip=True)\n")
        command = [str(PROGRAMS / "ansible-test"), "sanity", "--python", f"{sys.version_info[0]}.{sys.version_info[1]}"]
        for test in SKIPPED:
            command += ["--skip-test", test]
        environment = {**os.environ, "HOME": str(home), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
        return subprocess.run(command, cwd=root, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
