"""What a role looked at is told apart from what it became: every way in which somebody may change it, and none more."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from gpuwright.host.bounded import Finished
from gpuwright.settled import watch

Change = Callable[[Path], object]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with one thing of each kind."""
    for name in ("etc/app", "opt/venv/bin", "opt/venv/lib/deep", "var/lib/rpm", "var/lib/dpkg", "etc/dnf/modules.d"):
        (tmp_path / name).mkdir(parents=True)
    for name, text in {
        "etc/app/a.conf": "one\n",
        "etc/app/b.conf": "two\n",
        "opt/venv/bin/python": "#!\n",
        "opt/venv/lib/deep/module.py": "x = 1\n",
        "var/lib/rpm/Packages": "rows",
        "var/lib/dpkg/status": "rows",
        "etc/dnf/modules.d/nvidia-driver.module": "stream=580-dkms\n",
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644)
    (tmp_path / "etc/link").symlink_to("app/a.conf")
    (tmp_path / "opt/venv/current").symlink_to("bin")
    # Two changes in one tick of the kernel's clock have one time.
    time.sleep(0.02)
    return tmp_path


def write(name: str, text: str) -> Change:
    def change(root: Path) -> None:
        before = (root / name).stat() if (root / name).exists() else None
        (root / name).write_text(text)
        # Whoever hides a change puts the time back.
        if before:
            os.utime(root / name, ns=(before.st_atime_ns, before.st_mtime_ns))

    return change


def mode(name: str, bits: int) -> Change:
    return lambda root: (root / name).chmod(bits)


def owner(name: str) -> Change:
    return lambda root: os.lchown(root / name, 1, 1)


def gone(name: str) -> Change:
    def change(root: Path) -> None:
        shutil.rmtree(root / name) if (root / name).is_dir() and not (root / name).is_symlink() else (
            root / name
        ).unlink()

    return change


def link(name: str, target: str) -> Change:
    def change(root: Path) -> None:
        gone(name)(root)
        (root / name).symlink_to(target)

    return change


def folder(name: str) -> Change:
    def change(root: Path) -> None:
        if (root / name).exists():
            (root / name).unlink()
        (root / name).mkdir()

    return change


