"""Rules of files that nothing else would notice: who owns them, under what name they are written, what stays behind."""

from __future__ import annotations

import ctypes.util
import json
import os
import stat
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuwright.host import trees
from gpuwright.launch.preload import check_callers_preload, check_library, find_library
from gpuwright.launch.runtime_policy import LaunchError
from gpuwright.preflight.space import space_needed, space_problems
from gpuwright.tuning import store as tuning_store
from gpuwright.verdict import report
from healthy_files import ELF_LIBRARY

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
STRANGERS_UID = 4242


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of root's, below folders of root's; pytest's own lies below others."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def open_mask() -> Iterator[None]:
    """The strictest umask that administrators set, under which what is public must be made so."""
    old = os.umask(0o077)
    yield
    os.umask(old)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- report.write_text


def watch_rename(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names under which files are complete before they get their own."""
    seen: list[str] = []
    rename = os.rename

    def watched(source: str, target: str, **folders: int) -> None:
        seen.append(str(Path(f"/proc/self/fd/{folders['src_dir_fd']}").readlink() / source))
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", watched)
    return seen


def test_an_unfinished_file_is_none_that_others_take(tmp_path, monkeypatch):
    """node_exporter takes *.prom, and a shell's * leaves out what begins with a dot; the folder must be the same."""
    seen = watch_rename(monkeypatch)
    report.write_text(str(tmp_path / "gpuwright.prom"), "text\n")
    (temporary,) = seen
    name = Path(temporary).name
    assert name.startswith(".") and not name.endswith((".prom", ".json"))
    assert Path(temporary).parent == tmp_path
    assert names_in(tmp_path) == ["gpuwright.prom"]


def test_an_interrupted_write_leaves_nothing_either(tmp_path, monkeypatch):
    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        report.write_text(str(tmp_path / "a"), "new")
    assert names_in(tmp_path) == []


def test_a_report_is_readable_by_everybody_whatever_the_umask(tmp_path, open_mask):
    report.write_text(str(tmp_path / "a"), "x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def test_a_file_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report.write_text("a.prom", "x")
    assert names_in(tmp_path) == ["a.prom"]


@pytest.mark.parametrize(("verdict", "marked"), [("PASS", True), ("WARN", True), ("FAIL", False), ("UNKNOWN", False)])
def test_the_mark_of_a_node_that_passed_is_short(tmp_path, verdict, marked):
    record = {"schema": 1, "host": "a", "time": "t", "verdict": verdict, "checks": [], "readings": {}}
    report.write_report(record, None, str(tmp_path / "verified.json"))
    written = json.loads((tmp_path / "verified.json").read_text()) if marked else None
    assert names_in(tmp_path) == (["verified.json"] if marked else [])
    assert written is None or written == {"schema": 1, "host": "a", "time": "t", "verdict": verdict}


# --- preload: who may put code into every training


def library(folder: Path) -> str:
    """A file below a root folder that the loader would take."""
    place = folder / "usr/lib64"
    place.mkdir(parents=True)
    (place / "libjemalloc.so.2").write_bytes(ELF_LIBRARY)
    for path in (folder / "usr", place):
        path.chmod(0o755)
    (place / "libjemalloc.so.2").chmod(0o755)
    return "/usr/lib64/libjemalloc.so.2"


@needs_root
def test_a_library_of_root_alone_is_taken(folder):
    check_library(library(folder), "jemalloc", str(folder))


@needs_root
@pytest.mark.parametrize("place", ["usr/lib64/libjemalloc.so.2", "usr/lib64"])
def test_a_library_or_folder_of_somebody_else_is_refused(folder, place):
    path = library(folder)
    os.chown(folder / place, STRANGERS_UID, 0)
    with pytest.raises(LaunchError, match="must be owned by root"):
        check_library(path, "jemalloc", str(folder))


@needs_root
@pytest.mark.parametrize("mode", [0o775, 0o757])
@pytest.mark.parametrize("place", ["usr/lib64/libjemalloc.so.2", "usr/lib64"])
def test_a_library_or_folder_that_others_may_write_is_refused(folder, place, mode):
    path = library(folder)
    (folder / place).chmod(mode)
    with pytest.raises(LaunchError, match="writable by nobody else"):
        check_library(path, "jemalloc", str(folder))


@needs_root
def test_a_link_is_judged_by_what_it_leads_to(folder):
    library(folder)
    (folder / "link").symlink_to("/usr/lib64/libjemalloc.so.2")
    check_library("/link", "jemalloc", str(folder))
    os.chown(folder / "usr/lib64/libjemalloc.so.2", STRANGERS_UID, 0)
    with pytest.raises(LaunchError, match="must be owned by root"):
        check_library("/link", "jemalloc", str(folder))


@pytest.mark.parametrize("path", ["lib.so", "./lib.so", "/a b/lib.so", "/a:b.so", "/a\tb.so", "/a\nb.so", ""])
def test_a_name_that_the_loader_would_split_is_refused(path):
    with pytest.raises(LaunchError, match="absolute path without spaces and colons"):
        check_library(path, "jemalloc")


@needs_root
def test_of_known_places_the_one_that_is_there_is_taken(folder):
    path = library(folder)
    assert find_library("jemalloc", {"libraries": {}}, str(folder)) == path
    with pytest.raises(LaunchError, match="no such file; install"):
        find_library("tcmalloc", {"libraries": {}}, str(folder))
    with pytest.raises(LaunchError, match="/named.so"):
        find_library("jemalloc", {"libraries": {"jemalloc": "/named.so"}}, str(folder))


def undecided() -> Any:
    """Of a decision, what is warned of alone."""
    return types.SimpleNamespace(warnings=[])


@needs_root
def test_the_callers_own_library_and_roots_are_taken(folder):
    path = library(folder)
    decision = undecided()
    check_callers_preload(decision, f"{path}:{path} libsomething.so", str(folder))
    assert decision.warnings == []
    check_callers_preload(decision, "/nowhere.so", str(folder))
    assert "/nowhere.so, which does not exist" in decision.warnings[0]


@needs_root
@pytest.mark.parametrize("spoil", ["owner", "file", "folder"])
def test_a_library_of_the_callers_that_others_can_change_is_refused(folder, spoil):
    path = library(folder)
    file = folder / path[1:]
    if spoil == "owner":
        os.chown(file, STRANGERS_UID, 0)
    elif spoil == "file":
        file.chmod(0o757)
    else:
        file.parent.chmod(0o757)
    with pytest.raises(LaunchError, match="can be changed by other users"):
        check_callers_preload(undecided(), path, str(folder))


@needs_root
def test_in_a_folder_as_tmp_is_nobody_replaces_the_files_of_others(folder):
    path = library(folder)
    (folder / path[1:]).parent.chmod(0o1777)
    check_callers_preload(undecided(), path, str(folder))


def test_the_callers_relative_library_is_refused():
    with pytest.raises(LaunchError, match="give its absolute path"):
        check_callers_preload(undecided(), "lib/x.so")


def test_a_real_library_of_this_machine_passes():
    name = ctypes.util.find_library("c")
    assert name is not None
    places = ("/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/lib/aarch64-linux-gnu")
    path = next(f"{place}/{name}" for place in places if Path(place, name).exists())
    check_library(path, "libc")


# --- trees and tuning_store: modes and owners


def test_folders_of_a_tree_are_open_whatever_the_umask(tmp_path, open_mask):
    files = {"a/b/c.py": "x\n"}
    dest = str(tmp_path / "made/tree")
    trees.apply_tree(dest, files, *trees.tree_changes(dest, files))
    for place in ("made", "made/tree", "made/tree/a", "made/tree/a/b"):
        assert stat.S_IMODE((tmp_path / place).stat().st_mode) == 0o755, place
    assert stat.S_IMODE((tmp_path / "made/tree/a/b/c.py").stat().st_mode) == 0o644
    assert trees.tree_changes(dest, files) == ([], [])


def test_a_folder_that_was_there_keeps_its_mode(tmp_path):
    (tmp_path / "tree").mkdir(0o700)
    files = {"a.py": "x\n"}
    dest = str(tmp_path / "tree")
    trees.apply_tree(dest, files, *trees.tree_changes(dest, files))
    assert stat.S_IMODE((tmp_path / "tree").stat().st_mode) == 0o700


def test_a_failed_file_of_a_tree_leaves_nothing_behind(tmp_path, monkeypatch):
    def fails(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(OSError, match="No space left"):
        trees.apply_tree(str(tmp_path), {"a.py": "x\n"}, ["a.py"], [])
    assert names_in(tmp_path) == []


@needs_root
@pytest.mark.parametrize(("uid", "gid"), [(STRANGERS_UID, 0), (0, STRANGERS_UID)])
def test_a_file_of_a_tree_that_belongs_to_another_is_written_anew(tmp_path, uid, gid):
    files = {"a.py": "x\n"}
    trees.apply_tree(str(tmp_path), files, ["a.py"], [])
    os.chown(tmp_path / "a.py", uid, gid)
    assert trees.tree_changes(str(tmp_path), files) == (["a.py"], [])
    trees.apply_tree(str(tmp_path), files, ["a.py"], [])
    assert ((tmp_path / "a.py").stat().st_uid, (tmp_path / "a.py").stat().st_gid) == (0, 0)


@needs_root
def test_what_is_put_back_has_its_owner_mode_and_bytes_again(tmp_path):
    path = tmp_path / "etc/limits.conf"
    path.parent.mkdir()
    path.write_bytes(b"caf\xe9\0\n")
    path.chmod(0o640)
    os.chown(path, STRANGERS_UID, STRANGERS_UID + 1)
    before = tuning_store.remember(str(tmp_path), "/etc/limits.conf")
    tuning_store.put(str(tmp_path), "/etc/limits.conf", "ours\n", 0o644)
    assert (path.stat().st_uid, path.stat().st_gid) == (0, 0)
    tuning_store.put_back(str(tmp_path), "/etc/limits.conf", json.loads(json.dumps(before)))
    status = path.stat()
    assert (status.st_uid, status.st_gid) == (STRANGERS_UID, STRANGERS_UID + 1)
    assert (stat.S_IMODE(status.st_mode), path.read_bytes()) == (0o640, b"caf\xe9\0\n")


def test_links_and_absence_are_put_back_too(tmp_path):
    (tmp_path / "link").symlink_to("/nowhere")
    before = tuning_store.remember(str(tmp_path), "/link")
    tuning_store.put(str(tmp_path), "/link", "ours\n", 0o644)
    assert not (tmp_path / "link").is_symlink()
    tuning_store.put_back(str(tmp_path), "/link", before)
    assert str((tmp_path / "link").readlink()) == "/nowhere"
    assert tuning_store.remember(str(tmp_path), "/gone") is None
    tuning_store.put(str(tmp_path), "/gone", "ours\n", 0o644)
    tuning_store.put_back(str(tmp_path), "/gone", None)
    assert not (tmp_path / "gone").exists()


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="is not a file: move it away"):
        tuning_store.remember(str(tmp_path), "/folder")


@needs_root
@pytest.mark.parametrize("spoil", ["uid", "gid", "mode", "content", "link"])
def test_what_is_not_as_wanted(tmp_path, spoil):
    tuning_store.put(str(tmp_path), "/a", "x\n", 0o644)
    assert tuning_store.is_as_wanted(str(tmp_path), "/a", "x\n", 0o644)
    path = tmp_path / "a"
    if spoil in ("uid", "gid"):
        os.chown(path, *((STRANGERS_UID, 0) if spoil == "uid" else (0, STRANGERS_UID)))
    elif spoil == "mode":
        path.chmod(0o600)
    elif spoil == "content":
        path.write_text("y\n")
    else:
        path.rename(tmp_path / "b")
        path.symlink_to("b")
    assert not tuning_store.is_as_wanted(str(tmp_path), "/a", "x\n", 0o644)


def test_the_record_of_before_is_roots_alone_and_goes_when_all_is_back(tmp_path, open_mask):
    before = {"schema": 1, "knobs": {"/proc/x": "1"}, "files": {}, "folders": []}
    tuning_store.save(str(tmp_path), before)
    path = tmp_path / tuning_store.BEFORE[1:]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    assert tuning_store.load(str(tmp_path)) == before
    tuning_store.save(str(tmp_path), {**before, "knobs": {}, "files": {"/a": None}})
    assert path.exists()
    tuning_store.save(str(tmp_path), {**before, "knobs": {}})
    assert not path.exists()
    tuning_store.save(str(tmp_path), {**before, "knobs": {}})


@pytest.mark.parametrize(
    "content", ["", "[]", '{"schema": 2, "knobs": {}, "files": {}, "folders": []}', '{"schema": 1}']
)
def test_a_record_that_cannot_be_used_is_no_empty_one(tmp_path, content):
    path = tmp_path / tuning_store.BEFORE[1:]
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(ValueError, match="holds the values to go back to"):
        tuning_store.load(str(tmp_path))


def test_settings_begin_anew_from_a_damaged_record_that_is_set_aside(tmp_path):
    path = tmp_path / tuning_store.BEFORE[1:]
    path.parent.mkdir(parents=True)
    root, torn = str(tmp_path), '{"schema": 1, "knobs": {"sysctl vm.a": 1}, "files": {}, "folders": []}'
    path.write_text(torn)
    for may_write in (False, True):
        before, said = tuning_store.load_to_set(root, may_write)
        assert before == {"schema": 1, "knobs": {}, "files": {}, "folders": []}
        assert "damaged at knobs.sysctl vm.a" in said and "uninstall.yml cannot bring earlier ones back" in said
        assert path.exists() != may_write
    [aside] = path.parent.iterdir()
    assert aside.read_text() == torn and aside.name in said
    # Whoever puts values back is told of it, and of nothing where nothing was lost.
    assert aside.name in tuning_store.lost_before(root)
    assert tuning_store.load_to_set(root, True) == (before, "") and not tuning_store.lost_before(str(tmp_path / "no"))
    path.write_text(torn.replace('"schema": 1', '"schema": 2'))
    with pytest.raises(ValueError, match="holds the values to go back to"):
        tuning_store.load_to_set(root, True)
    assert path.exists()


def test_a_failed_replacement_leaves_nothing_behind(tmp_path, monkeypatch):
    def fails(*arguments: object, **named: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", fails)
    with pytest.raises(OSError, match="not permitted"):
        tuning_store.put(str(tmp_path), "/a", "x", 0o644)
    assert names_in(tmp_path) == []


def test_folders_that_were_made_go_when_they_are_empty(tmp_path):
    made = tuning_store.put(str(tmp_path), "/a/b/c", "x", 0o644)
    assert made == ["/a", "/a/b"]
    assert tuning_store.drop_folders(str(tmp_path), [*made, "/gone"]) == ["/a", "/a/b"]
    (tmp_path / "a/b/c").unlink()
    assert tuning_store.drop_folders(str(tmp_path), made) == [] and not (tmp_path / "a").exists()


# --- preflight.space: the estimate, scaled


SPACE = {
    name: {"mib": mib, "files": files, "download_mib": down}
    for name, mib, files, down in (
        ("driver", 1000, 100, 10),
        ("boot", 50, 5, 0),
        ("cuda", 2000, 200, 20),
        ("cudnn", 4000, 400, 40),
        ("environment", 6000, 600, 60),
        ("tensorflow", 700, 70, 7),
    )
}
PLAN = {
    "driver": {"present": False},
    "cuda": {"version": "12.9"},
    "cudnn": {"version": "9"},
    "pytorch": {"build": "cu128"},
    "tensorflow": {"version": ""},
}
NOTHING_YET = {"cuda": False, "cudnn": False, "environment": False}


def needed(**changes: Any) -> dict[str, tuple[int, int]]:
    plan = {**PLAN, **changes.pop("plan", {})}
    asked = {"space": SPACE, "allow_kernel_update": changes.pop("allow_kernel_update", False)}
    rows = space_needed(plan, {"has": {**NOTHING_YET, **changes}, "initramfs_mib": 90}, asked)
    return {f"{what} in {folder}": (mib, files) for what, folder, mib, files in rows}


def test_what_a_bare_node_needs():
    assert needed() == {
        "driver in /usr": (1000, 100),
        "download of driver in /var": (10, 0),
        "initramfs in /boot": (90, 1),
        "CUDA toolkit in /usr/local": (2000, 200),
        "download of CUDA toolkit in /var": (20, 0),
        "cuDNN in /usr": (4000, 400),
        "download of cuDNN in /var": (40, 0),
        "Python environment in /opt": (6000, 600),
        "download of Python environment in /tmp": (60, 0),
    }


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"cuda": True}, "CUDA toolkit"),
        ({"cudnn": True}, "cuDNN"),
        ({"environment": True}, "Python environment"),
        ({"plan": {"driver": {"present": True}}}, "driver"),
        ({"plan": {"cuda": {"version": ""}}}, "CUDA toolkit"),
        ({"plan": {"cudnn": {"version": ""}}}, "cuDNN"),
    ],
)
def test_what_is_there_or_not_planned_needs_nothing(changes, missing):
    spared = {name for name in needed() if missing in name or (missing == "driver" and "initramfs" in name)}
    assert set(needed()) - set(needed(**changes)) == spared


