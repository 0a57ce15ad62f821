"""Advice is tried by following it: a node is broken, what is printed is run as it stands, and the check passes.

Where hardware is needed the host is a recorded one: its programs change what it is in, as the real ones do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import advice
import healthy_files
import healthy_node
import pytest
from gpuwright.checks import CHECKS, run_checks
from gpuwright.readings import collect
from gpuwright.verdict import PASS, SKIP
from test_readings import host, node  # noqa: F401

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of the made-up node must belong to root")
MOST_STEPS = 3
XML = healthy_node.DATA / "nvidia_smi/580-v100.xml"


class Recorded:
    """A node of files whose programs keep their state in it."""

    def __init__(self, tree, write: Callable[[str, str], Path], tmp_path: Path) -> None:
        self.tree, self.write, self.state = tree, write, tmp_path / "state"
        self.state.mkdir()
        self.expectations = healthy_node.expectations()
        self.answer = self.state / "answer.xml"
        self.answer.write_text(XML.read_text())
        (self.state / "active-nvidia-persistenced").touch()
        show = healthy_files.SHOWN
        units = f"case \"$1\" in show) cat <<'E'\n{show}E\n;; is-active) [ -e {self.state}/active-$2 ] && echo active"
        units += f' || {{ echo inactive; exit 3; }} ;; enable) [ "$2" = --now ] && touch {self.state}/active-$3 ;; esac'
        write("systemctl", f"#!/bin/sh\n{units}\n")
        change = {"-c 0": "s/Exclusive_Process/Default/", "-mig 0": "/<mig_mode>/,/mig_mode>/s/Enabled/Disabled/"}
        cases = " ".join(f'"{words}") sed -i "{edit}" {self.answer} ;;' for words, edit in change.items())
        write("nvidia-smi", f'#!/bin/sh\ncase "$*" in {cases} *) cat {self.answer} ;; esac\n')
        write(
            "modprobe", f'#!/bin/sh\n[ "$1" = -a ] && shift\nfor name; do mkdir -p {tree.root}/sys/module/$name; done\n'
        )
        card = f"{tree.root}/dev/nvidia0"
        write("nvidia-modprobe", f'#!/bin/sh\n[ "$*" = "-u -c 0" ] && mknod -m 666 {card} c 240 0\n')
        link = f"{tree.root}/dev/char/240:0"
        write("nvidia-ctk", f'#!/bin/sh\n[ "$*" = "system create-dev-char-symlinks" ] && ln -s ../nvidia0 {link}\n')

    def judged(self, check_id: str) -> dict:
        found = collect(self.expectations, self.tree.root)
        records = run_checks(found, self.expectations, healthy_node.smoke())
        return next(record for record in records if record["id"] == check_id)

    def follow(self, action: str) -> None:
        """Run what is printed, as root, with the node's files in the place of this machine's."""
        typed = advice.commands(action)
        assert typed, f"nothing to type in {action!r}"
        for command in typed:
            moved = re.sub(r"(?<=[ '])/(etc|opt|usr|srv|var|dev)/", rf"{self.tree.root}/\1/", command)
            done = subprocess.run(["/bin/sh", "-c", moved], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (command, done.stderr)


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


BREAK: dict[str, Callable[[Recorded], object]] = {
    "containers.device_links": lambda made: (made.tree.folder / "dev/char/240:0").unlink(),
    "containers.one_specification": lambda made: made.tree.put("/etc/cdi/nvidia.yaml", healthy_node.CDI),
    "driver.device_nodes": lambda made: (made.tree.folder / "dev/nvidia0").unlink(),
    "driver.modules": without_module,
    "driver.persistence": lambda made: (made.state / "active-nvidia-persistenced").unlink(),
    "driver.uvm": lambda made: shutil.rmtree(made.tree.folder / "sys/module/nvidia_uvm"),
    "gpu.compute_mode": break_mode("<compute_mode>Default", "<compute_mode>Exclusive_Process"),
    "gpu.mig_mode": cut_into_slices,
    "host.environment": lambda made: made.tree.put(
        "/etc/environment", 'LANG=C.UTF-8\nLD_PRELOAD="/x.so"\n CUDA_LAUNCH_BLOCKING=1\nMY_LD_PRELOAD=y\n'
    ),
    "model.permissions": opened,
}


@pytest.mark.parametrize("check_id", sorted(BREAK))
def test_what_is_printed_repairs_it(recorded, check_id):
    BREAK[check_id](recorded)
    found = recorded.judged(check_id)
    assert found["status"] not in (PASS, SKIP), found
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
    assert [row[0] for row in rows] == [check.id for check in CHECKS]
    assert set(BREAK) == set(advice.HOST) and set(advice.HOST) | set(advice.PLAYBOOK) <= {row[0] for row in rows}
    kinds = {kind: sum(row[2] == kind for row in rows) for kind in ("host", "playbook", "look", "person")}
    print(f"\nadvice: {kinds}; {len(advice.HOST) + len(advice.PLAYBOOK)} actions followed to PASS, at most 1 step each")
    assert sum(kinds.values()) == len(rows)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_no_action_leaves_a_word_to_fill_in_where_the_finding_knows_it(check):
    """NAME and ID in a command are filled by the finding; those that stand in the row are for the page alone."""
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", check.action)
    assert all((Path(__file__).parent / name).exists() for name in advice.PLAYBOOK.values())
