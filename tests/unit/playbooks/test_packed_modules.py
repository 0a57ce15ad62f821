"""A module that an earlier run packed is used again, and never one of other code or of somebody else."""

from __future__ import annotations

import base64
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils import packed_modules
from conftest import REPOSITORY
from own_collection import own_module

MODULE = f"{packed_modules.OURS}workload_info-ZIP_DEFLATED"
# An archive without files, as Ansible writes one.
PAYLOAD = base64.b64encode(b"PK\x05\x06" + bytes(18))
# Whether the code is still the one for which a folder is named.
UNCHANGED = functools.partial(bool, 1)
PLAY = """
- hosts: "{{ lookup('gpuwright.node.gpu_nodes') }}"
  gather_facts: false
  tasks: [{gpuwright.node.workload_info: {}}, {ansible.builtin.ping: {}}]
"""


def run(folder: Path, collections: Path = REPOSITORY / "collections") -> str:
    """A play that calls a module of the toolkit and one of Ansible; what Ansible says that it did to pack them."""
    (folder / "play.yml").write_text(PLAY)
    python = f"ansible_python_interpreter: {sys.executable}"
    (folder / "hosts.yml").write_text(
        f"gpu_nodes: {{hosts: {{a: {{}}}}, vars: {{ansible_connection: local, {python}}}}}\n"
    )
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml"],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "ANSIBLE_DEBUG": "1",
            "ANSIBLE_BECOME": "false",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "home" / packed_modules.FOLDER).glob("*/*"))


def test_a_second_run_packs_none_of_ours_again(tmp_path: Path) -> None:
    assert run(tmp_path).count("ANSIBALLZ: Creating module") == 2
    (file,) = kept(tmp_path)
    assert (file.name, file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (MODULE, 0o600, 0o700)
    again = run(tmp_path)
    assert again.count("ANSIBALLZ: Creating module") == 1
    assert re.search(rf"using cached module: \S+/{re.escape(MODULE)}", again)


def test_a_collection_of_links_with_a_module_of_its_own_is_another(tmp_path: Path) -> None:
    own = (REPOSITORY / "library/workload_info.py").read_text() + "# of a test\n"
    own_module(tmp_path / "own", "workload_info", own)
    for collections in (tmp_path / "own/collections", REPOSITORY / "collections"):
        assert run(tmp_path, collections).count("ANSIBALLZ: Creating module") == 2
    assert len(kept(tmp_path)) == 2


@pytest.mark.parametrize(
    ("place", "mode"), [(".", 0o777), ("..", 0o770), (".", 0o702)], ids=["folder", "the one above", "others"]
)
def test_what_others_could_have_written_is_not_sent_to_nodes(tmp_path: Path, place: str, mode: int) -> None:
    run(tmp_path)
    (file,) = kept(tmp_path)
    file.write_text("of somebody")
    (file.parent / place).chmod(mode)
    assert run(tmp_path).count("ANSIBALLZ: Creating module") == 2
    assert file.read_text() == "of somebody"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
@pytest.mark.parametrize("place", ["home/modules/key", "home/modules"])
@pytest.mark.parametrize(("owner", "mode"), [(65534, 0o700), (0, 0o702), (0, 0o770)])
def test_a_folder_that_is_not_ours_alone_is_not_used(tmp_path: Path, place: str, owner: int, mode: int) -> None:
    folder = tmp_path / "home/modules/key"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        each.chmod(0o700)
    (folder / MODULE).write_bytes(PAYLOAD)
    packed_modules.copy(folder, tmp_path / "used")
    assert (tmp_path / "used" / MODULE).exists()
    os.chown(tmp_path / place, owner, 0)
    (tmp_path / place).chmod(mode)
    packed_modules.copy(folder, tmp_path / "not used")
    assert not (tmp_path / "not used").exists()


def test_a_group_of_users_who_write_to_each_others_files_does_not_write_to_these(tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / MODULE).write_bytes(PAYLOAD)
    before = os.umask(0o002)
    try:
        packed_modules.keep(tmp_path / "used", tmp_path / "home/modules/key", UNCHANGED)
    finally:
        os.umask(before)
    packed_modules.copy(tmp_path / "home/modules/key", tmp_path / "now")
    assert (tmp_path / "now" / MODULE).read_bytes() == PAYLOAD


@pytest.mark.parametrize("size", [0, 1, 4000])
def test_a_file_that_a_full_disk_or_a_power_cut_left_short_is_packed_anew(tmp_path: Path, size: int) -> None:
    run(tmp_path)
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:size])
    assert run(tmp_path).count("ANSIBALLZ: Creating module") == 2
    assert len(file.read_bytes()) == len(whole), "and repaired"


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o700)
    (tmp_path / "kept/key").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "elsewhere" / MODULE).write_bytes(PAYLOAD)
    packed_modules.copy(tmp_path / "kept/key", tmp_path / "used")
    assert not (tmp_path / "used").exists()


def test_module_utils_of_the_user_are_packed_with_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_utils").mkdir()
    monkeypatch.setenv("ANSIBLE_MODULE_UTILS", str(tmp_path / "module_utils"))
    run(tmp_path)
    assert kept(tmp_path) == []


def test_other_code_is_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_modules, "ROOT", tmp_path)
    file = tmp_path / "plugins/module_utils/host/files.py"
    file.parent.mkdir(parents=True)
    keys = set()
    for text in ("a = 1", "a = 2"):
        file.write_text(text)
        keys.add(packed_modules._key())
    file.rename(file.with_name("other.py"))
    keys.add(packed_modules._key())
    monkeypatch.setattr(packed_modules.ansible, "__version__", "2.99.0")
    keys.add(packed_modules._key())
    assert len(keys) == 4


def test_folders_that_were_used_last_stay(tmp_path: Path) -> None:
    used, home = tmp_path / "used", tmp_path / "home"
    used.mkdir()
    (used / MODULE).write_bytes(PAYLOAD)
    (used / f"{MODULE}-part").write_bytes(PAYLOAD)
    (used / "ansible.modules.ping-ZIP_DEFLATED").write_bytes(PAYLOAD)
    for age, name in enumerate(("newest", "second", "third", "oldest")):
        packed_modules.keep(used, home / name, UNCHANGED, most=9)
        os.utime(home / name, (10**9 - age, 10**9 - age))
    packed_modules.copy(home / "oldest", tmp_path / "now")
    packed_modules.keep(used, home / "new", UNCHANGED, most=3)
    assert sorted(path.name for path in home.iterdir()) == ["new", "newest", "oldest"]
    assert [path.name for path in (home / "new").iterdir()] == [MODULE]
    assert (tmp_path / "now" / MODULE).read_bytes() == PAYLOAD


def test_code_that_was_changed_during_the_run_is_not_kept_under_its_old_name(tmp_path: Path) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / MODULE).write_bytes(PAYLOAD)
    packed_modules.keep(used, tmp_path / "home/key", lambda: False)
    assert not (tmp_path / "home").exists()


def test_a_disk_that_is_full_or_read_only_is_no_reason_to_fail(tmp_path: Path) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / MODULE).write_bytes(PAYLOAD)
    (tmp_path / "a file").write_text("")
    packed_modules.keep(used, tmp_path / "a file/key", UNCHANGED)
    packed_modules.copy(tmp_path / "a file/key", used)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").mkdir(mode=0o700)
    (tmp_path / "kept/key").mkdir(mode=0o700)
    (tmp_path / "kept/key" / MODULE).write_bytes(PAYLOAD)

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    packed_modules.copy(tmp_path / "kept/key", tmp_path / "used")
    assert list((tmp_path / "used").iterdir()) == []
