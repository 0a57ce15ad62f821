"""Units that no role installs do what docs/security.md says: the drains' service, and a new node's first boot."""

from __future__ import annotations

import re
from pathlib import Path

from machines import units

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = (REPOSITORY / "docs/security.md").read_text()
# What starts the program, and what it may use anyway.
OTHERS = ("Type=", "ExecStart=", "TimeoutStartSec=", "StateDirectory=")
MESSAGE = "/usr/bin/rm -f /etc/motd.d/gpuwright"


def lines_of(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(key + "=")]


def test_the_service_of_the_controller_has_what_the_page_says() -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| `gpuwright-drains`")]
    text = (REPOSITORY / "deploy/slurm/gpuwright-drains.service").read_text()
    found = [line for line in text.split("[Service]\n")[1].splitlines() if line and not line.startswith(OTHERS)]
    assert sorted(re.findall(r"`(\w+=\w+)`", row)) == sorted(found) and found
    assert lines_of(text, "StateDirectory") == ["gpuwright-drains"] and "`/var/lib/gpuwright-drains`" in row


def test_the_service_that_sweeps_has_what_the_page_says() -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| `gpuwright-sweep`")]
    text = (REPOSITORY / "deploy/slurm/gpuwright-sweep.service").read_text()
    others = (*OTHERS, "User=", "WorkingDirectory=", "#")
    found = [line for line in text.split("[Service]\n")[1].splitlines() if line and not line.startswith(others)]
    assert sorted(re.findall(r"`(\w+=\w+)`", row)) == sorted(found) and found
    assert lines_of(text, "User") == ["gpuwright"] and "| `gpuwright`, a user of the site |" in row


def test_the_units_of_a_new_node_do_what_the_page_says() -> None:
    pull = units("rhel-8.8", "pull")["gpuwright-first-boot.service"]
    # Commands after a success alone; systemd runs those of ExecStopPost= after a failure, too.
    assert lines_of(pull, "ExecStartPost") == [MESSAGE, "/usr/bin/systemctl disable --now gpuwright-first-boot.timer"]
    assert len(lines_of(pull, "ExecStart")) == 1 and "ExecStop" not in pull
    wait = units("rhel-8.8", "plain")["gpuwright-first-boot.service"]
    assert lines_of(wait, "ExecStart") == [MESSAGE, "/usr/bin/systemctl disable gpuwright-first-boot.path"]
