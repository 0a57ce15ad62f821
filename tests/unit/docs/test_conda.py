"""The conda environments hold what the locks hold, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from module_files import load_file
from text_parts import part_of

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = REPOSITORY / "tools/conda.py"
conda = load_file("tools/conda.py")
LOCKS = sorted(file.stem for file in conda.LOCKS.glob("*.txt"))


def pip_lines(text: str) -> list[str]:
    return yaml.safe_load(text)["dependencies"][-1]["pip"]


@pytest.mark.parametrize("lock", conda.KEPT)
def test_the_kept_files_are_up_to_date(lock: str) -> None:
    path = f"../../roles/framework_pytorch/files/locks/{lock}.txt"
    kept = (conda.FOLDER / f"{lock}.yml").read_text()
    assert kept == conda.environment(lock, path), "run `make docs`"
    assert (conda.FOLDER / path).resolve() == conda.LOCKS / f"{lock}.txt"


def test_no_other_file_is_kept() -> None:
    assert {file.stem for file in conda.FOLDER.iterdir()} == set(conda.KEPT)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_lock_becomes_an_environment(lock: str) -> None:
    found = yaml.safe_load(conda.environment(lock, f"{lock}.txt"))
    python, pip, *compilers, section = found["dependencies"]
    # The names of conda-forge, whose Python has its headers.
    assert compilers == ["c-compiler", "cxx-compiler"]
    assert python == "python=" + part_of(r"^py([0-9.]+)-", lock)
    assert pip.startswith("pip>=")
    # Only what pip allows inside a requirements file: that is what conda makes of these lines.
    options = {line.split("=")[0] for line in section["pip"]}
    assert options <= {"--require-hashes", "--only-binary", "--requirement", "--extra-index-url"}
    assert "--require-hashes" in section["pip"] and f"--requirement={lock}.txt" in section["pip"]


def test_a_build_that_pypi_lacks_names_its_index() -> None:
    assert f"--extra-index-url={conda.INDEX}cpu" in pip_lines(conda.environment("py3.11-torch2.13.0-cpu", "x"))
    assert not [line for line in pip_lines(conda.environment("py3.11-torch2.10.0-cu128", "x")) if "index" in line]


def test_pip_reads_these_lines_and_refuses_a_file_with_another_hash(tmp_path: Path) -> None:
    """conda writes them into a requirements file beside the environment file and runs `pip install -r` on it."""
    wheel = tmp_path / "wheels/nothing-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"not what was locked")
    (tmp_path / "lock.txt").write_text(f"nothing==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    lines = [
        line.replace("=py3.11-torch2.10.0-cu128.txt", "=lock.txt")
        for line in pip_lines(conda.environment("py3.11-torch2.10.0-cu128", "py3.11-torch2.10.0-cu128.txt"))
    ]
    (tmp_path / "condaenv.txt").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "pip", "download", "--isolated", "--no-index", "--find-links", str(wheel.parent)]
    command += ["--dest", str(tmp_path / "out"), "--requirement", "condaenv.txt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "DO NOT MATCH THE HASHES" in done.stderr, done.stderr


def test_an_unknown_name_ends_with_2_and_says_which_there_are(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "py3.11-torch9", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "'py3.11-torch9' is no lock file" in done.stderr and LOCKS[0] in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_writes_beside_any_folder(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(PROGRAM), LOCKS[0], "--folder", str(tmp_path)], check=True)
    line = pip_lines((tmp_path / f"{LOCKS[0]}.yml").read_text())[-1]
    assert (tmp_path / line.partition("=")[2]).resolve() == (conda.LOCKS / f"{LOCKS[0]}.txt").resolve()
