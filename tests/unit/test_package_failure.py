"""What dnf says, turned into what happened and what to do next."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "roles/preflight/filter_plugins/package_failure.py"
SPEC = importlib.util.spec_from_file_location("package_failure", FILE)
MODULE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MODULE)

CASES = [
    (
        {
            "msg": "Failed to install some of the specified packages",
            "failures": ["No package kernel-devel-4.18.0-477.el8.x86_64 available."],
        },
        "no enabled repository has kernel-devel-4.18.0-477.el8.x86_64",
        "dnf list --showduplicates",
    ),
    (
        {"msg": "Failed to download metadata for repo 'epel': Cannot download repomd.xml: All mirrors were tried"},
        "a repository cannot be reached (epel)",
        "curl -I",
    ),
    (
        {"msg": "Failed to validate GPG signature for dkms-3.3.0-1.el8.noarch: Package dkms is not signed"},
        "not signed with the trusted key",
        "Do not switch the check off",
    ),
    (
        {"msg": "Failed to download metadata for repo 'x': repomd.xml GPG signature verification error: Bad GPG"},
        "not signed with the trusted key",
        "Compare the repository's key",
    ),
    ({"msg": "Transaction test error: needs 2100MB more space on the / filesystem"}, "not enough disk space", "df -h"),
    ({"msg": "Depsolve Error occurred: Problem: package a conflicts with b"}, "do not fit together", "module stream"),
    ({"msg": "something new"}, "something new", "dnf install dkms"),
    ({}, "gave no reason", "dnf install dkms"),
]


@pytest.mark.parametrize(("result", "cause", "action"), CASES)
def test_says_cause_evidence_and_next_step(result: dict, cause: str, action: str) -> None:
    text = MODULE.package_failure(result, ["dkms"])
    assert cause in text and action in text
    assert "\n" not in text


def test_a_long_answer_is_cut() -> None:
    assert len(MODULE.package_failure({"msg": "x" * 100_000}, ["dkms"])) < 1000
