"""What dnf says, turned into what happened and what to do next."""

from __future__ import annotations

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures import package_manager as MODULE

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


APT_CASES = [
    (
        {"msg": "No package matching 'nvidia-smi' is available"},
        "no enabled repository has nvidia-smi",
        "apt-cache policy",
    ),
    ({"msg": "E: Version '1-*' for 'nvidia-smi' was not found"}, "no enabled repository has nvidia-smi", "apt-cache"),
    (
        {"msg": "no available installation candidate for cuda-drivers=580.95.05-*"},
        "no enabled repository has cuda-drivers=580.95.05-*",
        "`apt-cache policy 'cuda-drivers'`",
    ),
    (
        {"msg": "Failed to update apt cache: W:Updating from such a repository NO_PUBKEY A4B4"},
        "not signed",
        "apt-get update",
    ),
    (
        {"msg": "Failed to fetch http://m/debian/x.deb  404  Not Found"},
        "cannot be reached (http://m/debian/x.deb)",
        "curl",
    ),
    (
        {"msg": "E: You don't have enough free space in /var/cache/apt/archives/."},
        "not enough disk space",
        "apt-get clean",
    ),
    ({"msg": "The following packages have unmet dependencies: nvidia-smi"}, "do not fit together", "a hold"),
    ({"msg": "E: dpkg was interrupted, you must manually run"}, "could not be set up", "dpkg --configure --pending"),
    (
        {
            "msg": "E:Conflicting values set for option Signed-By regarding source https://x/ /: /a.gpg != /b.asc, "
            "E:The list of sources could not be read."
        },
        "refuses its sources as a whole",
        "The key is not at fault",
    ),
    ({"msg": "something new"}, "something new", "apt-get install dkms"),
]


@pytest.mark.parametrize(("result", "cause", "action"), APT_CASES)
def test_says_the_same_of_apt(result: dict, cause: str, action: str) -> None:
    text = MODULE.package_failure(result, ["dkms"], "debian")
    assert cause in text and action in text
    assert "dnf" not in text


@pytest.mark.parametrize(("result", "cause", "action"), CASES)
def test_says_cause_evidence_and_next_step(result: dict, cause: str, action: str) -> None:
    text = MODULE.package_failure(result, ["dkms"])
    assert cause in text and action in text
    assert "\n" not in text


def test_a_long_answer_is_cut() -> None:
    assert len(MODULE.package_failure({"msg": "x" * 100_000}, ["dkms"])) < 1000


def test_a_command_says_what_it_wrote_and_how_to_repeat_it() -> None:
    """As `dnf reinstall` ends when the newer version is there, too."""
    argv = ["dnf", "--assumeyes", "reinstall", "kmod-nvidia-latest-dkms-570.172.08-1.el8.x86_64"]
    said = "Error: Transaction test error:\n  package kmod-nvidia-latest-dkms-3:570.172.08 is already installed"
    result = {"msg": "non-zero return code", "cmd": argv, "rc": 1, "stdout": "Downloading Packages:", "stderr": said}
    text = MODULE.package_failure(result, [])
    assert "is already installed" in text and f"`{' '.join(argv)}`" in text and "interrupted transaction" in text
    assert "non-zero return code" not in text
