"""The screen in real runs of ansible-playbook: what is shown, what is only in the log, and how long either is."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from test_summary_callback import FAILED, PASSED, STUB, VERIFY, Run, on_a_terminal
from text_parts import part_of

LONG = "The package kernel-devel-4.18.0 is in no repository, and its mirror https://mirror.example/el8/x86_64 is silent"
# Changes nothing and says nothing. As all `raw` below it needs no module, which costs ten times as much on each host.
QUIET = {"ansible.builtin.raw": "true", "changed_when": False}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.host("a5-01")
    run.host("a5-02")
    return run


@pytest.fixture(autouse=True)
def screen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of this file prints through the callback and keeps its logs beside the playbook."""
    plain = run.environment
    chosen = {"ANSIBLE_STDOUT_CALLBACK": "gpuwright.node.screen", "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml"}
    chosen |= {"ANSIBLE_DISPLAY_SKIPPED_HOSTS": "false", "GPUWRIGHT_LOG_FOLDER": str(run.folder / "logs")}
    monkeypatch.setattr(run, "environment", lambda **more: plain(**{**chosen, **more}))


def logs(run: Run) -> list[Path]:
    return sorted((run.folder / "logs").iterdir())


def log(run: Run) -> str:
    """The one log there is."""
    (path,) = logs(run)
    return path.read_text()


def before_recap(output: str) -> list[str]:
    return output.split("\nPLAY RECAP")[0].splitlines()


def test_one_line_for_each_task_that_changed_something(run) -> None:
    folder = {"path": "{{ playbook_dir }}/{{ inventory_hostname }}{{ item | default('') }}", "state": "directory"}
    tasks = [
        {"name": "Look", "ansible.builtin.ping": {}},
        {"name": "Create the folder of {{ what }}", "ansible.builtin.file": folder, "vars": {"what": "models"}},
        {"name": "Make two", "ansible.builtin.file": folder, "loop": ["a", "b"], "notify": "Tell systemd"},
        {"name": "Once", "ansible.builtin.raw": "true", "run_once": True},
        {
            "name": "There",
            "ansible.builtin.command": "true",
            "delegate_to": "localhost",
            "when": "'02' in inventory_hostname",
        },
        {"name": "Wait", "ansible.builtin.command": "sleep 1", "async": 20, "poll": 1},
    ]
    handlers = [{"name": "Tell systemd", "ansible.builtin.command": "true"}]
    code, output = run(tasks, play={"name": "Of any name", "vars": {"preflight_layer": "system"}, "handlers": handlers})
    assert code == 0
    assert before_recap(output) == [
        "Layer 1 of 1: system",
        "changed  a5-01, a5-02  Create the folder of models",
        "changed  a5-01, a5-02  Make two",
        "changed  a5-01  Once",
        "changed  a5-02  There (on localhost)",
        "changed  a5-01, a5-02  Wait",
        "changed  a5-01, a5-02  Tell systemd",
    ]
    assert "a5-01 : ok=6 changed=5 unreachable=0 failed=0 skipped=1 rescued=0 ignored=0" in output.splitlines()
    assert re.search(r"\nTotal time: \d+ s\nLog: \S+/logs/\d{8}T\d{6}Z-play-\d+\.log\n$", output), output


def test_the_log_has_what_the_default_prints_and_counts_the_screen(run) -> None:
    tasks = [
        {"name": "Look", "ansible.builtin.ping": {}},
        {"name": "Change", "ansible.builtin.command": "echo {{ item }}", "loop": ["a", "b"]},
        {"name": "Say", "ansible.builtin.debug": {"msg": "first\nsecond"}},
        {"name": "Stop", "ansible.builtin.fail": {"msg": LONG}, "when": "'02' in inventory_hostname"},
    ]
    _code, shown = run(tasks, "-f", "1")
    _code, default = run(tasks, "-f", "1", ANSIBLE_STDOUT_CALLBACK="default")
    assert default.count("TASK [") == 4 and "TASK [Look]" not in shown
    wanted = [line.rstrip() for line in default.splitlines() if line.strip() and not line.startswith("Total time")]
    kept = [line.rstrip() for line in log(run).splitlines()]
    missing = [line for line in wanted if line not in kept]
    assert not missing, missing
    assert kept[0] == "playbook: play.yml" and kept[-1] == f"screen: {len(shown.splitlines())} lines"
    assert "\x1b" not in log(run)


