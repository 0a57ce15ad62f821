"""Run the Ansible modules as the node runs them: the file itself, an args JSON, fake programs first in PATH."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ansible
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# The shared code is imported as by the tools of a node, from the folder that holds the package gpuwright; plug-ins
# import it by the full name of the collection, and are imported by that.
MODULE_UTILS = REPOSITORY / "tests/node_library"
sys.path[:0] = [str(MODULE_UTILS), str(REPOSITORY / "collections")]
# What tests share is imported by its name alone, from whichever folder of tests/unit it lies in.
sys.path[:0] = map(str, (REPOSITORY / "tests/unit").glob("**"))
from warm_python import warm_python  # noqa: E402

# A container's image often sets both. Without them, what some thousand programs of the tests import is compiled once,
# not by each of them, and a program that Python reads from a pipe is read in blocks, not byte by byte.
for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
    os.environ.pop(name, None)
sys.dont_write_bytecode = False
# A condition that is neither true nor false is an error, as it is for ansible-core 2.19 and newer.
os.environ["ANSIBLE_ALLOW_BROKEN_CONDITIONALS"] = "false"
# A shell without job control starts what it puts into the background (make test &) with SIGINT ignored, and so would be
# all that a test starts and then interrupts. From Python's own handler it comes back to the default there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def logs_of_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs of ansible-playbook in this checkout leave their logs with the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUWRIGHT_LOG_FOLDER", str(tmp_path_factory.mktemp("logs")))
        yield


@pytest.fixture(scope="session", autouse=True)
def once_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What Ansible works out in every run is worked out once for all workers: tests/once_for_all/sitecustomize.py."""
    top = tmp_path_factory.getbasetemp()
    folder = (top.parent if "PYTEST_XDIST_WORKER" in os.environ else top) / "once_for_all"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONCE_FOR_ALL", str(folder))
        patch.setenv("PYTHONPATH", str(REPOSITORY / "tests/once_for_all"), prepend=os.pathsep)
        yield


@pytest.fixture
def open_umask() -> Iterator[int]:
    """For what a test makes and another user reads or runs. The value: what the tests themselves run under."""
    before = os.umask(0o022)
    yield before
    os.umask(before)


# Files that take longest, longest first: with those at the end one core would wait for another.
LONGEST = (
    "doctor/test_gpu_doctor.py",
    "doctor/test_scan.py",
    "doctor/test_replay.py",
    "launch/test_gpu_run_calibration.py",
    "operator/test_operator_record.py",
    "plan/test_plan_question.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, the others in their order; tests/run.py has pytest keep it."""
    place = {REPOSITORY / "tests/unit" / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """After a run of test_advice.py: what was followed, in how many steps, and what was not."""
    reports = [one for outcome in ("passed", "failed") for one in terminalreporter.stats.get(outcome, [])]
    if any("/test_advice.py::" in one.nodeid for one in reports):
        import advice

        terminalreporter.section("advice that was followed")
        for line in advice.summary():
            terminalreporter.line(line)


@functools.cache
def node_pythons() -> dict[str, str]:
    """The interpreters that modules are tried under: this one, and a real Python 3.6 where there is one."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    # pyenv's shim named python3.6 may be in PATH and still refuse to run, so every candidate is tried.
    for candidate in [shutil.which("python3.6"), *sorted(pyenv.glob("versions/3.6*/bin/python3.6"))]:
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            found["3.6"] = str(candidate)
            break
    return found


@pytest.fixture(params=sorted(node_pythons()))
def node_python(request: pytest.FixtureRequest) -> str:
    """Path of an interpreter that a node may have; the test runs once for each."""
    return node_pythons()[request.param]


@pytest.fixture(scope="session")
def ansible_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with just what Ansible ships to a node: its module_utils with ours beside them."""
    folder = tmp_path_factory.mktemp("node")
    installed = Path(ansible.__file__).parent
    package = folder / "ansible"
    shutil.copytree(installed / "module_utils", package / "module_utils")
    (package / "__init__.py").write_text("")
    shutil.copy(installed / "release.py", package / "release.py")
    collection = folder / "ansible_collections/gpuwright/node/plugins"
    collection.mkdir(parents=True)
    (collection / "module_utils").symlink_to(REPOSITORY / "plugins/module_utils")
    return folder


@pytest.fixture
def fake_bin(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write an executable script into a folder that `run_module` puts first in PATH."""
    folder = tmp_path / "fake_bin"
    folder.mkdir()

    def write(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(script)
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def on_path(fake_bin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Write a shell script that this process finds before the system's program of that name."""

    def write(name: str, script: str) -> None:
        folder = fake_bin(name, f"#!/bin/sh\n{script}\n").parent
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return write


@pytest.fixture
def run_module(ansible_path: Path, tmp_path: Path, node_python: str) -> Callable[..., dict]:
    """Run `library/<name>.py` with an args JSON; the answer is the module's JSON with `rc` of the process added."""

    def run(name: str, args: dict | None = None, check: bool = False, timeout: float = 60) -> dict:
        arguments = {"_ansible_check_mode": check, "_ansible_diff": True, **(args or {})}
        file = tmp_path / "args.json"
        file.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
        environment = {
            "PATH": f"{tmp_path / 'fake_bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(ansible_path),
            "LANG": "C.UTF-8",
            "HOME": str(tmp_path),
        }
        path = REPOSITORY / "library" / f"{name}.py"
        python = warm_python((node_python,), program=name, PYTHONPATH=str(ansible_path), LANG="C.UTF-8")
        done = python.run(path.read_text(), [str(path), str(file)], environment, timeout, cwd=Path.cwd())
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            raise AssertionError(
                f"{name} printed no JSON (rc {done.returncode}):\n{done.stdout}\n{done.stderr}"
            ) from None
        return {**answer, "rc_process": done.returncode}

    return run


@functools.cache
def installed_library(python: str) -> str:
    """The library as on a node: a copy that everybody may read, compiled by the interpreter that runs it."""
    folder = tempfile.TemporaryDirectory(prefix="library-")
    _kept.append(folder)
    Path(folder.name).chmod(0o755)
    umask = os.umask(0o022)
    try:
        library = Path(folder.name) / "lib"
        shutil.copytree(MODULE_UTILS, library, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run([python, "-m", "compileall", "-q", library], check=True)
        for path in [library, *library.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
    finally:
        os.umask(umask)
    return str(library)


# Removed when the tests end.
_kept: list[tempfile.TemporaryDirectory] = []


@pytest.fixture
def gpu_run(tmp_path: Path, node_python: str) -> Path:
    """The script gpu-run as installed, but with this checkout's library and the interpreter under test."""
    text = (REPOSITORY / "roles/system_runtime/files/gpu-run").read_text()
    for installed, here in {
        "/usr/local/lib/gpuwright": str(MODULE_UTILS),
        "/usr/libexec/platform-python": node_python,
    }.items():
        assert installed in text
        text = text.replace(installed, here)
    path = tmp_path / "bin" / "gpu-run"
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o755)
    return path
