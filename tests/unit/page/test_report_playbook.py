"""The page alone, from saved reports: no host is contacted for it, and one that is away keeps its last report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import page_samples
import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
INVENTORY = """\
gpu_nodes:
  hosts:
    a5-01: {ansible_host: 192.0.2.1}
    a5-02: {ansible_host: 192.0.2.2}
"""


@pytest.fixture
def run(tmp_path: Path):
    """`ansible-playbook` with an ssh that only remembers that it was called."""
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    (tmp_path / "reports").mkdir()
    called = tmp_path / "ssh-was-called"
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin/ssh"
    ssh.write_text(f"#!/bin/sh\ntouch {called}\nexit 255\n")
    ssh.chmod(0o755)

    def play(*arguments: str) -> subprocess.CompletedProcess:
        command = [str(PLAYBOOK), "-i", str(tmp_path / "hosts.yml"), *arguments]
        command += ["-e", f"verify_report_dir={tmp_path}/reports"]
        environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1"}
        environment["ANSIBLE_SSH_EXECUTABLE"] = str(ssh)
        done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300)
        assert not called.exists(), done.stdout
        return done

    return play


@pytest.mark.parametrize("arguments", [["site.yml", "--tags", "report"], ["playbooks/verify.yml", "-t", "report"]])
def test_the_page_is_made_without_a_host(run, tmp_path, arguments):
    (tmp_path / "reports/a5-01.json").write_text(json.dumps(page_samples.broken()))
    (tmp_path / "reports/a5-02.json").write_text(json.dumps(page_samples.report()))
    done = run(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "reports/index.html").read_text()
    assert "hosts/a5-01.html" in page and "hosts/a5-02.html" in page
    assert "a5-01" in (tmp_path / "reports/hosts/a5-01.html").read_text()
    assert "UNREACHABLE" not in done.stdout and f"Page: {tmp_path}/reports/index.html" in done.stdout


def test_without_a_report_it_says_so(run):
    done = run("site.yml", "--tags", "report")
    assert done.returncode != 0 and "no report there" in " ".join(done.stdout.split())
