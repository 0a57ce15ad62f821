"""docs/verdict.md says what the programs do: every option, every check that may not be waived with its reason."""

from __future__ import annotations

import re
import subprocess
import sys

from conftest import MODULE_UTILS, REPOSITORY
from gpuwright.checks.all import CHECKS
from gpuwright.verdict.check import REMEDIES, SEVERITY, SKIP

PAGE = (REPOSITORY / "docs/verdict.md").read_text()


def test_every_option_of_gpu_doctor_is_on_the_page():
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from gpuwright.doctor.program import main; main(['--help'])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(MODULE_UTILS)], capture_output=True, text=True, timeout=60)
    options = set(re.findall(r"^  (--[a-z]+)", done.stdout, re.MULTILINE))
    assert len(options) > 10 and not [
        option
        for option in options
        if f"`{option}" not in PAGE and f"[{option}" not in PAGE and f" {option} " not in PAGE
    ]


def test_what_may_not_be_waived_is_on_the_page_with_its_reason():
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [(check.id, check.firm_because) for check in CHECKS if check.firm_because]


def test_every_status_and_remedy_is_on_the_page():
    assert not [word for word in (*SEVERITY, SKIP, *REMEDIES) if word not in PAGE]