def test_only_its_owner_reads_the_log(run) -> None:
    old = os.umask(0)
    try:
        run([QUIET])
    finally:
        os.umask(old)
    (path,) = logs(run)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


def test_a_failure_is_shown_in_full_and_wrapped(run) -> None:
    task = {
        "name": "Install it",
        "ansible.builtin.fail": {"msg": LONG + " for good."},
        "when": "'02' in inventory_hostname",
    }
    code, output = run([{"name": "Look", **QUIET}, task, {"name": "Go", **QUIET}])
    assert code != 0
    head = output.split("\nPLAY RECAP")[0]
    assert "\nTASK [Install it] ****" in head and "TASK [Look]" not in head and "TASK [Go]" not in head
    assert "fatal: [a5-02]: FAILED! =>" in head
    assert LONG in " ".join(head.split())
    assert all(len(line) <= 80 for line in output.splitlines() if "/logs/" not in line), output


def test_every_failed_item_and_what_was_rescued_or_ignored(run) -> None:
    each = {"ansible.builtin.command": "sh -c 'echo said-{{ item }} >&2; exit {{ item }}'", "loop": [0, 3, 4]}
    tried = {"name": "Try", "ansible.builtin.fail": {"msg": "raw words"}}
    tasks = [
        {"name": "Items", **each, "ignore_errors": True},
        {"block": [tried], "rescue": [{"name": "Mend", "ansible.builtin.raw": "true"}]},
    ]
    code, output = run(tasks, "-l", "a5-01")
    assert code == 0
    assert "said-3" in output and "said-4" in output and "said-0" not in output
    assert output.count("TASK [Items]") == 1 and "...ignoring" in output
    assert "raw words" in output and "changed  a5-01  Mend" in output


def test_an_unreachable_host(run) -> None:
    run.lost_host("a5-09")
    _code, output = run([{"name": "Reach", "ansible.builtin.ping": {}}])
    assert "TASK [Reach]" in output and "fatal: [a5-09]: UNREACHABLE!" in output


def test_what_roles_say_is_shown_in_full(run) -> None:
    screens = "Press any key\n  1. Enroll MOK    2. Continue\n\n  3. " + "word " * 30
    tasks = [
        {"name": "Show the console", "ansible.builtin.debug": {"msg": screens}},
        {"name": "Own", "ansible.builtin.debug": {"msg": "I am {{ inventory_hostname }}"}},
        {"name": "Rows", "ansible.builtin.debug": {"msg": "row {{ item }}"}, "loop": ["x", "y"]},
        {"name": "List", "ansible.builtin.debug": {"msg": ["one", "two"]}},
        {"name": "Fact", "ansible.builtin.debug": {"var": "group_names"}},
        {"name": "Quiet", "ansible.builtin.assert": {"that": "true"}},
        {"name": "Hidden", "ansible.builtin.debug": {"msg": "hunter2"}, "no_log": True},
    ]
    _code, output = run(tasks)
    lines = before_recap(output)
    start = lines.index("note     a5-01, a5-02  Show the console:")
    assert lines[start + 1 : start + 4] == ["Press any key", "  1. Enroll MOK    2. Continue", ""]
    assert " ".join(lines).count("word") == 30 and all(len(line) <= 80 for line in lines)
    for text in ("I am a5-01", "I am a5-02", "row x", "row y", "one", "two", "gpu_nodes"):
        assert text in output
    assert "hunter2" not in output + log(run) and "All assertions" not in output


def test_no_log_stays_hidden_on_the_screen_and_in_the_log(run) -> None:
    secret = {"ansible.builtin.command": "echo hunter2", "no_log": True}
    failing = {"ansible.builtin.command": "sh -c 'echo hunter2; exit 1'", "no_log": True, "ignore_errors": True}
    copy = {"content": "hunter2\n", "dest": "{{ playbook_dir }}/secret"}
    tasks = [
        {"name": "One", **secret},
        {"name": "Two", **failing},
        {"name": "Three", **failing, "loop": [1, 2]},
        {"name": "Four", "ansible.builtin.copy": copy, "no_log": True},
    ]
    _code, output = run(tasks, "--diff", "-l", "a5-01")
    assert "changed  a5-01  One" in output and "hidden" in output
    assert "hunter2" not in output + log(run)


