"""The controller's copy of a report, as a play keeps it: the node's words, the one before, modes, refusals."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.verdict_fact import checks_of
from conftest import REPOSITORY
from gpuwright.doctor.verification import answer_of
from gpuwright.verdict.report import write_json
from own_collection import own_collection, own_module

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
REPORT = {"schema": 1, "host": "a5", "time": "2026-01-05T10:00:00Z", "verdict": "PASS", "checks": [], "smoke": None}
REPORT |= {"readings": {"probe": {"name": "Ünïcode {{ 1 + 1 }}"}}, "expectations": {}}


class Site:
    """A play on this machine with a module that answers as told, and the real action."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.reports = folder, folder / "new/reports"
        own_module(folder, "gpu_verify", "")
        action = own_collection(folder) / "plugins/action/gpu_verify.py"
        action.symlink_to(REPOSITORY / "plugins/action/gpu_verify.py")

    def verify(self, report: dict[str, Any], *arguments: str, **options: Any) -> str:
        answer = {"changed": False, **answer_of(report, for_file="--check" not in arguments)}
        program = f"#!{sys.executable}\n# WANT_JSON\nprint({json.dumps(answer)!r})\n"
        (own_collection(self.folder) / "plugins/modules/gpu_verify.py").write_text(program)
        task = {"name": "Check", "gpuwright.node.gpu_verify": {"report_folder": str(self.reports), **options}}
        play = {"hosts": "a5-01", "gather_facts": False, "become": False, "tasks": [task]}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        hosts = {"a5-01": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
        (self.folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        command = [str(PLAYBOOK), "-i", "inventory.yml", "play.yml", *arguments]
        # What the folder and its files are readable by must not depend on the operator's umask.
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            timeout=200,
            umask=0,
        )
        assert (done.returncode == 0) is ("fatal:" not in done.stdout), done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_report_is_kept_as_the_node_has_it_and_the_one_before_beside_it(site: Site) -> None:
    node = site.folder / "report.json"
    write_json(str(node), REPORT)
    site.verify(REPORT)
    file = site.reports / "a5-01.json"
    assert file.read_bytes() == node.read_bytes()
    assert [mode(path) for path in (file, site.reports, site.reports / "previous")] == [0o644, 0o755, 0o755]
    assert not list((site.reports / "previous").iterdir())
    site.verify({**REPORT, "verdict": "WARN"})
    before = site.reports / "previous/a5-01.json"
    assert (json.loads(before.read_text())["verdict"], mode(before)) == ("PASS", 0o644)
    assert json.loads(file.read_text())["verdict"] == "WARN"


def test_what_is_in_the_file_is_not_in_the_answer_too(site: Site) -> None:
    bad, good = (
        {"id": name, "status": status, "message": f"of {name}", "action": ""}
        for name, status in (("gpu.ecc", "FAIL"), ("gpu.count", "PASS"))
    )
    said = site.verify({**REPORT, "verdict": "FAIL", "checks": [bad, good]}, "-v")
    assert "a5-01.json" in said and "readings" not in said and "smoke" not in said
    assert "FAIL gpu.ecc: of gpu.ecc" in said and "gpu.count" not in said, "what failed is in the fact"
    kept = {"dest": str(site.reports / "a5-01.json")}
    assert checks_of(kept) == checks_of({"checks": [bad, good]}) == [bad, good]
    assert checks_of({"dest": str(site.folder / "nowhere")}) == []


def test_check_mode_keeps_nothing_on_the_controller(site: Site) -> None:
    assert "readings" in site.verify(REPORT, "--check", "-v")
    assert not site.reports.exists()


def test_a_folder_that_cannot_be_written_is_named_with_a_way_out(site: Site) -> None:
    (site.folder / "new").write_text("a file")
    said = site.verify(REPORT)
    assert f"{site.reports}" in said and "-e verify_report_dir=FOLDER [verify.folder]" in said
