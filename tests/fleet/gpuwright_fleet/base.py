"""The base userland: Debian 12 or 13 by mmdebstrap, from the package sources that this machine already has."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from .paths import DEBIAN_DIR, cache_dir, content_hash, is_complete
from .shell import run, step

SUITE = "bookworm"


def words_of(path: Path) -> list[str]:
    """The words of a file that has one package (or a few) per line and # comments."""
    return " ".join(line.split("#")[0] for line in path.read_text().splitlines()).split()


def source_lines(targets: str, suite: str = SUITE) -> list[str]:
    """deb lines of a suite: those among `apt-get indextargets` output (origin|codename|uri|component).

    If there are none, those of another Debian suite with the name replaced: one mirror has all suites.
    """
    found: dict[str, set[str]] = {}
    for target in targets.splitlines():
        origin, codename, uri, component = target.split("|")
        match = re.fullmatch(r"(bookworm|trixie)(-updates|-security)?", codename)
        if origin == "Debian" and match:
            found.setdefault(match.group(1), set()).add(f"deb {uri} {suite}{match.group(2) or ''} {component}")
    return sorted(found.get(suite) or next(iter(found.values()), set()))


def controller_sources(suite: str = SUITE) -> list[str]:
    """Where this machine gets the packages of a suite; empty: mmdebstrap's own default is used."""
    if not shutil.which("apt-get"):
        return []
    fields = "$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(COMPONENT)"
    return source_lines(run(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"]).stdout, suite)


def apt_options() -> list[str]:
    """This machine's apt settings for downloads (proxy, certificate authority, date checks)."""
    if not shutil.which("apt-config"):
        return []
    wanted = re.compile(r"Acquire::(https?|Check-|Retries)")
    return [line for line in run(["apt-config", "dump"]).stdout.splitlines() if wanted.match(line) and '""' not in line]


def base_key(folder: Path) -> str:
    lists = [folder / name for name in ("packages.txt", "twins.txt", "archive.txt")]
    return content_hash([path for path in lists if path.exists()] + [Path(__file__)])


def build_base(folder: Path, suite: str = SUITE) -> Path:
    """A cache folder with base.tar, the userland that `folder`/packages.txt lists: Debian 12, or `suite`.

    If `folder` has a twins.txt, there is also debs/: the Debian twins from which stand-in RPMs are made. With an
    archive.txt, debs/ has these packages and all that they need beside the userland.
    """
    title = folder.name if suite == SUITE else suite if folder == DEBIAN_DIR else f"{folder.name}_{suite}"
    target = cache_dir() / f"base_{title}-{base_key(folder)}"
    if is_complete(target):
        return target
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    command: list[str | Path] = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar"]
    command += [f"--include={','.join(words_of(folder / 'packages.txt'))}"]
    command += [f"--aptopt={option}" for option in apt_options()]
    command += ["--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]
    command += ["--dpkgopt=path-exclude=/usr/share/doc/*"]
    if (folder / "twins.txt").exists():
        command.append(f"--customize-hook={fetch(folder / 'twins.txt', target / 'debs', 'download')}")
    if (folder / "archive.txt").exists():
        whole = "install --yes --no-install-recommends --download-only"
        command.append(f"--customize-hook={fetch(folder / 'archive.txt', target / 'debs', whole)}")
    command += [suite, target / "base.tar", *controller_sources(suite)]
    with step(f"userland for {title} (mmdebstrap)"):
        run(command, timeout=1800)
    (target / "complete").touch()
    return target


def fetch(names: Path, debs: Path, what: str) -> str:
    """A hook of mmdebstrap that downloads the packages of a list; `what` apt-get is asked to do with them."""
    debs.mkdir()
    debs.chmod(0o755)
    apt_get = 'APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -o APT::Sandbox::User=root'
    return (
        'cd "$1/var/cache/apt/archives" && rm -f *.deb && '
        f'{apt_get} {what} {" ".join(words_of(names))} && mv *.deb "{debs}/"'
    )
