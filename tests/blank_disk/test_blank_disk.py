"""From an empty disk to PASS: what Debian's installer made of the preseed, then what docs/rebuild.md says to type.

The tests are in the order of the server's life, and each later one needs the earlier.
"""

from __future__ import annotations

import json
import shlex

import pytest
from gpuwright_fleet.shell import step
from lane import HOST, INTERFACE, SERIAL, Node, provide_wheels
from page_commands import blocks
from playbook_run import REPOSITORY, Run

BOOT_ID = "/proc/sys/kernel/random/boot_id"
PAGE = (REPOSITORY / "docs/rebuild.md").read_text()
# The page's commands in their order, for this server. The first one, of step 1, is typed by the lane's installation.
FILE, DRY_RUN, PROVISION, DEEP_VERIFICATION, AGAIN = (
    shlex.split(command.replace("a5-01", HOST)) for block in blocks(PAGE) for command in block.commands
)


@pytest.fixture(scope="module")
def bare(node: Node) -> dict[str, str]:
    """How the installer left it."""
    return {"boot_id": node.run(f"cat {BOOT_ID}"), "modules": node.run("cat /proc/modules")}


def typed(node: Node, words: list[str]) -> Run:
    """One command of the page; the time that it takes is printed."""
    program, *arguments = words
    assert program == "ansible-playbook"
    with step(shlex.join(words)):
        return node.site.play(*arguments)


@pytest.fixture(scope="module")
def looked_at(node: Node, bare: dict[str, str]) -> Run:
    """Step 3's first line."""
    provide_wheels(node)
    return typed(node, DRY_RUN)


@pytest.fixture(scope="module")
def provisioned(node: Node, looked_at: Run) -> Run:
    """Step 3's second line, with the reboot that a node takes which has never passed."""
    return typed(node, PROVISION)


def test_the_installer_has_left_what_the_preseed_says(node: Node) -> None:
    installed = json.loads(node.run("cat /etc/gpuwright/installed.json"))
    assert installed["disk"] == f"/dev/disk/by-id/virtio-{SERIAL}" and installed["firmware"] == "bios"
    assert node.run("hostname; . /etc/os-release; echo $VERSION_ID; id -un 1000").split() == [HOST, "12", "admin"]
    assert node.run(f"ip -4 -br address show dev {INTERFACE}").split()[1] == "UP"


def test_the_disk_has_the_layout_of_the_preseed(node: Node) -> None:
    rows = node.run("lsblk -b -n -l -o NAME,TYPE,FSTYPE,MOUNTPOINT,SIZE /dev/vda").splitlines()
    parts = {row.split()[-2]: row.split() for row in rows if " part " in row and len(row.split()) == 5}
    assert set(parts) == {"/boot", "[SWAP]", "/", "/scratch"}, rows
    assert parts["/scratch"][2] == "xfs" and parts["/"][2] == parts["/boot"][2] == "ext4"
    assert int(parts["/"][4]) >= 30720 << 20
    assert node.run("stat -c %a /scratch") == "1777"
    assert "noatime" in node.run("findmnt -n -o OPTIONS /scratch")
    assert node.run("blkid -o value -s PTTYPE /dev/vda") == "gpt"


def test_the_administrator_gets_in_by_key_alone(node: Node) -> None:
    settings = node.run("sshd -T | grep -E '^(permitrootlogin|passwordauthentication) '").splitlines()
    assert sorted(settings) == ["passwordauthentication no", "permitrootlogin no"]
    # Neither has a hash that any password has.
    hashes = dict(line.split(":")[:2] for line in node.run("grep -E '^(root|admin):' /etc/shadow").splitlines())
    assert all(value.startswith(("!", "*")) for value in hashes.values()), hashes


def test_only_ssh_is_let_in(node: Node) -> None:
    rules = node.run("nft list chain inet filter input")
    assert "policy drop" in rules and "tcp dport 22 accept" in rules
    states = node.run("systemctl is-active nftables chrony ssh gpuwright-first-boot.path", check=False)
    assert states.split() == ["active"] * 4


def test_the_first_boot_was_without_nouveau(bare: dict[str, str]) -> None:
    assert "nouveau " not in bare["modules"]


def test_nothing_failed_at_its_start(node: Node) -> None:
    assert node.run("systemctl --failed --no-legend --plain", check=False) == ""


def test_the_dry_run_ends_with_the_plan_and_changes_nothing(node: Node, looked_at: Run) -> None:
    assert looked_at.rc == 0, looked_at.output[-6000:]
    assert all(word in looked_at.text for word in ("driver", "CUDA", "PyTorch"))
    assert node.run("dpkg-query -W -f '${Package}\\n' 'nvidia*' 'cuda*'; ls -d /opt/gpuwright", check=False) == ""


def test_site_yml_takes_it_to_pass(node: Node, bare: dict[str, str], provisioned: Run) -> None:
    assert provisioned.rc == 0, provisioned.output[-6000:]
    assert f"{HOST} PASS" in provisioned.text
    assert node.run(f"cat {BOOT_ID}") != bare["boot_id"]


def test_its_record_says_what_is_simulated(node: Node, provisioned: Run) -> None:
    record = node.record()
    assert record["verdict"] == "PASS"
    bad = [check for check in record["checks"] if check["status"] not in ("PASS", "SKIP")]
    assert bad == []


def test_the_message_of_the_waiting_node_is_gone(node: Node, provisioned: Run) -> None:
    assert node.run("cat /etc/motd.d/gpuwright 2>/dev/null", check=False) == ""


def test_it_comes_back_into_service(node: Node, provisioned: Run) -> None:
    deep = typed(node, DEEP_VERIFICATION)
    assert deep.rc == 0 and f"{HOST} PASS" in deep.text, deep.output[-6000:]
    again = typed(node, AGAIN)
    assert (again.rc, again.changed) == (0, 0), again.output[-6000:]


def test_it_passes_again_after_another_start(node: Node, provisioned: Run) -> None:
    before = node.run(f"cat {BOOT_ID}")
    node.run("systemd-run --on-active=2 systemctl reboot")
    node.machine.wait_for(lambda: node.machine.answer(f"cat {BOOT_ID}") not in ("", before))
    settled = "systemctl show -P ActiveState gpuwright-boot-check"
    node.machine.wait_for(lambda: node.machine.answer(settled) in ("active", "failed"))
    assert json.loads(node.run("cat /var/lib/gpuwright/boot-check.json"))["verdict"] == "PASS"
