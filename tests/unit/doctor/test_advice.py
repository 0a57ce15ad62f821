"""Advice is tried by following it: a node is broken, what is printed is run as it stands, and the check passes.

Where hardware is needed the host is a recorded one: its programs change what it is in, as the real ones do.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import advice
import healthy_containers
import node_names
import pytest
import waiver_rows
from conftest import REPOSITORY
from gpuwright.checks.all import CHECKS
from gpuwright.verdict.check import PASS, SKIP
from initramfs_images import image, module
from recorded_node import LOADED, VERSION_FILE, Recorded
from test_readings import host, node  # noqa: F401

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of the made-up node must belong to root")
MOST_STEPS = 3


@pytest.fixture
def recorded(node, fake_bin, tmp_path):  # noqa: F811
    return Recorded(node, fake_bin, tmp_path)


def break_mode(old: str, new: str) -> Callable[[Recorded], object]:
    return lambda made: made.answer.write_text(made.answer.read_text().replace(old, new, 1))


def cut_into_slices(made: Recorded) -> None:
    text = made.answer.read_text()
    made.answer.write_text(re.sub(r"<mig_mode>.*?</mig_mode>", _slices("Enabled"), text, count=1, flags=re.DOTALL))


def _slices(mode: str) -> str:
    return f"<mig_mode>\n<current_mig>{mode}</current_mig>\n<pending_mig>{mode}</pending_mig>\n</mig_mode>"


def without_module(made: Recorded) -> None:
    made.expectations["modules"] = ["nvidia_peermem", "gdrdrv"]
    for name in ("nvidia_peermem", "gdrdrv"):
        folder = made.tree.folder / "sys/module" / name
        if folder.exists():
            folder.rmdir()


def opened(made: Recorded) -> None:
    for path in ("usr/local/lib/gpuwright/gpuwright/__init__.py", "opt/gpuwright/venvs/abc/gpuwright.json"):
        (made.tree.folder / path).chmod(0o666)
    os.chown(made.tree.folder / "opt/gpuwright/venvs/abc", 65534, 65534)


def inside(tag: str, old: str, new: str) -> Callable[[Recorded], object]:
    """Another value of one field of nvidia-smi's answer."""
    return break_mode(f"<{tag}>{old}", f"<{tag}>{new}")


def repair_waits(part: str) -> Callable[[Recorded], object]:
    tag = f"{part}_repair_pending"
    return break_mode("<ecc_errors>", f"<ecc_errors><{tag}>Yes</{tag}>")


def ecc_off(made: Recorded) -> None:
    made.answer.write_text(re.sub("(?<=_ecc>)Enabled", "Disabled", made.answer.read_text()))


def desktop(made: Recorded) -> None:
    program = "<process_info><pid>7</pid><type>G</type><process_name>/usr/bin/Xorg</process_name></process_info>"
    break_mode("<processes>\n", f"<processes>\n{program}\n")(made)


def with_switch(made: Recorded) -> None:
    made.tree.put("/sys/bus/pci/devices/0000:c0:00.0/vendor", "0x10de\n")
    made.tree.put("/sys/bus/pci/devices/0000:c0:00.0/class", "0x068000\n")


def joining(made: Recorded) -> None:
    with_switch(made)
    fabric = re.compile(r"(?s)(?<=<fabric>).*?(?=</fabric>)")
    waits = "<state>In Progress</state><status>Success</status>"
    made.answer.write_text(fabric.sub(waits, made.answer.read_text()))


def service_down(state: str) -> Callable[[Recorded], object]:
    def act(made: Recorded) -> None:
        made.expectations["services"] = ["slurmd"]
        made.unit("slurmd", f"inactive {state}")

    return act


def closed_to_the_trainer(made: Recorded) -> None:
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (made.tree.folder / "dev" / name).chmod(0o660)
        os.chown(made.tree.folder / "dev" / name, 0, 44)
    made.tree.put("/etc/group", "root:x:0:\nvideo:x:44:alice\ntrainer:x:991:\n")


def another_module(made: Recorded) -> None:
    made.tree.put(VERSION_FILE, LOADED.replace("580.95.05", "570.86.10"))


def firm_waiver(made: Recorded) -> None:
    kept = {"schema": 1, "acknowledgements": [waiver_rows.entry("gpu.count"), waiver_rows.entry("driver.uvm")]}
    made.tree.put("/var/lib/gpuwright/acknowledgements.json", json.dumps(kept))


