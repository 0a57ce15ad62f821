"""The summary in real runs of ansible-playbook: what it prints, in which order, how wide, and when it stays silent."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
COLLECTIONS = REPOSITORY / "collections"
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"

# Returns what it is given, under the name of the module whose results the summary reads.
STUB = """
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"answer": {"type": "dict"}}, supports_check_mode=True)
module.exit_json(**module.params["answer"])
"""


def check(check_id: str, status: str = "PASS", message: str = "fine", action: str = "", value: object = None) -> dict:
    return {"id": check_id, "status": status, "message": message, "action": action, "value": value}


PASSED = {
    "verdict": "PASS",
    "checks": [check("a"), check("b", "SKIP", "why"), check("smoke.amp", value="cpu")],
}
FAILED: dict[str, Any] = {
    "verdict": "FAIL",
    "checks": [
        check("a"),
        check("driver.persistence", "WARN", "off", "systemctl enable --now nvidia-persistenced"),
        check("secure_boot", "UNKNOWN", "cannot tell", "find out"),
        check("gpu.count", "FAIL", "1 of 2 expected", "Compare lspci -d 10de: with the order, " + "then " * 20),
        check("cuda.link", "FAIL", "is a dangling link", "alternatives --display cuda"),
    ],
}
WARNED = {"verdict": "WARN", "checks": [check("driver.persistence", "WARN", "off", "enable it")]}
UNSURE = {"verdict": "UNKNOWN", "checks": [check("driver.ecc", "UNKNOWN", "cannot tell", "make it readable")]}

VERIFY = {"name": "Hold", "gpu_verify": {"answer": "{{ answer }}"}, "when": "answer is defined"}


class Run:
    """A project folder in which small playbooks are run with the plugin enabled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, dict] = {}
        (folder / "library").mkdir()
        (folder / "library" / "gpu_verify.py").write_text(STUB)
        (folder / "ansible.cfg").write_text(
            f"[defaults]\nlibrary = library\nroles_path = roles\ncollections_path = {COLLECTIONS}\n"
            "callbacks_enabled = gpuwright.node.summary\ninventory = hosts.yml\ninterpreter_python = auto_silent\n"
            "[ssh_connection]\nssh_args = -o ConnectTimeout=2 -o BatchMode=yes\n"
        )

    def host(self, name: str, answer: dict | None = None, **variables: object) -> None:
        more = {} if answer is None else {"answer": answer}
        python = {"ansible_python_interpreter": sys.executable}
        self.hosts[name] = {"ansible_connection": "local", **python, **more, **variables}

    def lost_host(self, name: str, **variables: Any) -> None:
        self.host(name, **{"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1, **variables})

    def role(self, name: str, tasks: list[dict]) -> None:
        path = self.folder / "roles" / name / "tasks" / "main.yml"
        path.parent.mkdir(parents=True)
        path.write_text(yaml.safe_dump(tasks, sort_keys=False))

    def command(self, tasks: list[dict], play: dict, arguments: tuple[str, ...]) -> list[str]:
        inventory = {"gpu_nodes": {"hosts": self.hosts}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
        plays = [{"name": "P", "hosts": "gpu_nodes", "gather_facts": False, **play, "tasks": tasks}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(plays, sort_keys=False))
        return [str(PLAYBOOK), "play.yml", *arguments]

    def interrupted(self, tasks: list[dict]) -> str:
        """What is printed after Ctrl-C at a task named Sleep."""
        process = subprocess.Popen(
            self.command(tasks, {}, ()),
            cwd=self.folder,
            env=self.environment(GPUWRIGHT_HEARTBEAT_SECONDS="0.5"),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("  ... Sleep"):
                break
        os.killpg(process.pid, signal.SIGINT)
        output = process.stdout.read()
        assert process.wait(timeout=60) != 0
        return output

    def environment(self, **more: str) -> dict[str, str]:
        names = ("PATH", "HOME", "LANG", "PYTHONPATH", "ONCE_FOR_ALL")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        return {**kept, "ANSIBLE_CONFIG": "ansible.cfg", "ANSIBLE_LOCALHOST_WARNING": "0", **more}

    def __call__(self, tasks: list[dict], *arguments: str, play: dict | None = None, **env: str) -> tuple[int, str]:
        done = subprocess.run(
            self.command(tasks, play or {}, arguments),
            cwd=self.folder,
            env=self.environment(**env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert "callback plugin" not in done.stdout, done.stdout
        return done.returncode, done.stdout


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def summary(output: str, ended: bool = True) -> list[str]:
    """The lines from the heading on; the last one of a run that ended, its time, is looked at here."""
    assert output.count("GPU nodes, worst first") == 1, output
    lines = output.split("GPU nodes, worst first\n")[1].splitlines()
    assert not ended or re.fullmatch(r"Total time: \d+ s", lines.pop()), output
    return lines


def test_every_kind_of_end_worst_first(run):
    run.host("a5-01", PASSED)
    run.host("a5-02", FAILED)
    run.lost_host("a5-03")
    run.host("a5-04", stops=True)
    run.host("a5-05", WARNED)
    run.host("a5-06", UNSURE)
    run.host("a5-07")
    long = "kernel-devel-4.18.0-477.10.1.el8_8.x86_64 is not in any repository; choose another kernel or a vault mirror"
    run.role("system_kernel", [{"name": "Look", "ansible.builtin.fail": {"msg": long}, "when": "stops is defined"}])
    tasks = [
        {"name": "Reboot", "ansible.builtin.raw": "true"},
        {"name": "Kernel", "ansible.builtin.include_role": {"name": "system_kernel"}},
        VERIFY,
        {
            "name": "End with the verdict",
            "ansible.builtin.assert": {"that": "answer.verdict in ['PASS', 'WARN']"},
            "when": "answer is defined",
        },
    ]
    code, output = run(tasks, "-f", "10")
    assert code != 0
    lines = summary(output)
    assert lines[:13] == [
        "Failed: 5 of 7 hosts.",
        'a5-03  LOST     unreachable in "Reboot": The host cannot be reached: 127.0.0.1',
        "                port 1 refuses connections [reach.port]",
        "                next: The machine is on, but no ssh server listens: start sshd,",
        "                      or correct ansible_host and ansible_port.",
        "a5-04  STOPPED  system_kernel: kernel-devel-4.18.0-477.10.1.el8_8.x86_64 is not",
        "                in any repository; choose another kernel or a vault mirror",
        "a5-02  FAIL     gpu.count: 1 of 2 expected (+1 more)",
        "a5-06  UNKNOWN  driver.ecc: cannot tell",
        "a5-07  UNKNOWN  not verified in this run; 1 changed",
        "Done: 2 of 7 hosts.",
        "a5-05  WARN     driver.persistence: off",
        "a5-01  PASS     2 checks; 1 more does not apply; smoke test on cpu",
    ]
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1] == "To continue: ansible-playbook play.yml -f 10 -l 'gpu_nodes:!a5-01:!a5-05'"
    advice = lines[lines.index("What to do") + 1 : -1]
    assert advice[0].startswith("  a5-02 gpu.count: Compare lspci -d 10de: with the order, then")
    assert [line for line in advice if not line.startswith("    ")] == [
        advice[0],
        "  a5-02 cuda.link: alternatives --display cuda",
        "  a5-02 secure_boot: find out",
        "  a5-06 driver.ecc: make it readable",
    ]
    assert "\x1b" not in output


def test_a_run_that_verifies_nothing(run):
    run.host("a5-01")
    run.host("a5-02", stops=True)
    run.lost_host("a5-03")
    tasks = [
        {"name": "Change", "ansible.builtin.raw": "true"},
        {
            "name": "Stop",
            "ansible.builtin.command": "sh -c 'echo x; echo deep reason >&2; exit 3'",
            "when": "stops is defined",
        },
    ]
    code, output = run(tasks)
    assert code != 0
    lines = summary(output)
    assert lines[0] == "Failed: 2 of 3 hosts." and lines[1].startswith('a5-03  LOST     unreachable in "Change": ')
    assert lines[-4:] == [
        "a5-02  STOPPED  Stop: deep reason",
        "Done: 1 of 3 hosts.",
        "a5-01  DONE     1 changed",
        "To continue: ansible-playbook play.yml -l 'a5-02,a5-03'",
    ]


def test_a_failure_that_was_rescued_is_none_and_the_last_word_counts(run):
    run.host("a5-01", fine=True)
    run.host("a5-02", fine=False)
    tasks = [
        {
            "block": [{"name": "Install", "ansible.builtin.fail": {"msg": "raw error of dnf"}}],
            "rescue": [
                {
                    "name": "Say it in words",
                    "ansible.builtin.fail": {"msg": ["alice holds", "the package lock"]},
                    "when": "not fine",
                }
            ],
        },
        {"name": "Ignored", "ansible.builtin.fail": {"msg": "no matter"}, "ignore_errors": True},
    ]
    _code, output = run(tasks)
    assert summary(output) == [
        "Failed: 1 of 2 hosts.",
        "a5-02  STOPPED  Say it in words: alice holds the package lock",
        "Done: 1 of 2 hosts.",
        "a5-01  DONE     0 changed",
        "To continue: ansible-playbook play.yml -l 'a5-02'",
    ]


def test_hosts_that_others_stopped_are_not_done(run):
    run.host("a5-01")
    run.host("a5-02", stops=True)
    tasks = [
        {"name": "Stop", "ansible.builtin.fail": {"msg": "too old"}, "when": "stops is defined"},
        {"name": "Never", "ansible.builtin.command": "true"},
    ]
    _code, output = run(tasks, play={"any_errors_fatal": True})
    assert summary(output) == [
        "a5-01  STOPPED  the run ended because of other hosts; 0 changed",
        "a5-02  STOPPED  Stop: too old",
        "To continue without a5-02: ansible-playbook play.yml -l 'gpu_nodes:!a5-02'",
        "To continue with all, once that is fixed: ansible-playbook play.yml",
    ]


def test_a_good_verdict_does_not_hide_a_later_failure(run):
    run.host("a5-01", PASSED)
    _code, output = run([VERIFY, {"name": "Fetch", "ansible.builtin.fail": {"msg": "disk full"}}])
    assert summary(output) == ["a5-01  STOPPED  Fetch: disk full", "To continue: ansible-playbook play.yml"]


def test_reports_are_named(run):
    run.host("a5-01", {**PASSED, "dest": f"{run.folder}/reports/a5-01.json"})
    _code, output = run([VERIFY])
    assert summary(output)[-1] == f"Report: {run.folder}/reports/a5-01.json"


def test_reports_may_be_named_by_set_stats(run):
    run.host("a5-01", PASSED)
    run.host("a5-02", PASSED)
    stats = {"data": {"gpuwright_reports": ["/r/a5-01.json", "/r/a5-02.json"]}, "per_host": False}
    _code, output = run([VERIFY, {"name": "Say", "ansible.builtin.set_stats": stats, "run_once": True}])
    assert summary(output)[-1] == "Reports: /r"


def test_check_mode_says_that_it_enforces_nothing(run):
    run.host("a5-01", FAILED)
    code, output = run([VERIFY], "--check")
    assert code == 0
    assert summary(output)[0] == "a5-01  FAIL     nothing would change; gpu.count: 1 of 2 expected (+1 more)"
    assert summary(output)[-1] == "Check mode: nothing was changed, and verdicts are not enforced."


def test_check_mode_ends_with_what_would_change_and_reboot(run):
    """By layer and host, instead of a verdict of what was not done."""
    (run.folder / "library" / "change.py").write_text(STUB)
    (run.folder / "library" / "reboot_node.py").write_text(
        STUB.replace('{"answer"', '{"msg": {"type": "str"}, "answer"')
    )
    run.host("a5-01", FAILED, bare=True)
    run.host("a5-02", FAILED, bare=True)
    run.host("a5-03", PASSED, bare=False)
    change = {"change": {"answer": {"changed": True}}, "when": "bare"}
    reboot = {"msg": "gpuwright: nouveau is loaded", "answer": {"changed": True}}
    tasks = [
        {"name": "Install the driver of {{ branch }}", **change, "vars": {"branch": 580}},
        {"name": "Make folders", **change, "loop": [1, 2], "when": "inventory_hostname == 'a5-02'"},
        {"name": "Install the driver of 580", **change},
        {"name": "Reboot, because of it", "reboot_node": reboot, "when": "inventory_hostname == 'a5-01'"},
        VERIFY,
    ]
    code, output = run(tasks, "--check", play={"name": "Of any name", "vars": {"preflight_layer": "system"}})
    assert code == 0
    assert output.split("GPU nodes, worst first")[0].splitlines()[-5:] == [
        "Would change: system",
        "  a5-01, a5-02  Install the driver of 580 (2 times)",
        "  a5-02  Make folders",
        "Would reboot",
        "  a5-01  nouveau is loaded",
    ]
    assert summary(output) == [
        "a5-01  CHECKED  would change 2 (system 2); would reboot: nouveau is loaded",
        "a5-02  CHECKED  would change 3 (system 3)",
        "a5-03  PASS     nothing would change; 2 checks; 1 more does not apply; smoke",
        "                test on cpu",
        "Check mode: nothing was changed, and verdicts are not enforced.",
    ]


def test_check_mode_tells_of_the_controller_too(run):
    run.host("localhost")
    task = {"name": "Make it", "ansible.builtin.file": {"path": f"{run.folder}/new", "state": "directory"}}
    _code, output = run([task], "--check", play={"hosts": "localhost"})
    assert "Would change: p\n  localhost  Make it\n" in output and "GPU nodes" not in output


@pytest.mark.parametrize(("verdict", "answer"), [("PASS", PASSED), ("FAIL", FAILED)])
def test_a_node_may_be_called_localhost(run, verdict, answer):
    """As where somebody prepares the machine that they sit at."""
    run.host("localhost", answer)
    _code, output = run([VERIFY])
    assert [line.split()[:2] for line in summary(output)][0] == ["localhost", verdict]
    assert ("To continue: " in output) is (verdict == "FAIL")


def test_check_mode_of_a_run_that_verifies_nothing(run):
    run.host("a5-01")
    _code, output = run([{"name": "Look", "ansible.builtin.ping": {}}], "--check")
    assert "Would" not in output
    assert summary(output)[0] == "a5-01  CHECKED  nothing would change"


def test_a_task_that_fails_in_check_mode_stays_a_failure(run):
    run.host("a5-01", PASSED)
    _code, output = run([VERIFY, {"name": "Look", "ansible.builtin.fail": {"msg": "no such kernel"}}], "--check")
    assert summary(output)[0] == "a5-01  STOPPED  Look: no such kernel"


def test_what_a_node_says_cannot_repaint_the_terminal(run):
    evil = {"verdict": "FAIL", "checks": [check("gpu.model", "FAIL", "x\x1b[2J\ny\u202e", "\x1b]0;title\x07")]}
    run.host("a5-01", evil)
    _code, output = run([VERIFY])
    lines = summary(output)
    assert lines[0] == "a5-01  FAIL     gpu.model: x [2J y"
    assert all(line.isprintable() for line in lines)


def test_hidden_output_stays_hidden(run):
    run.host("a5-01")
    _code, output = run([{"name": "Log in", "ansible.builtin.fail": {"msg": "hunter2"}, "no_log": True}])
    assert "hunter2" not in output
    assert summary(output)[0] == "a5-01  STOPPED  Log in: failed; its output is hidden (no_log)"


def test_json_output_stays_json(run):
    run.host("a5-01", PASSED)
    done = subprocess.run(
        run.command([VERIFY], {}, ()),
        cwd=run.folder,
        env=run.environment(ANSIBLE_STDOUT_CALLBACK="own_json", ANSIBLE_CALLBACK_PLUGINS="callbacks"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "GPU nodes" not in done.stdout


@pytest.fixture(autouse=True)
def own_json(run):
    """A small stdout plugin that prints JSON, since the real one is not part of ansible-core."""
    folder = run.folder / "callbacks"
    folder.mkdir()
    (folder / "own_json.py").write_text(
        "DOCUMENTATION = '''\nname: own_json\ntype: stdout\nshort_description: x\ndescription: x\n'''\n"
        "from ansible.plugins.callback import CallbackBase\n"
        "class CallbackModule(CallbackBase):\n"
        "    CALLBACK_VERSION = 2.0\n    CALLBACK_TYPE = 'stdout'\n    CALLBACK_NAME = 'own_json'\n"
        "    def v2_playbook_on_stats(self, stats):\n        self._display.display('{}')\n"
    )


def on_a_terminal(run: Run, tasks: list[dict], **env: str) -> str:
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        run.command(tasks, {}, ()),
        cwd=run.folder,
        env=run.environment(TERM="xterm-256color", **env),
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    output = b""
    while True:
        try:
            chunk = os.read(controller, 65536)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
    os.close(controller)
    assert process.wait(timeout=60) == 0
    return output.decode().replace("\r\n", "\n")


def test_colours_on_a_terminal_and_the_same_text_without(run):
    run.host("a5-01", PASSED)
    run.host("a5-02", FAILED)
    coloured = summary(on_a_terminal(run, [VERIFY]))
    assert coloured[1].startswith("a5-02  \x1b[0;31mFAIL   \x1b[0m  gpu.count")
    assert coloured[3].startswith("a5-01  \x1b[0;32mPASS   \x1b[0m  2 checks")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured]
    for variable in ("NO_COLOR", "ANSIBLE_NOCOLOR"):
        assert summary(on_a_terminal(run, [VERIFY], **{variable: "1"})) == plain


def test_heartbeat(run):
    run.host("a5-01", seconds=3.4)
    run.host("a5-02", seconds=0)
    task = {
        "name": "Build the {{ thing }}",
        "ansible.builtin.raw": "sleep {{ seconds }}",
        "vars": {"thing": "module"},
    }
    _code, output = run([task], GPUWRIGHT_HEARTBEAT_SECONDS="1")
    beats = [line for line in output.splitlines() if line.startswith("  ... ")]
    # One a second; on a busy machine more of them, and the first may still wait for both hosts.
    assert len(beats) >= 2, output
    assert beats[-1] == f"  ... Build the module: {len(beats)} s, waiting for a5-01"
    # No line is torn: every heartbeat is a line of its own, and every line of Ansible's is whole.
    assert re.search(r"^changed: \[a5-01\]$", output, re.MULTILINE)


def test_no_heartbeat_of_a_task_that_ends_before_it(run):
    run.host("a5-01")
    _code, output = run([{"ansible.builtin.raw": "true"}], GPUWRIGHT_HEARTBEAT_SECONDS="60")
    assert "  ... " not in output


def test_heartbeats_arrive_while_the_task_runs(run):
    run.host("a5-01")
    process = subprocess.Popen(
        run.command([{"name": "Sleep", "ansible.builtin.raw": "sleep 4"}], {}, ()),
        cwd=run.folder,
        env=run.environment(GPUWRIGHT_HEARTBEAT_SECONDS="0.5"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("  ... Sleep"):
            break
    seen = time.monotonic()
    process.stdout.read()
    process.wait()
    assert time.monotonic() - seen > 1.5


def test_no_heartbeat_when_it_is_switched_off(run):
    run.host("a5-01")
    _code, output = run([{"ansible.builtin.raw": "sleep 1.5"}], GPUWRIGHT_HEARTBEAT_SECONDS="0")
    assert "  ... " not in output


def test_many_forks_and_a_fast_heartbeat_lose_nothing(run):
    for number in range(12):
        run.host(f"n{number:02}")
    tasks = [{"name": f"Step {step}", "ansible.builtin.raw": "sleep 0.3"} for step in range(4)]
    code, output = run(tasks, "-f", "6", GPUWRIGHT_HEARTBEAT_SECONDS="0.1")
    assert code == 0
    assert output.count("changed: [") == 48
    lines = output.splitlines()
    beats = [line for line in lines if "  ... " in line]
    assert beats and all(re.fullmatch(r"  \.\.\. Step \d: \d+ s, waiting for n\d\d.*", line) for line in beats)
    assert all(len(line) <= 80 for line in beats)


def test_a_retry_says_why(run):
    run.host("a5-01")
    (run.folder / "library" / "locked.py").write_text(
        "from ansible.module_utils.basic import AnsibleModule\n"
        "module = AnsibleModule(argument_spec={})\n"
        "module.exit_json(changed=False, locked=True, msg='process 77 (dnf update) holds the package lock')\n"
    )
    task = {"name": "Wait", "locked": {}, "register": "state", "until": "not state.locked", "retries": 3, "delay": 0}
    _code, output = run([task])
    assert output.count("  a5-01: process 77 (dnf update) holds the package lock\n") == 1


def test_the_plugin_documents_its_option():
    text = (REPOSITORY / "plugins/callback/summary.py").read_text().split('DOCUMENTATION = """')[1].split('"""')[0]
    option = yaml.safe_load(text)["options"]["heartbeat_seconds"]
    assert option["default"] == 20 and json.dumps(option["env"])


LEFT_OUT = {
    "name": "Leave out",
    "ansible.builtin.set_fact": {"gpu_node_left_out": {"kind": "busy", "reason": "alice trains.", "next": "Wait."}},
    "when": "busy is defined",
}


def test_an_interrupted_run_says_who_was_left_out(run):
    run.host("a5-01")
    run.host("a5-02", busy=True)
    tasks = [LEFT_OUT, {"name": "Sleep", "ansible.builtin.command": "sleep 60"}]
    output = run.interrupted(tasks)
    assert summary(output, ended=False) == [
        "Left out: 1 of 1 hosts.",
        "a5-02  busy     alice trains.",
        "                next: Wait.",
    ]


@pytest.mark.parametrize("columns", ["40", "60", "200"])
def test_a_narrow_terminal_wraps_and_cuts_nothing(run, columns):
    text = "The package kernel-devel-4.18.0 is in no repository, and its mirror https://mirror.example/el8 is silent"
    run.host("a5-01")
    _code, output = run([{"name": "Look", "ansible.builtin.fail": {"msg": text}}], COLUMNS=columns)
    lines = summary(output)[:-1]
    assert text in " ".join(" ".join(lines).split()) and all(len(line) <= int(columns) for line in lines)


def test_done_names_the_bad_verdict_that_lies_on_the_node(run):
    """A run with --tags verifies nothing."""
    (run.folder / "library" / "gpu_probe.py").write_text(STUB)
    told = {"verdict": "FAIL", "time": "2026-01-05T10:00:00Z"}
    run.host("a5-01", {"ansible_facts": {"gpu_node": {"last_verdict": told}}})
    run.host("a5-02", {"ansible_facts": {"gpu_node": {"last_verdict": None}}})
    code, output = run([{"name": "Probe", "gpu_probe": {"answer": "{{ answer }}"}}])
    assert code == 0
    assert summary(output) == [
        "a5-01  DONE     last verdict FAIL of 2026-01-05T10:00:00Z; 0 changed",
        "a5-02  DONE     0 changed",
    ]