def test_a_kernel_needs_room_where_kernels_are_and_a_cpu_build_less():
    assert needed(allow_kernel_update=True)["kernel in /boot"] == (50, 5)
    assert "kernel in /boot" not in needed(allow_kernel_update=True, plan={"driver": {"present": True}})
    assert needed(plan={"pytorch": {"build": "cpu"}})["Python environment in /opt"] == (1000, 600)


def test_tensorflow_in_the_environment_is_counted_until_it_is_there():
    wanted = {"plan": {"tensorflow": {"version": "2.20.0"}}}
    assert needed(**wanted)["TensorFlow in /opt"] == (700, 70)
    assert needed(**wanted)["download of TensorFlow in /tmp"] == (7, 0)
    assert "TensorFlow in /opt" not in needed(environment=True, **wanted)


def system(mib: int, inodes: int | None = 1000, device: int = 1) -> dict:
    return {"free_mib": mib, "free_inodes": inodes, "device": device}


NEED = [("driver", "/usr", 1000, 100), ("download of driver", "/var", 100, 0)]


@pytest.mark.parametrize(
    ("percent", "free", "problems"),
    [
        (100, 1100, 0),
        (100, 1099, 1),
        (120, 1320, 0),
        (120, 1319, 1),
        (50, 550, 0),
        (50, 549, 1),
        (0, 0, 0),
        (101, 1110, 1),
    ],
)
def test_the_estimate_is_scaled_by_percent(percent, free, problems):
    found = space_problems({"filesystems": {"/usr": system(free), "/var": system(free)}}, NEED, percent)
    assert len(found) == problems
    assert not problems or f"about {1100 * percent // 100} MiB are needed" in found[0]["problem"]


