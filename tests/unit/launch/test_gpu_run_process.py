"""gpu-run as a process: it must become the command and leave nothing of itself but the settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPT = REPOSITORY / "roles" / "system_runtime" / "files" / "gpu-run"
REAL_LIBRARY = next(Path("/").glob("lib/*/libm.so.6"), None) or Path("/lib64/libm.so.6")
Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def run(gpu_run: Path) -> Run:
    def start(*arguments: str, env: dict | None = None, **more: object) -> subprocess.CompletedProcess:
        environment = {"PATH": os.environ["PATH"], **(env or {})}
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 30, **more}
        return subprocess.run([gpu_run, *arguments], env=environment, **options)

    return start


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_code_is_the_commands(run: Run, code: int) -> None:
    assert run("--", "sh", "-c", f"exit {code}").returncode == code


def test_death_by_signal_is_the_commands(run: Run) -> None:
    assert run("--", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_no_process_stays_behind(gpu_run: Path) -> None:
    with subprocess.Popen([gpu_run, "--", "sh", "-c", "echo $$"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and int(process.stdout.read()) == process.pid


def test_input_and_both_outputs_pass_through(run: Run) -> None:
    done = run("--", "sh", "-c", "cat; echo err >&2", input="some\ninput")
    assert (done.stdout, done.stderr) == ("some\ninput", "err\n")


def test_two_dashes_may_be_missing_as_below_torchrun(run: Run) -> None:
    assert run("--allocator", "none", "sh", "-c", 'echo "$0" "$1" "$2"', "--gpus", "--", "x").stdout == "--gpus -- x\n"


def test_arguments_pass_through_untouched(run: Run) -> None:
    words = ["-x", "--help", "--gpus", "a b", "", "$(id)", "ä", "--", "*"]
    done = run("--", sys.executable, "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *words)
    assert json.loads(done.stdout) == words


def test_signals_that_python_ignores_are_restored(run: Run) -> None:
    def ignored(*command: str) -> int:
        status = run(*command, "cat", "/proc/self/status").stdout
        return int(next(line for line in status.splitlines() if line.startswith("SigIgn")).split()[1], 16)

    assert ignored("--") & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)) == 0


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT])
def test_signals_that_the_caller_ignores_stay_ignored(run: Run, number: signal.Signals) -> None:
    def ignore() -> None:
        signal.signal(number, signal.SIG_IGN)

    status = run("--", "cat", "/proc/self/status", preexec_fn=ignore, restore_signals=False).stdout
    ignored = int(next(line for line in status.splitlines() if line.startswith("SigIgn")).split()[1], 16)
    assert ignored >> (number - 1) & 1


@pytest.mark.parametrize("found", ["by its path", "in PATH"])
def test_a_script_without_a_first_line_runs_as_with_env(run: Run, tmp_path: Path, found: str) -> None:
    script = tmp_path / "train"
    script.write_text("echo $0 $*\n")
    script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    command = ["env", str(script)] if found == "by its path" else ["env", "train"]
    bare = subprocess.run([*command, "a", "b"], env={"PATH": path}, capture_output=True, text=True)
    assert bare.stdout == f"{script} a b\n"
    done = run("--", *command[1:], "a", "b", env={"PATH": path})
    assert (done.returncode, done.stdout, done.stderr) == (0, bare.stdout, "")


def test_a_script_beside_is_not_one_of_that_name_in_path(run: Run, tmp_path: Path) -> None:
    for folder in ("here", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train").write_text(f"echo {folder}\n")
        (tmp_path / folder / "train").chmod(0o755)
    path = {"PATH": f"{tmp_path}/path:{os.environ['PATH']}"}
    assert run("--", "./train", cwd=tmp_path / "here", env=path).stdout == "here\n"


def test_an_early_interrupt_ends_it_as_it_would_end_the_command(gpu_run: Path) -> None:
    """Python's own handler would print a traceback; what comes before its first line, Python has to itself."""
    begin = "sys.path.insert(0"
    text = gpu_run.read_text()
    assert text.count(begin) == 1
    gpu_run.write_text(text.replace(begin, f'print("up", flush=True); import time; time.sleep(20); {begin}'))
    command = [str(gpu_run), "--", "sleep", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == -signal.SIGINT


def test_variables_of_the_caller_are_not_the_scripts(run: Run) -> None:
    theirs = {name: "mine" for name in ("python", "key", "value", "ignored")}
    given = dict(line.split("=", 1) for line in run("--", "env", env=theirs).stdout.splitlines())
    assert {name: given[name] for name in theirs} == theirs


def test_environment_gains_only_what_is_reported(run: Run) -> None:
    theirs = {"LANG": "C", "EMPTY": "", "PYTHONPATH": "/nowhere", "ODD": "a=b c"}
    reported = json.loads(run("--json", env=theirs).stdout)["environment"]
    got = dict(entry.split("=", 1) for entry in run("--", "env", "-0", env=theirs).stdout.split("\0") if entry)
    for shells_own in ("PWD", "SHLVL", "_"):
        got.pop(shells_own, None)
    assert got == {"PATH": os.environ["PATH"], **theirs, **reported}


def test_bytes_that_are_no_text_survive(gpu_run: Path) -> None:
    environment = {b"PATH": os.environb[b"PATH"], b"LC_ALL": b"C", b"CUDA_VISIBLE_DEVICES": b"\xff\xfe"}
    done = subprocess.run([gpu_run, "--", "env"], env=environment, capture_output=True, timeout=30)
    assert b"CUDA_VISIBLE_DEVICES=\xff\xfe\n" in done.stdout
    explained = subprocess.run([gpu_run, "--explain"], env=environment, capture_output=True, timeout=30)
    assert explained.returncode == 0 and b"\xff\xfe" in explained.stdout


def test_affinity_of_the_caller_is_not_widened(run: Run) -> None:
    cpu = max(os.sched_getaffinity(0))
    done = run("--", "cat", "/proc/self/status", preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    assert f"Cpus_allowed_list:\t{cpu}\n" in done.stdout


def run_code(python: str, code: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run Python source against the launcher's modules."""
    prelude = f"import os, sys; sys.path.insert(0, {str(REPOSITORY / 'tests/node_library')!r})\n"
    return subprocess.run([python, "-c", prelude + code, *arguments], capture_output=True, text=True, timeout=30)


def test_library_is_in_the_commands_memory(node_python: str) -> None:
    """libm stands in for an allocator: a file that the loader takes, in a folder of root's."""
    if os.getuid() != 0:
        pytest.skip("needs root: a library must belong to root")
    code = """
from gpuwright.launch import launcher
from gpuwright.launch import runtime_policy
runtime_policy.KNOWN_LIBRARIES["tcmalloc"] = (sys.argv[1],)
sys.exit(launcher.main(["--allocator", "tcmalloc", "--", "cat", "/proc/self/maps"]))
"""
    done = run_code(node_python, code, str(REAL_LIBRARY))
    assert REAL_LIBRARY.resolve().name in done.stdout, done.stderr


def test_memory_policy_reaches_the_command_and_never_replaces_the_callers(node_python: str) -> None:
    code = """
from gpuwright.launch.memory_policy import set_memory_policy
print([set_memory_policy("bind", [900]), set_memory_policy("preferred", [0]), set_memory_policy("bind", [0])])
sys.stdout.flush()
os.execvp("cat", ["cat", "/proc/self/numa_maps"])
"""
    first, _, maps = run_code(node_python, code).stdout.partition("\n")
    if "Function not implemented" in first or "Operation not permitted" in first:
        pytest.skip("this kernel or container refuses set_mempolicy: " + first)
    assert first == "['refused by the kernel: Invalid argument', '', 'the caller has already set a memory policy']"
    assert " prefer:0 " in maps or " prefer=0 " in maps


def test_what_the_kernel_refuses_is_reported_and_the_rest_is_done(node_python: str, tmp_path: Path) -> None:
    """A tree with a second node whose CPU is real and whose memory is not."""
    cpu = max(os.sched_getaffinity(0))
    files = {
        "sys/devices/system/node/node900/cpulist": str(cpu),
        "sys/devices/system/node/has_memory": "0,900",
        "sys/bus/pci/devices/0000:3b:00.0/vendor": "0x10de",
        "sys/bus/pci/devices/0000:3b:00.0/class": "0x030200",
        "sys/bus/pci/devices/0000:3b:00.0/numa_node": "900",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    code = """
from gpuwright.launch.launcher import main
main(["--json"], root=sys.argv[1])
sys.stdout.flush()
main(["--", "cat", "/proc/self/status"], root=sys.argv[1])
"""
    done = run_code(node_python, code, str(tmp_path))
    report, end = json.JSONDecoder().raw_decode(done.stdout)
    assert (report["cpus"], report["memory_policy"]) == (str(cpu), "none")
    memory = next(row for row in report["settings"] if row["setting"] == "memory policy")
    assert memory["value"] == "unchanged" and memory["why"].startswith("refused by the kernel: ")
    assert f"Cpus_allowed_list:\t{cpu}\n" in done.stdout[end:]


def test_explain_json_and_dry_run_start_nothing(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "made by the command"
    for option in ("--explain", "--json", "--dry-run"):
        done = run(option, "--", "touch", str(target))
        assert (done.returncode, done.stderr) == (0, "")
        assert not target.exists()
    assert done.stdout.startswith("env ") and done.stdout.endswith(f"-- touch '{target}'\n")


def test_explain_gives_value_reason_and_the_line_by_hand(run: Run) -> None:
    done = run("--explain", env={"OMP_NUM_THREADS": "7"})
    rows = [line.split(None, 2) for line in done.stdout.splitlines()]
    assert ["OMP_NUM_THREADS", "7", "set by the caller"] in rows
    assert "\nby hand: env " in done.stdout and " numactl --physcpubind=" in done.stdout


def test_help_and_version(run: Run) -> None:
    assert run("--version").stdout.startswith("gpu-run 0.")
    usage = run("--help")
    assert usage.returncode == 0
    for option in (
        "--gpus",
        "--node",
        "--memory",
        "--threads",
        "--allocator",
        "--explain",
        "--calibrate",
        "-- command",
    ):
        assert option in usage.stdout


def test_harmful_setting_of_the_caller_is_one_line_on_stderr(run: Run) -> None:
    done = run("--", "echo", "fine", env={"GOMP_CPU_AFFINITY": "0"})
    assert done.stdout == "fine\n"
    assert done.stderr.startswith("gpu-run: warning: GOMP_CPU_AFFINITY=0 ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 125, "no command given"),
        (["--"], 125, "no command given"),
        (["--gpu", "0", "--", "true"], 125, "'--gpu' is not an option of gpu-run"),
        (["--gpus"], 125, "--gpus needs a value"),
        (["--gpus", "99", "--", "true"], 125, "there is no GPU 99"),
        (["--allocator", "mimalloc", "--", "true"], 125, "--allocator 'mimalloc': choose from calibrated, jemalloc"),
        (["--", "no-such-program-anywhere"], 127, "no-such-program-anywhere: command not found"),
        (["--", "/no/such/file"], 127, "/no/such/file: command not found"),
        (["--", ""], 127, ": command not found"),
        (["--", "/etc/passwd"], 126, "/etc/passwd: cannot be executed: Permission denied"),
        (["--", "/etc"], 126, "/etc: cannot be executed"),
    ],
)
def test_bad_command_lines_give_one_line(run: Run, arguments: list, code: int, message: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("gpu-run: ") and done.stderr.count("\n") == 1
    assert message in done.stderr


def test_host_without_python_says_so(tmp_path: Path) -> None:
    text = SCRIPT.read_text()
    for python in ("/usr/libexec/platform-python", "/usr/bin/python3"):
        text = text.replace(python, "/no/such/python")
    script = tmp_path / "gpu-run"
    script.write_text(text)
    done = subprocess.run(["sh", script, "--version"], capture_output=True, text=True)
    assert done.returncode == 127 and "no Python found" in done.stderr
