"""The last word before a reboot: the tasks of the roles that look at Secure Boot, with what the probe may have read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
SIGNED = {"kernel": "6.1.0-49-amd64", "signer": "DKMS module signing key", "trusted": True, "because": ""}
KEY = {
    "certificate": "/var/lib/dkms/mok.pub",
    "private_key": "/var/lib/dkms/mok.key",
    "state": "enrolled",
    "because": "",
}


def run_task(tmp_path: Path, role: str, file: str, **node: Any) -> subprocess.CompletedProcess[str]:
    """The last task of a task file, for a host whose driver is not there yet."""
    task = yaml.safe_load((REPOSITORY / f"roles/{role}/tasks/{file}.yml").read_text())[-1]
    variables = {"ansible_facts": {"gpu_node": node, "gpu_node_plan": {"driver": {"present": False, "signed": False}}}}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables, "tasks": [task]}
    book = tmp_path / "play.yml"
    book.write_text(json.dumps([play]))
    return subprocess.run(
        [ANSIBLE, "-i", "localhost,", book], capture_output=True, text=True, cwd=tmp_path, check=False
    )


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        # A machine without Secure Boot.
        (None, ""),
        (SIGNED, ""),
        ({**SIGNED, "trusted": False}, "signed by DKMS module signing key and that is not trusted here"),
        ({**SIGNED, "trusted": False, "signer": ""}, "not signed and that is not trusted here"),
        ({**SIGNED, "trusted": None, "because": "MokListRT cannot be read"}, "it is not known"),
    ],
)
def test_a_module_that_would_be_refused_stops_before_the_reboot(tmp_path, signature, words):
    done = run_task(tmp_path, "system_driver", "proof", module_signature=signature)
    assert (done.returncode != 0) is bool(words), done.stdout
    assert words in " ".join(done.stdout.split())
    assert not words or "was not rebooted" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("state", "key", "words"),
    [
        ("disabled", "none", ""),
        ("unsupported", "unknown", ""),
        ("enabled", "enrolled", ""),
        ("enabled", "staged", "mok.pub is staged"),
        ("enabled", "not_enrolled", "is not enrolled"),
        ("enabled", "unknown", "is unknown"),
        ("unknown", "enrolled", "Secure Boot is unknown"),
    ],
)
def test_the_driver_is_not_touched_where_it_would_be_refused(tmp_path, state, key, words):
    node = {"secure_boot": state, "secure_boot_because": "", "module_key": {**KEY, "state": key}}
    done = run_task(tmp_path, "system_driver", "secure_boot", **node)
    said = " ".join(done.stdout.split())
    assert (done.returncode != 0) is bool(words), said
    assert words in said and ("system_kernel_prepare_secure_boot" in said) is bool(words)