@pytest.mark.parametrize(
    ("inodes", "percent", "problems"), [(100, 100, 0), (99, 100, 1), (119, 120, 1), (120, 120, 0), (None, 100, 0)]
)
def test_files_are_counted_where_their_number_is_fixed(inodes, percent, problems):
    found = space_problems({"filesystems": {"/usr": system(9000, inodes), "/var": system(9000, inodes)}}, NEED, percent)
    assert len(found) == problems and all("inodes free" in row["problem"] for row in found)


def test_two_file_systems_are_not_summed_and_one_that_cannot_be_read_is_a_problem():
    apart = {"/usr": system(1000), "/var": system(100, device=2)}
    assert space_problems({"filesystems": apart}, NEED, 100) == []
    found = space_problems({"filesystems": {"/usr": system(1000), "/var": None}}, NEED, 100)
    assert [row["problem"] for row in found] == ["The free space of /var cannot be read"]


def test_no_write_keeps_a_file_open(tmp_path):
    before = names_in(Path("/proc/self/fd"))
    report.write_text(str(tmp_path / "a"), "x")
    assert len(names_in(Path("/proc/self/fd"))) == len(before)


def test_what_is_no_record_is_not_read_as_one(tmp_path):
    for text in ("[]", "5", "null", '"x"'):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(ValueError, match="holds no JSON record"):
            report.read_json(str(tmp_path / "a.json"))
    (tmp_path / "a.json").write_text("{}")
    assert report.read_json(str(tmp_path / "a.json")) == {}


def test_an_empty_tree_has_its_folder(tmp_path):
    trees.apply_tree(str(tmp_path / "tree"), {}, [], [])
    assert names_in(tmp_path) == ["tree"]