def test_warnings_say_what_they_are_about(run) -> None:
    (run.folder / "library" / "warns.py").write_text(
        "from ansible.module_utils.basic import AnsibleModule\nmodule = AnsibleModule(argument_spec={})\n"
        "module.warn('the clock is 300 s behind')\nmodule.exit_json()\n"
    )
    _code, output = run([{"name": "Read the clock", "warns": {}}], "-l", "a5-01")
    assert "warning  a5-01  Read the clock\n[WARNING]: the clock is 300 s behind\n" in output
    assert "the clock is 300 s behind" in log(run)


def test_tries_are_told_once(run) -> None:
    (run.folder / "library" / "mute.py").write_text(STUB)
    task = {
        "name": "Wait for it",
        "mute": {"answer": {"changed": False}},
        "register": "it",
        "until": "it.there is defined",
    }
    _code, output = run([{**task, "retries": 3, "delay": 0, "ignore_errors": True}], "-l", "a5-01")
    assert output.count("again    a5-01  Wait for it (") == 1 and "RETRYING" not in output
    assert log(run).count("FAILED - RETRYING: [a5-01]: Wait for it") == 3


def test_differences_of_files_and_no_records(run) -> None:
    copy = {"content": "new: 1\n", "dest": "{{ playbook_dir }}/policy.conf", "mode": "0600"}
    tasks = [
        {"name": "Write its policy", "ansible.builtin.copy": copy},
        {"name": "Close it", "ansible.builtin.file": {"path": "{{ playbook_dir }}/policy.conf", "mode": "0640"}},
    ]
    _code, output = run(tasks, "--diff", "-l", "a5-01")
    assert "differs  a5-01  Write its policy\n--- before\n" in output and "\n+new: 1\n" in output
    assert (
        f"differs  a5-01  Close it\n  {run.folder}/policy.conf: mode 0600 -> 0640\n" in output
        and '"mode"' not in output
    )
    assert "+new: 1" in log(run)
    _code, output = run(tasks, "-l", "a5-01")
    assert "differs" not in output


def test_layers_are_counted_and_a_play_in_batches_is_named_once(run) -> None:
    plays: list[dict[str, object]] = [
        {
            "name": name,
            "vars": {"preflight_layer": layer},
            "hosts": "gpu_nodes",
            "gather_facts": False,
            "serial": 1,
            "tasks": [QUIET],
        }
        for name, layer in (("Preflight", ""), ("Of any name", "system"), ("Verify", ""))
    ]
    command = run.command([], {}, ())
    (run.folder / "play.yml").write_text(json.dumps(plays))
    done = subprocess.run(command, cwd=run.folder, env=run.environment(), capture_output=True, text=True, timeout=120)
    assert before_recap(done.stdout) == ["Layer 1 of 3: preflight", "Layer 2 of 3: system", "Layer 3 of 3: verify"]


@pytest.mark.parametrize("strategy", ["free", "host_pinned"])
def test_other_strategies_lose_no_change(run, strategy) -> None:
    tasks = [{"name": f"Step {step}", "ansible.builtin.raw": "true"} for step in range(3)]
    _code, output = run(tasks, play={"strategy": strategy})
    found = re.findall(r"^changed  (.*)  (Step \d)$", output, re.MULTILINE)
    assert sorted((host, step) for hosts, step in found for host in hosts.split(", ")) == [
        (host, f"Step {step}") for host in ("a5-01", "a5-02") for step in range(3)
    ]


def test_verbose_is_what_the_default_prints(run) -> None:
    tasks = [{"name": "Change", "ansible.builtin.command": "echo a"}, {"name": "Look", "ansible.builtin.ping": {}}]
    lines = [
        [re.sub(r"\d", "9", line) for line in run(tasks, "-v", "-f", "1", "-l", "a5-01", **chosen)[1].splitlines()]
        for chosen in ({}, {"ANSIBLE_STDOUT_CALLBACK": "default"})
    ]
    assert lines[0][-1].startswith("Log: ") and lines[0][:-1] == lines[1] and any("TASK [Look]" in x for x in lines[0])
    assert "TASK [Look]" in log(run)


