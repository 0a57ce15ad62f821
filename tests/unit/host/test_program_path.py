"""Which programs root runs: never one from a folder that somebody else fills, whatever PATH says."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuwright.host.bounded import find_program, program_environment, run_bounded
from gpuwright.host.program_path import SYSTEM_FOLDERS, cleaned_list, trusted_folders

REPOSITORY = Path(__file__).resolve().parents[3]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root refuses folders of others")
HOSTILE = "#!/bin/sh\necho hostile\n"


@pytest.fixture
def folder(open_umask: int) -> Iterator[Path]:
    """A folder that everybody can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def put(file: Path, text: str = HOSTILE) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    "path", ["", ":", ":/usr/bin", "/usr/bin:", "/usr/bin::/bin", ".", "./:/bin", "bin:/bin", "~/b"]
)
def test_the_working_directory_is_never_searched(folder, monkeypatch, path):
    for name in ("nvidia-smi", "bin/nvidia-smi", "~/b/nvidia-smi"):
        put(folder / name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", path)
    found = find_program("nvidia-smi")
    assert found is None or found.startswith(tuple(SYSTEM_FOLDERS))
    assert "hostile" not in run_bounded(["nvidia-smi"], 5).stdout


@pytest.mark.parametrize("name", ["./nvidia-smi", "bin/nvidia-smi", "../nvidia-smi"])
def test_a_relative_program_is_none(folder, monkeypatch, name):
    put(folder / "here" / name)
    monkeypatch.chdir(folder / "here")
    assert find_program(name) is None
    finished = run_bounded([name], 5)
    assert finished.rc is None and finished.stdout == "" and name in finished.problem


@pytest.mark.parametrize("path", ["", ":/usr/bin:/bin", "/usr/bin:/bin:."])
def test_what_a_program_starts_itself_is_not_found_there_either(folder, monkeypatch, path):
    put(folder / "gpuwright-helper")
    outer = put(folder / "outer", "#!/bin/sh\ngpuwright-helper || echo none\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", path)
    assert run_bounded([str(outer)], 5).stdout == "none\n"


def test_programs_start_in_no_folder_of_the_callers(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert run_bounded(["pwd"], 5).stdout == "/\n"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (":/usr/local/cuda/lib64", "/usr/local/cuda/lib64"),
        ("/a::/b:", "/a:/b"),
        ("lib:/a:./b", "/a"),
        (":", ""),
        (".", ""),
    ],
)
def test_libraries_of_the_working_directory_are_not_loaded(monkeypatch, value, kept):
    """ld.so(8): an empty part of LD_LIBRARY_PATH is the working directory."""
    monkeypatch.setenv("LD_LIBRARY_PATH", value)
    assert program_environment().get("LD_LIBRARY_PATH", "") == cleaned_list(value) == kept


@AS_ROOT
@pytest.mark.parametrize(
    ("owner", "group", "mode", "trusted"),
    [
        (0, 0, 0o755, True),
        (0, 0, 0o775, True),
        (65534, 0, 0o755, False),
        (0, 65534, 0o775, False),
        (0, 65534, 0o755, True),
        (0, 0, 0o757, False),
        (0, 0, 0o1777, False),
    ],
)
def test_root_searches_only_what_root_alone_fills(folder, monkeypatch, owner, group, mode, trusted):
    program = put(folder / "tools" / "gpuwright-thing")
    os.chown(program.parent, owner, group)
    program.parent.chmod(mode)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert (find_program("gpuwright-thing") == str(program)) is trusted
    assert (str(program.parent) in program_environment()["PATH"].split(":")) is trusted


@AS_ROOT
def test_a_folder_that_its_parents_owner_could_replace_is_not_searched(folder, monkeypatch):
    program = put(folder / "home" / "bin" / "gpuwright-thing")
    os.chown(folder / "home", 65534, 65534)
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_program("gpuwright-thing") is None
    # The sticky bit stops everybody but the folder's owner.
    (folder / "home").chmod(0o1755)
    assert find_program("gpuwright-thing") is None
    link = folder / "link"
    link.symlink_to(program.parent)
    monkeypatch.setenv("PATH", str(link))
    assert find_program("gpuwright-thing") is None


@AS_ROOT
def test_a_folder_of_roots_in_one_with_the_sticky_bit_is_searched(folder, monkeypatch):
    program = put(folder / "shared" / "bin" / "gpuwright-thing")
    (folder / "shared").chmod(0o1777)
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_program("gpuwright-thing") == str(program)


@AS_ROOT
def test_an_ordinary_user_keeps_folders_of_their_own(folder):
    """Run by such a user: what they put into their PATH is theirs to run, except the working directory."""
    program = put(folder / "tools" / "gpuwright-thing")
    os.chown(program.parent, 65534, 65534)
    library = folder / "lib/gpuwright"
    (library / "host").mkdir(parents=True)
    for name in ("__init__.py", "host/__init__.py", "host/program_path.py"):
        shutil.copy(REPOSITORY / "plugins/module_utils" / name, library / name)
    script = (
        f"import os, sys; os.setgid(65534); os.setuid(65534); sys.path.insert(0, {str(library.parent)!r})\n"
        f"from gpuwright.host.program_path import trusted_folders; print(trusted_folders('{program.parent}::.'))"
    )
    done = subprocess.run(["/usr/bin/python3", "-I", "-c", script], capture_output=True, text=True, cwd="/", timeout=20)
    assert done.stdout.strip() == str([str(program.parent)]), done.stderr


@AS_ROOT
def test_a_missing_folder_is_left_out(folder):
    assert trusted_folders(f"{folder}/none:{folder}") == [str(folder)]


# -- the installed tools -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool",
    [
        *("system_runtime/files/gpu-doctor", "system_runtime/files/gpu-run", "system_runtime/files/gpu-job"),
        "system_tuning/files/gpu-tune",
    ],
)
def test_the_tools_import_nothing_from_the_working_directory(tool, folder):
    """Started where somebody has put modules of the names that the tools import."""
    for name in ("os", "json", "argparse", "gpuwright", "site", "encodings"):
        (folder / f"{name}.py").write_text("raise SystemExit('hostile ' + __name__)\n")
    text = (
        (REPOSITORY / "roles" / tool)
        .read_text()
        .replace("/usr/local/lib/gpuwright", str(REPOSITORY / "tests/node_library"))
    )
    script = put(folder / "tool", text)
    environment = {"PATH": ":/usr/bin:/bin", "PYTHONPATH": str(folder), "PYTHONHOME": ""}
    done = subprocess.run([script, "--help"], cwd=folder, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and "hostile" not in done.stdout + done.stderr


@AS_ROOT
def test_gpu_doctor_does_not_run_the_nvidia_smi_beside_it(folder):
    """A PATH with an empty part, as `PATH=$PATH:` in a shell's start-up file makes it."""
    mark = folder / "ran-as"
    for name in ("nvidia-smi", "systemctl", "journalctl", "modinfo", "dkms", "smartctl", "lspci"):
        put(folder / name, f"#!/bin/sh\nid -u >> {mark}\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\nfrom gpuwright.gpu.nvidia_smi.query import query\nprint(query(5))"
    )
    library = str(REPOSITORY / "tests/node_library")
    environment = {"PATH": ":.:/nonexistent"}
    subprocess.run(["/usr/bin/python3", "-I", "-c", code, library], cwd=folder, env=environment, check=True, timeout=30)
    assert not mark.exists()
