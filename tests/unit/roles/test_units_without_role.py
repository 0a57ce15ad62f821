"""Units that no role installs do what docs/security.md says: the drains' service, and a new node's first boot."""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path.append(str(REPOSITORY / "tests/unit/kickstart"))

from machines import units  # noqa: E402
from test_unit_exposure import PAGE, sandbox_of  # noqa: E402

MESSAGE = "/usr/bin/rm -f /etc/motd.d/gpuwright"


def lines_of(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(key + "=")]


def test_the_service_of_the_controller_has_what_the_page_says() -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| `gpuwright-drains`")]
    text = (REPOSITORY / "deploy/slurm/gpuwright-drains.service").read_text()
    found = [setting for setting in sandbox_of(text) if not setting.startswith(("Type=", "StateDirectory="))]
    assert sorted(re.findall(r"`(\w+=\w+)`", row)) == sorted(found) and found
    assert lines_of(text, "StateDirectory") == ["gpuwright-drains"] and "`/var/lib/gpuwright-drains`" in row


def test_the_units_of_a_new_node_do_what_the_page_says() -> None:
    pull = units("rhel-8.8", "pull")["gpuwright-first-boot.service"]
    # Commands after a success alone; systemd runs those of ExecStopPost= after a failure, too.
    assert lines_of(pull, "ExecStartPost") == [MESSAGE, "/usr/bin/systemctl disable --now gpuwright-first-boot.timer"]
    assert len(lines_of(pull, "ExecStart")) == 1 and "ExecStop" not in pull
    wait = units("rhel-8.8", "plain")["gpuwright-first-boot.service"]
    assert lines_of(wait, "ExecStart") == [MESSAGE, "/usr/bin/systemctl disable gpuwright-first-boot.path"]