FILE, LINK, DIRECTORY, TREE = (
    ("file", "/etc/app/a.conf"),
    ("file", "/etc/link"),
    ("folder", "/etc/app"),
    ("tree", "/opt/venv"),
)
PACKAGES, OWN_FOLDER = ("packages", ""), ("file", "/etc/app")
CHANGES: list[tuple[tuple[str, str], str, Change]] = [
    (FILE, "other content", write("etc/app/a.conf", "three\n")),
    (FILE, "content of the same size", write("etc/app/a.conf", "eno\n")),
    (FILE, "more content", write("etc/app/a.conf", "one\nmore\n")),
    (FILE, "no content", write("etc/app/a.conf", "")),
    (FILE, "a missing last line end", write("etc/app/a.conf", "one")),
    (FILE, "writable by all", mode("etc/app/a.conf", 0o666)),
    (FILE, "readable by nobody else", mode("etc/app/a.conf", 0o600)),
    (FILE, "set-user-id", mode("etc/app/a.conf", 0o4644)),
    (FILE, "another owner", owner("etc/app/a.conf")),
    (FILE, "missing", gone("etc/app/a.conf")),
    (FILE, "a link in its place", link("etc/app/a.conf", "b.conf")),
    (FILE, "a folder in its place", folder("etc/app/a.conf")),
    (FILE, "its folder gone", gone("etc/app")),
    (LINK, "another target", link("etc/link", "app/b.conf")),
    (LINK, "a broken target", link("etc/link", "app/none")),
    (LINK, "an absolute target", link("etc/link", "/etc/app/b.conf")),
    (LINK, "to itself", link("etc/link", "link")),
    (LINK, "its target's content", write("etc/app/a.conf", "three\n")),
    (LINK, "its target's mode", mode("etc/app/a.conf", 0o600)),
    (LINK, "its target's owner", owner("etc/app/a.conf")),
    (LINK, "its target gone", gone("etc/app/a.conf")),
    (LINK, "another owner", owner("etc/link")),
    (LINK, "a file in its place", lambda root: (gone("etc/link")(root), write("etc/link", "one\n")(root))),
    (LINK, "missing", gone("etc/link")),
    (OWN_FOLDER, "writable by all", mode("etc/app", 0o777)),
    (OWN_FOLDER, "another owner", owner("etc/app")),
    (OWN_FOLDER, "missing", gone("etc/app")),
    (OWN_FOLDER, "a link in its place", link("etc/app", "/opt")),
    (DIRECTORY, "one more file", write("etc/app/c.conf", "")),
    (DIRECTORY, "one file less", gone("etc/app/b.conf")),
    (DIRECTORY, "one file's content", write("etc/app/b.conf", "owt\n")),
    (DIRECTORY, "one file's mode", mode("etc/app/b.conf", 0o600)),
    (DIRECTORY, "a renamed file", lambda root: (root / "etc/app/b.conf").rename(root / "etc/app/d.conf")),
    (DIRECTORY, "one more folder", folder("etc/app/more")),
    (DIRECTORY, "its own mode", mode("etc/app", 0o700)),
    (DIRECTORY, "missing", gone("etc/app")),
    (TREE, "deep content of the same size", write("opt/venv/lib/deep/module.py", "x = 2\n")),
    (TREE, "deep content", write("opt/venv/lib/deep/module.py", "y\n")),
    (TREE, "a deep mode", mode("opt/venv/lib/deep/module.py", 0o666)),
    (TREE, "a deep owner", owner("opt/venv/lib/deep/module.py")),
    (TREE, "a deep file more", write("opt/venv/lib/deep/more.pth", "")),
    (TREE, "a deep file less", gone("opt/venv/lib/deep/module.py")),
    (TREE, "a deep folder's mode", mode("opt/venv/lib/deep", 0o777)),
    (TREE, "a deep folder's owner", owner("opt/venv/lib/deep")),
    (TREE, "an empty folder more", folder("opt/venv/lib/empty")),
    (TREE, "half of it", gone("opt/venv/lib")),
    (TREE, "another link", link("opt/venv/current", "lib")),
    (TREE, "no link", gone("opt/venv/current")),
    (TREE, "its own mode", mode("opt/venv", 0o700)),
    (TREE, "another interpreter", link("opt/venv/bin/python", "/usr/bin/false")),
    (TREE, "missing", gone("opt/venv")),
    (PACKAGES, "rpm's records", write("var/lib/rpm/Packages", "more rows")),
    (PACKAGES, "rpm's records, same size", write("var/lib/rpm/Packages", "swor")),
    (PACKAGES, "rpm's records gone", gone("var/lib/rpm/Packages")),
    (PACKAGES, "rpm's newer records", write("var/lib/rpm/rpmdb.sqlite", "rows")),
    (PACKAGES, "dpkg's records", write("var/lib/dpkg/status", "more rows")),
    (PACKAGES, "dpkg's records gone", gone("var/lib/dpkg/status")),
    (PACKAGES, "another stream", write("etc/dnf/modules.d/nvidia-driver.module", "stream=570-dkms\n")),
    (PACKAGES, "no stream", gone("etc/dnf/modules.d/nvidia-driver.module")),
    (PACKAGES, "one more stream", write("etc/dnf/modules.d/php.module", "stream=8\n")),
]


@pytest.mark.parametrize(("thing", "what", "change"), CHANGES, ids=[f"{one[0][0]}-{one[1]}" for one in CHANGES])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
def test_a_change_is_seen(root: Path, thing: tuple[str, str], what: str, change: Change) -> None:
    before = watch.look([thing], str(root))
    change(root)
    assert watch.look([thing], str(root)) != before


