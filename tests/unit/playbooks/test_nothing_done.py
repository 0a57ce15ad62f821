"""A run in which no task began is no success, whatever on the command line has left the tasks out."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
# With the first one, a play that uses the callbacks; --step needs two.
TASKS = "[{name: T, ansible.builtin.raw: 'true'}, {name: U, ansible.builtin.raw: 'true'}]"
THEIRS = f"- {{name: P, hosts: all, gather_facts: false, become: false, tasks: {TASKS}}}\n"


def run(folder: Path, playbook: str, *words: str, answers: str | None = None) -> tuple[int, str]:
    """ansible-playbook at a terminal where somebody types `answers`, else without input; exit status and output."""
    (folder / "hosts.yml").write_text("gpu_nodes: {hosts: {a5-01: {ansible_connection: local}}}\n")
    command = [str(PLAYBOOK), "-i", str(folder / "hosts.yml"), playbook, *words]
    env = {**os.environ, "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"), "GPUWRIGHT_LOG_FOLDER": str(folder)}
    terminal = subprocess.DEVNULL
    if answers is not None:
        typing, terminal = pty.openpty()
        os.write(typing, answers.encode())
    done = subprocess.run(command, cwd=folder, env=env, stdin=terminal, capture_output=True, text=True, timeout=120)
    return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)


PREFLIGHT = "playbooks/preflight.yml"


@pytest.mark.parametrize(
    ("playbook", "words", "says"),
    [
        ("site.yml", ("--start-at-task", "Read teh host"), "has the name 'Read teh host'"),
        (PREFLIGHT, ("--start-at-task", "Read teh host"), "has the name 'Read teh host'"),
        ("site.yml", ("--step",), "--step asks before each task, and nobody agreed to one"),
        (PREFLIGHT, ("--skip-tags", "always"), "--skip-tags always leaves no task"),
        ("playbooks/plan.yml", ("--start-at-task", "Plan"), "has the name 'Plan'"),
    ],
)
def test_a_run_without_a_task_is_no_success(tmp_path: Path, playbook: str, words: tuple[str, ...], says: str) -> None:
    code, output = run(tmp_path, str(REPOSITORY / playbook), "--check", *words)
    assert code not in (0, None), output
    assert "nothing was done on any of them: " in output and says in output and "[run.no_task]" in output
    assert "DONE" not in output


def test_whoever_agrees_to_no_step_has_done_nothing(tmp_path: Path) -> None:
    code, output = run(tmp_path, str(REPOSITORY / "playbooks/preflight.yml"), "--check", "--step", answers="n\n" * 40)
    assert code != 0 and "nobody agreed to one" in output and "[run.no_task]" in output, output


def test_a_run_that_ends_at_a_question_says_that_it_is_a_part(tmp_path: Path) -> None:
    """Ctrl-D at the second one."""
    (tmp_path / "theirs.yml").write_text(THEIRS)
    code, output = run(tmp_path, "theirs.yml", "--step", answers="y\n\x04")
    assert code != 0 and "With --step, only the tasks were run that somebody agreed to" in output, output


def test_a_site_s_own_playbook_ends_as_ansible_ends_it(tmp_path: Path) -> None:
    (tmp_path / "theirs.yml").write_text(THEIRS)
    assert run(tmp_path, "theirs.yml", "--start-at-task", "nothing of ours")[0] == 0
    assert run(tmp_path, "theirs.yml", "--skip-tags", "all")[0] == 0