# By check, and what is broken where one check has several.
BREAK: dict[str, Callable[[Recorded], object]] = {
    "containers.device_links": lambda made: (made.tree.folder / "dev/char/240:0").unlink(),
    "containers.gpu": lambda made: (made.tree.folder / "var/run/cdi/nvidia.yaml").unlink(),
    "containers.one_specification": lambda made: made.tree.put("/etc/cdi/nvidia.yaml", healthy_containers.CDI),
    "driver.device_nodes": lambda made: (made.tree.folder / "dev/nvidia0").unlink(),
    "driver.device_nodes: closed": closed_to_the_trainer,
    "driver.ecc": ecc_off,
    "driver.fabric_manager": with_switch,
    "driver.initramfs": lambda made: made.tree.put(
        f"/boot/initramfs-{node_names.KERNEL}.img", image({"usr/lib/modules/x/extra/nvidia.ko": module("535.261.03")})
    ),
    "driver.module_for_next_kernel": lambda made: (made.state / "not-built").touch(),
    "driver.module_matches_user_space": another_module,
    "driver.modules": without_module,
    "driver.nouveau_absent": lambda made: made.tree.put("/sys/module/nouveau/refcnt", "0\n"),
    "driver.parameters": lambda made: made.tree.put(
        "/etc/modprobe.d/nvidia.conf", "options nvidia NVreg_DeviceFileMode=0666\n"
    ),
    "driver.persistence": lambda made: made.unit("nvidia-persistenced", "inactive enabled"),
    "driver.persistence: masked": lambda made: made.unit("nvidia-persistenced", "inactive masked"),
    "driver.reachable": lambda made: (made.tree.folder / VERSION_FILE.lstrip("/")).unlink(),
    "driver.retired_pages": inside("pending_retirement", "No", "Yes"),
    "driver.uvm": lambda made: shutil.rmtree(made.tree.folder / "sys/module/nvidia_uvm"),
    "gpu.channel_repair": break_mode(
        "<ecc_errors>", "<ecc_errors><channel_repair_pending>Yes</channel_repair_pending>"
    ),
    "gpu.clocks": inside("graphics_clock", "1245", "1005"),
    "gpu.compute_mode": break_mode("<compute_mode>Default", "<compute_mode>Exclusive_Process"),
    "gpu.ecc_pending": inside("pending_ecc", "Enabled", "Disabled"),
    "gpu.fabric": joining,
    "gpu.graphics": desktop,
    "gpu.mig_mode": cut_into_slices,
    "gpu.power_limit": inside("current_power_limit", "250.00", "100.00"),
    "gpu.recovery_action": inside("gpu_recovery_action", "None", "Reset"),
    "gpu.recovery_action: reboot": inside("gpu_recovery_action", "None", "Reboot"),
    "gpu.strikes": lambda made: made.tree.put("/var/lib/gpuwright/strikes.json", "torn"),
    "gpu.tpc_repair": repair_waits("tpc"),
    "host.environment": lambda made: made.tree.put(
        "/etc/environment", 'LANG=C.UTF-8\nLD_PRELOAD="/x.so"\n CUDA_LAUNCH_BLOCKING=1\nMY_LD_PRELOAD=y\n'
    ),
    "host.services": service_down("disabled"),
    "host.services: masked": service_down("masked"),
    "model.permissions": opened,
    "reboot.pending": another_module,
    "waivers.valid": firm_waiver,
    "waivers.valid: damaged": lambda made: made.tree.put("/var/lib/gpuwright/acknowledgements.json", "torn"),
}


@pytest.mark.parametrize("name", sorted(BREAK))
def test_what_is_printed_repairs_it(recorded, name):
    check_id = name.partition(":")[0]
    BREAK[name](recorded)
    found = recorded.judged(check_id)
    assert found["status"] not in (PASS, SKIP), found
    assert name != "waivers.valid" or "cannot be acknowledged" in found["message"]
    steps = 0
    while found["status"] not in (PASS, SKIP):
        steps += 1
        assert steps <= MOST_STEPS, found
        recorded.follow(found["action"])
        found = recorded.judged(check_id)
    assert steps == advice.HOST[check_id]


def test_only_the_lines_that_disturb_are_removed(recorded):
    BREAK["host.environment"](recorded)
    recorded.follow(recorded.judged("host.environment")["action"])
    assert (recorded.tree.folder / "etc/environment").read_text() == "LANG=C.UTF-8\nMY_LD_PRELOAD=y\n"


def test_every_check_has_its_row_and_the_tables_agree():
    rows = advice.table()
    names = {row[0] for row in rows}
    assert [row[0] for row in rows] == [check.id for check in CHECKS]
    assert {name.partition(":")[0] for name in BREAK} == set(advice.HOST)
    assert names >= set(advice.HOST) | set(advice.PLAYBOOK)
    assert {row[2] for row in rows} == {"host", "fleet", "playbook", "look", "person"}
    assert set(advice.HOST.values()) == {1}
    faults = (REPOSITORY / "tests/faults/test_advice.py").read_text()
    assert all(f'"{name}"' in faults for name in advice.FLEET)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_no_action_leaves_a_word_to_fill_in_where_the_finding_knows_it(check):
    """NAME and ID in a command are filled by the finding; those that stand in the row are for the page alone."""
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", check.action)
    there = {path.name for path in Path(__file__).parents[1].rglob("test_*.py")}
    assert set(advice.PLAYBOOK.values()) <= there
