"""gpu-doctor.pyz in a plain Debian with Python and nothing else: no Ansible, no network, no driver, no card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils import doctor_pyz
from conftest import podman

NAME = f"gpuwright-container-scan-{Path(__file__).stat().st_ino}"
# One command of two: as root and as an ordinary user of the same container.
SCANS = """\
python3 -c 'import ansible' 2>/dev/null && echo Ansible is here >&2
python3 /gpu-doctor.pyz --json
echo " $?"
setpriv --reuid=65534 --regid=65534 --clear-groups python3 /gpu-doctor.pyz --nagios
echo "$?"
"""


@pytest.fixture
def said(plain: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """What the scans printed; the container is there until the test ends, to be looked into."""
    file = doctor_pyz.write(tmp_path)
    command = ["run", "--name", NAME, "--network", "none", "--volume", f"{file}:/gpu-doctor.pyz:ro", plain]
    try:
        done = podman(*command, "sh", "-c", SCANS, check=False, timeout=300)
        yield done.stdout, done.stderr
    finally:
        podman("rm", "--force", NAME, check=False)


def test_it_scans_a_plain_debian_and_leaves_nothing(said):
    out, errors = said
    assert errors == ""
    report, end = json.JSONDecoder().raw_decode(out)
    status, line, other = out[end:].split("\n")[1:4]
    assert report["readings"]["probe"]["os"]["id"] == "debian"
    assert report["readings"]["confinement"]["manager"] is not None
    assert [check for check in report["checks"] if "this check ended with an error" in check["message"]] == []
    assert int(status) == {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 3}[report["verdict"]]
    assert line.startswith("GPU ") and int(other) in (0, 1, 2, 3)
    changed = podman("diff", NAME).stdout.splitlines()
    # The place of the mounted file is all.
    assert [row for row in changed if not row.endswith(("/gpu-doctor.pyz", " /etc", " /run", "/.containerenv"))] == []
