"""A source that was taken over is remembered, and an uninstallation brings its file back as it was just before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpuwright.first_record import ledger, taken, undo
from gpuwright.sources import dnf_files
from gpuwright.sources.others import dnf_others, taken_texts
from gpuwright.sources.relied import Relied
from gpuwright.takeover.configure import digests, known
from host_tree import HostTree

PATH = "/etc/yum.repos.d/vendor.repo"
OURS = "/etc/yum.repos.d/cuda.repo"
TEXT = "[cuda]\nname=x\nbaseurl=http://v/\ngpgcheck=0\n"
RELIED = Relied("cuda", "https://m/x/", "", OURS, "/etc/pki/rpm-gpg/RPM-GPG-KEY-cuda", "A" * 40, True, True)
FIRST, SECOND = "run one", "run two"


def look(family: str, root: str = "/", known: Any = None) -> dict[str, Any]:
    return undo.look(family, root, known, lambda family: {})


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    tree = HostTree(tmp_path / "node")
    tree.put("/etc/os-release", 'ID="rhel"\nVERSION_ID="8.8"\n')
    tree.put("/etc/passwd", "")
    tree.put("/etc/group", "")
    tree.put("/var/lib/x")
    tree.put(PATH, TEXT)
    (tree.folder / PATH[1:]).chmod(0o640)
    return tree


def take(host: HostTree) -> list[str]:
    """Take over what is there; why not, where that is refused."""
    files = dnf_files.read_files(host.root)
    others = dnf_others([RELIED], files, known(host.root))
    if not any(other.why for other in others):
        taken.take(taken_texts(others, {file.path: file.text for file in files}), digests(others), host.root)
    return [other.why for other in others]


def begin(host: HostTree, run: str) -> None:
    ledger.begin(run, host.root, look, lambda family, root: [])


def end(host: HostTree, run: str) -> None:
    ledger.end(run, host.root, look)


def put_back(host: HostTree) -> undo.Found:
    tools = undo.TOOLS._replace(look=look, removable=lambda names, family: {}, owners=lambda paths, family: {})
    found = undo.find(host.root, tools)
    undo.put_back(found, host.root, tools)
    return undo.find(host.root, tools)


def now(host: HostTree, path: str = PATH) -> tuple[str, int]:
    file = host.folder / path[1:]
    return file.read_text(), file.stat().st_mode & 0o777


def test_a_file_of_the_first_record_comes_back(host: HostTree) -> None:
    begin(host, FIRST)
    assert take(host) == [""] and now(host)[0] != TEXT and now(host)[1] == 0o640
    assert take(host) == [], "once"
    end(host, FIRST)
    assert [row for row in put_back(host).rows if row.kind == "files" and row.ours] == []
    assert now(host) == (TEXT, 0o640)


def test_a_file_that_is_newer_than_the_first_record_comes_back(host: HostTree) -> None:
    begin(host, FIRST)
    end(host, FIRST)
    later = "/etc/yum.repos.d/later.repo"
    host.put(later, TEXT + "proxy=x\n")
    (host.folder / PATH[1:]).unlink()
    begin(host, SECOND)
    assert take(host) == [""]
    end(host, SECOND)
    put_back(host)
    assert now(host, later)[0] == TEXT + "proxy=x\n"


def test_after_a_killed_run_it_comes_back(host: HostTree) -> None:
    begin(host, FIRST)
    take(host)
    begin(host, SECOND)
    end(host, SECOND)
    put_back(host)
    assert now(host) == (TEXT, 0o640)


def test_what_somebody_has_changed_since_stays(host: HostTree) -> None:
    begin(host, FIRST)
    take(host)
    end(host, FIRST)
    host.put(PATH, "# mine\n")
    begin(host, SECOND)
    end(host, SECOND)
    found = put_back(host)
    assert now(host)[0] == "# mine\n" and [row.step for row in found.rows if row.name == PATH] == ["stays"]


def test_what_was_changed_and_changed_back_comes_back(host: HostTree) -> None:
    begin(host, FIRST)
    take(host)
    end(host, FIRST)
    ours = now(host)[0]
    for run, text in ((SECOND, TEXT), ("run three", ours)):
        host.put(PATH, text)
        begin(host, run)
        end(host, run)
    put_back(host)
    assert now(host)[0] == TEXT


def test_it_is_refused_when_it_comes_back_and_taken_again_after_an_uninstallation(host: HostTree) -> None:
    begin(host, FIRST)
    take(host)
    host.put(PATH, TEXT)
    assert "has come back" in take(host)[0] and now(host)[0] == TEXT
    end(host, FIRST)
    begin(host, SECOND)
    put_back(host)
    assert take(host) == [""]


def test_a_link_becomes_a_file_and_a_link_again(host: HostTree) -> None:
    (host.folder / PATH[1:]).unlink()
    host.put("/srv/vendor.repo", TEXT)
    host.link(PATH, "/srv/vendor.repo")
    begin(host, FIRST)
    assert take(host) == [""] and not (host.folder / PATH[1:]).is_symlink()
    end(host, FIRST)
    put_back(host)
    assert (host.folder / PATH[1:]).readlink() == Path("/srv/vendor.repo") and now(host, "/srv/vendor.repo")[0] == TEXT


@pytest.mark.parametrize("edited", [False, True])
def test_a_file_in_a_folder_of_the_sites_own_comes_back(host: HostTree, edited: bool) -> None:
    path = "/srv/repos/vendor.repo"
    host.put("/etc/dnf/dnf.conf", "[main]\nreposdir=/srv/repos\n")
    host.put(path, TEXT)
    begin(host, FIRST)
    assert take(host) == [""] and now(host, path)[0] != TEXT
    end(host, FIRST)
    if edited:
        host.put(path, "# mine\n")
    found = put_back(host)
    assert now(host, path)[0] == ("# mine\n" if edited else TEXT)
    assert [row.step for row in found.rows if row.name == path] == ["stays"] * edited


def test_what_could_not_be_brought_back_is_not_taken(host: HostTree) -> None:
    begin(host, FIRST)
    host.put(PATH, TEXT + "#\n" * 600000)
    assert "larger than 1 MiB" in take(host)[0]


def test_a_failed_run_gives_back_what_it_took(host: HostTree) -> None:
    begin(host, FIRST)
    files = dnf_files.read_files(host.root)
    others = dnf_others([RELIED], files, known(host.root))
    done = taken.take(taken_texts(others, {file.path: file.text for file in files}), digests(others), host.root)
    taken.give_back(done, host.root)
    assert now(host) == (TEXT, 0o640) and take(host) == [""]
