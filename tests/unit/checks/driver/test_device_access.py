"""Device files that the trainer may not open: mode and group are named, and who may."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import healthy_node
import pytest
from gpuwright.checks.driver.loaded import CHECKS, device_nodes
from gpuwright.host.access import read_account, read_device_access
from gpuwright.verdict.evidence import Evidence

NAMES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")


def node(root: Path, mode: int, group: str, member: bool) -> dict[str, Any]:
    """Access of the account `trainer` to the files of one card, as a node has them."""
    gid = next(int(line.split(":")[2]) for line in GROUPS.splitlines() if line.startswith(group + ":"))
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("trainer:x:991:991::/var/lib/x:/sbin/nologin\n")
    (root / "etc/group").write_text(GROUPS.replace("video:x:44:", f"video:x:44:{'trainer' if member else ''}"))
    account = read_account(str(root), "trainer")
    status = os.stat_result((0o020000 | mode, 0, 0, 1, 0, gid, 0, 0, 0, 0))
    assert account is not None
    found = read_device_access(str(root), NAMES, account, lambda path: status)
    return {**healthy_node.READINGS, "device_nodes": found}


GROUPS = "root:x:0:\nvideo:x:44:\ntrainer:x:991:\n"


@pytest.mark.parametrize(
    ("mode", "group", "member", "says", "does"),
    [
        (0o600, "root", False, "(mode 0600, group root)", "NVreg_DeviceFileMode"),
        (0o660, "root", False, "(mode 0660, group root)", "NVreg_DeviceFileMode"),
        (0o660, "video", False, "(mode 0660, group video, which has access)", "usermod -aG video trainer"),
        (0o640, "video", True, "(mode 0640, group video)", "NVreg_DeviceFileMode"),
        (0o664, "video", False, "(mode 0664, group video, which has access)", "usermod -aG video trainer"),
    ],
)
def test_mode_and_group_are_named(tmp_path: Path, mode: int, group: str, member: bool, says: str, does: str) -> None:
    readings = node(tmp_path, mode, group, member)
    outcome = device_nodes(
        Evidence(readings, "readings"),
        Evidence({**healthy_node.EXPECTATIONS, "training_user": "trainer"}, "expectations"),
    )
    action = outcome.action or next(row.action for row in CHECKS if row.id == "driver.device_nodes")
    assert outcome.status == "FAIL" and says in outcome.message and does in action, outcome
    assert outcome.message.startswith("trainer may not use /dev/nvidia0")


@pytest.mark.parametrize(("mode", "member"), [(0o660, True), (0o666, False)])
def test_who_may_passes(tmp_path: Path, mode: int, member: bool) -> None:
    readings = node(tmp_path, mode, "video", member)
    outcome = device_nodes(
        Evidence(readings, "readings"),
        Evidence({**healthy_node.EXPECTATIONS, "training_user": "trainer"}, "expectations"),
    )
    assert outcome.status == "PASS", outcome
