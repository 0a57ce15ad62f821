"""playbooks/kickstart.yml in real runs: what it writes and what not, and that nobody reads the hash of a password."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY
from machines import A5, DEBIAN, DEFAULTS, HASH, inventory, text

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def play(tmp_path: Path) -> Run:
    """The playbook with an inventory in a folder of its own; no host of it can be reached, and there is no ssh."""

    def run(*arguments: str, hosts: dict | None = None) -> subprocess.CompletedProcess[str]:
        if hosts is not None:
            inventory(tmp_path, hosts)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        kept |= {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_SSH_EXECUTABLE": "/nonexistent/ssh", "COLUMNS": "240"}
        command = [str(PLAYBOOK), "-i", str(tmp_path / "hosts.yml"), "playbooks/kickstart.yml", *arguments]
        return subprocess.run(command, cwd=REPOSITORY, env=kept, capture_output=True, text=True, timeout=120)

    return run


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stdout + done.stderr).split())


def test_a_file_for_each_host_and_nothing_the_second_time(play: Run, tmp_path: Path) -> None:
    hosts = {"a5-01": A5, "deb-01": {**DEBIAN, "admin_password_hash": HASH}}
    done = play("--check", "--diff", hosts=hosts)
    assert done.returncode == 0, said(done)
    assert not (tmp_path / "kickstart").exists() and "+ignoredisk --only-use" in done.stdout
    assert "a5-01 : ok=2 changed=1" in said(done) and HASH not in done.stdout

    done = play("--diff", "-vvv")
    assert done.returncode == 0 and "changed=1" in said(done)
    written = {path.name: path for path in (tmp_path / "kickstart").iterdir()}
    assert sorted(written) == ["a5-01.ks.cfg", "deb-01.preseed.cfg"]
    assert mode(tmp_path / "kickstart") == 0o700 and {mode(path) for path in written.values()} == {0o600}
    assert written["a5-01.ks.cfg"].read_text() == text("rhel-8.8")
    # In a script that is quoted line by line.
    assert f"{HASH}'\"'\"' admin'" in written["deb-01.preseed.cfg"].read_text()
    # At -vvv, Ansible shows what a task was given.
    assert HASH not in done.stdout + done.stderr and "(the hash of a password)" in done.stdout

    for arguments in ((), ("--check", "--diff"), ("--diff",)):
        done = play(*arguments)
        assert done.returncode == 0 and "changed=0" in said(done) and "changed=1" not in said(done)


def test_a_changed_hash_is_said_and_not_shown(play: Run, tmp_path: Path) -> None:
    assert play(hosts={"a5-01": {**A5, "admin_password_hash": HASH}}).returncode == 0
    other = HASH.replace("bbN", "ccN")
    done = play("--diff", hosts={"a5-01": {**A5, "admin_password_hash": other}})
    assert "changed=1" in said(done) and HASH not in done.stdout and other not in done.stdout
    assert "another one" in done.stdout and other in (tmp_path / "kickstart/a5-01.ks.cfg").read_text()


def test_a_file_that_others_can_read_is_closed(play: Run, tmp_path: Path) -> None:
    assert play(hosts={"a5-01": A5}).returncode == 0
    (tmp_path / "kickstart").chmod(0o755)
    (tmp_path / "kickstart/a5-01.ks.cfg").chmod(0o644)
    done = play("--check", "--diff")
    assert "changed=1" in said(done) and "modes 0755 0644" in done.stdout
    assert "changed=1" in said(play()) and mode(tmp_path / "kickstart/a5-01.ks.cfg") == 0o600
    assert mode(tmp_path / "kickstart") == 0o700 and "changed=0" in said(play())


def test_without_variables_one_message_names_all(play: Run, tmp_path: Path) -> None:
    done = play("-l", "a5-01", hosts={"a5-01": {"relase": "8.8"}, "a5-02": A5})
    words = said(done)
    assert done.returncode == 2 and not (tmp_path / "kickstart").exists()
    assert "its variables need 11 corrections" in words and "[kickstart.refused]" in words
    assert "unknown variable kickstart_relase, did you mean kickstart_release? [variable.unknown]" in words
    for name in ("distribution", "release", "mirror", "disk", "interface", "admin", "admin_keys", "ntp_servers"):
        assert f"kickstart_{name} is not set" in words
    # The other host is not in the way, nor is this one in its.
    done = play()
    assert done.returncode == 2 and (tmp_path / "kickstart/a5-02.ks.cfg").is_file()


def test_a_host_without_a_disk_by_id_is_refused(play: Run, tmp_path: Path) -> None:
    done = play(hosts={"a5-01": {**A5, "disk": "/dev/nvme0n1"}})
    assert done.returncode == 2 and not (tmp_path / "kickstart").exists()
    assert "kickstart_disk: must be a whole disk by its id" in said(done) and "need 1 correction:" in said(done)


def test_a_template_in_a_value_is_text_or_refused(play: Run, tmp_path: Path) -> None:
    """Marked !unsafe, it reaches the role as it is; it is never a template of the file."""
    content = yaml.safe_load(inventory(tmp_path, {"a5-01": A5}).read_text())
    lines = yaml.safe_dump(content, width=1000)
    key = A5["admin_keys"][0]
    (tmp_path / "hosts.yml").write_text(lines.replace(f"- {key}", f"- !unsafe '{key} {{{{ 7 * 7 }}}}'"))
    assert play().returncode == 0
    assert f"'{key} {{{{ 7 * 7 }}}}'" in (tmp_path / "kickstart/a5-01.ks.cfg").read_text()


def test_the_login_is_ansibles_unless_another_is_named(play: Run, tmp_path: Path) -> None:
    hosts = {"a5-01": {name: value for name, value in A5.items() if name != "admin"}}
    assert play("-e", "ansible_user=operator", hosts=hosts).returncode == 0
    assert "user --name=operator --groups=wheel --lock" in (tmp_path / "kickstart/a5-01.ks.cfg").read_text()


def test_another_folder(play: Run, tmp_path: Path) -> None:
    other = json.dumps({"kickstart_folder": str(tmp_path / "files/of hosts")})
    assert play("-e", other, hosts={"a5-01": A5}).returncode == 0
    assert mode(tmp_path / "files/of hosts") == 0o700 and not (tmp_path / "kickstart").exists()


def test_the_folder_is_beside_the_reports_unless_another_is_named(play: Run, tmp_path: Path) -> None:
    done = play("--check", "-e", "kickstart_folder=", hosts={"a5-01": A5})
    assert f"{REPOSITORY}/kickstart/a5-01.ks.cfg" in said(done) and not (tmp_path / "kickstart").exists()


def test_a_folder_that_others_use_is_not_closed_to_them(play: Run, tmp_path: Path) -> None:
    shared = tmp_path / "kickstart"
    shared.mkdir()
    shared.chmod(0o755)
    (shared / "index.html").write_text("of a web server\n")
    for arguments in ((), ("--check",)):
        done = play(*arguments, hosts={"a5-01": A5})
        assert done.returncode == 2 and mode(shared) == 0o755 and "has other files (index.html)" in said(done)
        assert "[kickstart.folder]" in said(done) and not (shared / "a5-01.ks.cfg").exists()


def test_values_of_the_command_line_are_text(play: Run, tmp_path: Path) -> None:
    words = "kickstart_root_mib=60000 kickstart_allow_http=yes kickstart_ntp_servers=ntp1.example.com,ntp2.example.com"
    hosts = {"a5-01": {**A5, "mirror": "http://mirror.example.com/x/"}}
    assert play("-e", words, hosts=hosts).returncode == 0
    written = (tmp_path / "kickstart/a5-01.ks.cfg").read_text()
    assert "part / --fstype=xfs --size=60000 " in written and "ntpservers=ntp1.example.com,ntp2.example.com" in written


def test_a_folder_that_cannot_be_made_is_named(play: Run, tmp_path: Path) -> None:
    (tmp_path / "kickstart").write_text("a file\n")
    done = play(hosts={"a5-01": A5})
    assert done.returncode == 2 and f"{tmp_path}/kickstart" in said(done) and "[kickstart.folder]" in said(done)


def test_the_plays_variables_beat_those_of_the_inventory(play: Run, tmp_path: Path) -> None:
    """Nobody becomes root, and nobody is asked over ssh, whatever the inventory says for other plays."""
    inventory(tmp_path, {"a5-01": A5})
    content = yaml.safe_load((tmp_path / "hosts.yml").read_text())
    content["gpu_nodes"]["vars"] |= {"ansible_become": True, "ansible_become_method": "none.such"}
    content["gpu_nodes"]["vars"] |= {"ansible_host": "192.0.2.1", "ansible_connection": "ssh"}
    (tmp_path / "hosts.yml").write_text(json.dumps(content))
    done = play()
    assert done.returncode == 0, said(done)


def test_the_role_asks_for_every_variable_that_it_has() -> None:
    specs = yaml.safe_load((REPOSITORY / "roles/kickstart/meta/argument_specs.yml").read_text())
    assert list(specs["argument_specs"]["main"]["options"]) == list(DEFAULTS)


def test_a_system_or_a_value_that_is_not_offered_is_one_short_refusal(play: Run, tmp_path: Path) -> None:
    """Ansible's own answer was the whole argument spec, and an empty choice."""
    hosts = {
        "ub-01": {"distribution": "ubuntu", "release": "24.04"},
        "el-01": {**A5, "boot_mib": "x", "firmware": "efi", "release": 8.8, "keyboard": 7, "timezone": {"a": 1}},
    }
    done = play(hosts={**hosts, "fed-01": {"distribution": "fedora"}})
    words = said(done)
    assert done.returncode == 2 and not (tmp_path / "kickstart").exists()
    assert "argument_spec" not in words and len(done.stdout.splitlines()) < 60, done.stdout
    above, below = words.split("GPU nodes, worst first")
    assert (
        "for ub-01; its variables need 1 correction: - kickstart_distribution: no installation file is made for"
        in above
    )
    assert 'by hand, as docs/kickstart.md says under "Ubuntu", then run site.yml [kickstart.release]' in below
    assert "kickstart_distribution: must be one of almalinux, debian, rhel, rocky (given: 'fedora')" in above
    assert above.count("kickstart_boot_mib: ") == 1 and "kickstart_boot_mib: must be a whole number" in above
    for name in ("release", "keyboard", "timezone"):
        assert f'kickstart_{name}: must be text in quotes, such as "8.8" [kickstart.value]' in above
    assert "AttributeError" not in words and "TypeError" not in words
    assert "kickstart_firmware: must be one of uefi, bios (given: 'efi') [variable.value]" in above
    assert "## Ubuntu\n" in (REPOSITORY / "docs/kickstart.md").read_text()


def test_a_long_list_is_not_repeated_in_the_table(play: Run) -> None:
    done = play(hosts={"a5-01": {"release": "8.8"}})
    above, below = said(done).split("GPU nodes, worst first")
    assert above.count("kickstart_mirror is not set") == 1 and "is not set" not in below
    assert "its variables need 9 corrections, which are listed above" in below