def test_at_least_sixty_kinds_of_change() -> None:
    assert len({(thing, what) for thing, what, _change in CHANGES}) == len(CHANGES) >= 60


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "etc/app/a.conf").touch(),
        lambda root: write("etc/app/a.conf", "one\n")(root),
        lambda root: (root / "etc/app/a.conf").read_text(),
        lambda root: subprocess.run(["cp", "-a", root / "etc/app/a.conf", root / "copy"], check=True),
        lambda root: (
            (root / "opt/venv/lib/__pycache__").mkdir(),
            (root / "opt/venv/lib/__pycache__/module.pyc").write_bytes(b"x"),
        ),
        lambda root: write("etc/unwatched.conf", "x")(root),
    ],
    ids=["touched", "written again", "read", "copied", "compiled by use", "beside it"],
)
def test_what_changes_nothing_is_not_seen(root: Path, change: Change) -> None:
    things = [FILE, LINK, OWN_FOLDER, DIRECTORY, TREE, PACKAGES]
    before = watch.look(things, str(root))
    change(root)
    assert watch.look(things, str(root)) == before


def test_what_is_absent_is_no_error_and_its_coming_is_seen(root: Path) -> None:
    things = [(kind, "/nowhere/at/all") for kind in ("file", "folder", "tree")] + [("file", "/etc/app/a.conf/below")]
    before = watch.look(things, str(root))
    (root / "nowhere/at").mkdir(parents=True)
    assert watch.look(things, str(root)) == before
    (root / "nowhere/at/all").mkdir()
    after = watch.look(things, str(root))
    assert [after[thing] != before[thing] for thing in things] == [True, True, True, False]


def test_a_large_file_is_compared_by_size_and_times(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "CONTENT_BYTES", 3)
    before = watch.look([FILE], str(root))
    write("etc/app/a.conf", "eno\n")(root)
    assert watch.look([FILE], str(root)) != before


def systemd(**properties: str) -> Callable[[Sequence[str], float], Finished]:
    """systemctl, with these properties of every unit."""
    known = {
        "LoadState": "loaded",
        "ActiveState": "active",
        "UnitFileState": "enabled",
        "DropInPaths": "",
        **properties,
    }

    def run(words: Sequence[str], seconds: float) -> Finished:
        asked = words[words.index("--property") + 1].split(",")
        text = "".join(f"{name}={known.get(name, '')}\n" for name in asked)
        return Finished(0, text, "", False, False, False, "")

    return run


@pytest.mark.parametrize(
    ("kind", "property_", "value"),
    [
        ("unit", "UnitFileState", "disabled"),
        ("unit", "UnitFileState", "masked"),
        ("unit", "LoadState", "not-found"),
        ("unit", "FragmentPath", "/etc/systemd/system/x.service"),
        ("unit", "DropInPaths", "/etc/systemd/system/x.service.d/own.conf"),
        ("unit", "NeedDaemonReload", "yes"),
        ("active", "ActiveState", "inactive"),
        ("active", "ActiveState", "failed"),
    ],
)
def test_a_unit_in_another_state_is_seen(kind: str, property_: str, value: str) -> None:
    thing = (kind, "x.service")
    assert watch.look([thing], run=systemd()) != watch.look([thing], run=systemd(**{property_: value}))


def test_a_unit_that_only_has_to_be_enabled_may_rest() -> None:
    """A check at boot has ended long ago."""
    thing = ("unit", "gpuwright-boot-check.service")
    assert watch.look([thing], run=systemd()) == watch.look([thing], run=systemd(ActiveState="inactive"))


def test_a_systemd_that_does_not_answer_is_an_error() -> None:
    def silent(words: Sequence[str], seconds: float) -> Finished:
        return Finished(1, "", "Failed to connect to bus\n", False, False, False, "")

    with pytest.raises(OSError, match=r"systemctl show x\.service: Failed to connect to bus"):
        watch.look([("unit", "x.service")], run=silent)


def test_a_kind_of_another_version_is_an_error(root: Path) -> None:
    with pytest.raises(ValueError, match="moon is no kind of thing"):
        watch.look([("moon", "full")], str(root))