# With LC_ALL=C Ansible itself refuses to start.
@pytest.mark.parametrize(
    ("columns", "locale"),
    [("40", {"LC_ALL": "C.UTF-8"}), ("200", {"LANG": "C"}), ("80", {"PYTHONIOENCODING": "ascii"})],
)
def test_any_width_and_locale(run, columns, locale) -> None:
    name = "Install what the matrix has for this node, which is a long name for a task – with a dash"
    tasks = [
        {"name": name, "ansible.builtin.raw": "true"},
        {"name": "Say", "ansible.builtin.debug": {"msg": "é " * 60}},
    ]
    code, output = run(tasks, COLUMNS=columns, **locale)
    assert code == 0, output
    lines = [line for line in before_recap(output) if not line.startswith("[WARNING]")]
    assert all(len(line) <= int(columns) for line in lines) and "matrix" in output and "é" in log(run)


def test_colours_on_a_terminal_alone(run) -> None:
    task = {"name": "Change", "ansible.builtin.raw": "true"}
    assert "\x1b[0;33mchanged\x1b[0m  a5-01, a5-02  Change" in on_a_terminal(run, [task])
    assert "\x1b" not in log(run)
    assert "\x1b" not in on_a_terminal(run, [task], NO_COLOR="1")


def test_json_on_stdout_stays_json(run) -> None:
    """The plugin that is asked for prints; this one writes no log, and the summary goes to stderr."""
    callbacks = run.folder / "callbacks"
    callbacks.mkdir()
    (callbacks / "own_json.py").write_text(
        "DOCUMENTATION = '''\nname: own_json\ntype: stdout\nshort_description: x\ndescription: x\n'''\n"
        "import json\nfrom ansible.plugins.callback import CallbackBase\n"
        "class CallbackModule(CallbackBase):\n"
        "    CALLBACK_VERSION = 2.0\n    CALLBACK_TYPE = 'stdout'\n    CALLBACK_NAME = 'own_json'\n"
        "    def v2_playbook_on_stats(self, stats):\n"
        "        self._display.display(json.dumps({h: stats.summarize(h) for h in stats.processed}, indent=2))\n"
    )
    plugins = "callbacks"
    run.hosts.clear()
    run.host("a5-01", PASSED)
    run.host("a5-02", FAILED)
    done = subprocess.run(
        run.command([VERIFY, {"name": "Say", "ansible.builtin.debug": {"msg": "x"}}], {}, ("--check",)),
        cwd=run.folder,
        env=run.environment(ANSIBLE_STDOUT_CALLBACK="own_json", ANSIBLE_CALLBACK_PLUGINS=plugins),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert json.loads(done.stdout)["a5-01"]["ok"] == 2
    assert "Total time: " in done.stderr and not (run.folder / "logs").exists()


def test_the_newest_logs_stay(run) -> None:
    (run.folder / "logs").mkdir()
    for day in range(1, 6):
        (run.folder / f"logs/2026010{day}T100000Z-site-1.log").touch()
    others = ["20260101T100000Z-site-1-keep.log", "20260101T100000Z-site.log", "notes.txt"]
    for name in others:
        (run.folder / "logs" / name).touch()
    run([QUIET], GPUWRIGHT_LOG_KEEP="3")
    names = [path.name for path in logs(run)]
    assert names[2:4] == ["20260104T100000Z-site-1.log", "20260105T100000Z-site-1.log"]
    assert len(names) == 6 and set(others) < set(names)


def test_no_log_where_none_is_wanted(run) -> None:
    code, output = run([QUIET], GPUWRIGHT_LOG_KEEP="0")
    assert code == 0 and "Log: " not in output and "WARNING" not in output and not (run.folder / "logs").exists()


def test_a_log_that_cannot_be_written_is_one_warning(run) -> None:
    (run.folder / "file").touch()
    tasks = [{"name": "Change", "ansible.builtin.raw": "true"}]
    code, output = run(tasks, GPUWRIGHT_LOG_FOLDER=str(run.folder / "file" / "logs"))
    assert code == 0 and "Log: " not in output
    assert output.count("[WARNING]") == 1 and "the log of this run cannot be written to" in output
    assert "changed  a5-01, a5-02  Change" in output


def test_a_disk_that_fills_up_is_one_warning(run) -> None:
    """/dev/full is what a full disk answers."""
    (run.folder / "callbacks").mkdir()
    # The log goes to a place that takes nothing, from its first line on.
    (run.folder / "sitecustomize.py").write_text(
        "import os\nopened = os.open\n"
        "def open(path, *more, **named):\n"
        "    return opened('/dev/full', os.O_WRONLY) if str(path).endswith('.log') else opened(path, *more, **named)\n"
        "os.open = open\n"
    )
    tasks = [{"name": f"Change {step}", "ansible.builtin.raw": "true"} for step in range(3)]
    code, output = run(tasks, PYTHONPATH=str(run.folder))
    assert code == 0 and "Log: " not in output
    assert output.count("[WARNING]") == 1 and "No space left on device" in " ".join(output.split())
    assert "changed  a5-01, a5-02  Change 2" in output


def test_two_runs_at_once_have_a_log_each(run) -> None:
    command = run.command([{"name": "Sleep", "ansible.builtin.raw": "sleep 1"}], {}, ())
    both = [
        subprocess.Popen(command, cwd=run.folder, env=run.environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    named = [part_of(r"^Log: (.*)$", one.communicate(timeout=120)[0], re.MULTILINE) for one in both]
    assert sorted(named) == [str(path) for path in logs(run)] and len(set(named)) == 2
    assert all(path.read_text().count("TASK [Sleep]") == 1 for path in logs(run))


def test_an_interrupted_run_names_its_log(run) -> None:
    told = {"kind": "busy", "reason": "alice trains.", "next": "Wait."}
    tasks = [
        {"name": "Out", "ansible.builtin.set_fact": {"gpu_node_left_out": told}},
        {"name": "Sleep", "ansible.builtin.command": "sleep 60"},
    ]
    output = run.interrupted(tasks)
    (path,) = logs(run)
    assert output.splitlines()[-1] == f"Log: {path}"
    # What is said after the interrupt is in the log as well.
    assert "alice trains." in output and "alice trains." in path.read_text()
    assert path.read_text().splitlines()[-1].startswith("screen: ")


def test_somebody_is_asked_at_the_terminal(run) -> None:
    """The question of `pause` is shown, and what was changed before it."""
    tasks = [
        {"name": "Change", "ansible.builtin.raw": "true"},
        {"name": "Ask", "ansible.builtin.pause": {"prompt": "Is the console at hand"}, "register": "answer"},
        {"name": "Say", "ansible.builtin.debug": {"msg": "you said {{ answer.user_input }}"}},
    ]
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        run.command(tasks, {}, ("-l", "a5-01")),
        cwd=run.folder,
        env=run.environment(ANSIBLE_NOCOLOR="1"),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )
    os.close(terminal)
    seen = b""
    try:
        while b"Is the console at hand" not in seen:
            assert select.select([controller], [], [], 60)[0], seen
            seen += os.read(controller, 4096)
        assert b"changed  a5-01  Change" in seen
        # What is typed before the question's terminal is ready is thrown away, so it is typed again.
        for _attempt in range(30):
            os.write(controller, b"yes\r")
            while select.select([controller], [], [], 2)[0] and (chunk := os.read(controller, 4096)):
                seen += chunk
    except OSError:
        pass
    assert process.wait(timeout=60) == 0
    assert "you said yes" in seen.decode()


def test_many_hosts_have_one_line_in_the_recap(run) -> None:
    for number in range(40):
        run.host(f"n{number:02}")
    code, output = run([{"name": "Change", "ansible.builtin.raw": "true"}], "-f", "20")
    assert code == 0
    assert "changed  a5-01, a5-02, n00..n39  Change" in output
    assert len(output.splitlines()) < 20 and "all : ok=42 changed=42" in output
    assert log(run).count("changed: [n") == 40


def test_the_repository_is_set_up_for_it() -> None:
    """As somebody runs it who has changed nothing."""
    shown = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-config"), "dump", "--only-changed", "--format", "json"],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        capture_output=True,
        text=True,
        check=True,
    )
    found = {row["name"]: row["value"] for row in json.loads(shown.stdout) if "name" in row}
    assert found["DEFAULT_STDOUT_CALLBACK"] == "gpuwright.node.screen"
