"""Which programs root runs: never one from a folder that somebody else fills, whatever PATH says."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuwright.host import program_path
from gpuwright.host.bounded import find_program, program_environment, run_bounded
from gpuwright.host.program_path import SYSTEM_FOLDERS, search_folders, trusted_folders

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
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("LD_LIBRARY_PATH", value)
    assert program_environment().get("LD_LIBRARY_PATH", "") == kept


LOADED = (
    *("LD_PRELOAD", "LD_AUDIT", "LD_ORIGIN_PATH", "LD_PROFILE_OUTPUT", "LD_HWCAP_MASK", "GLIBC_TUNABLES"),
    *("GCONV_PATH", "LOCPATH", "NLSPATH", "GETCONF_DIR", "HOSTALIASES", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"),
    *("CDPATH", "IFS", "PS4", "BASH_FUNC_ls%%", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE"),
    *("PERL5LIB", "PERL5OPT", "PERL5DB", "RUBYLIB", "RUBYOPT", "LUA_PATH", "LUA_CPATH_5_4", "OPENSSL_CONF"),
    *("OPENSSL_MODULES", "MALLOC_TRACE", "GIT_SSH_COMMAND", "RPM_CONFIGDIR", "APT_CONFIG"),
)


@AS_ROOT
@pytest.mark.parametrize("name", LOADED)
def test_root_passes_on_no_variable_that_names_code(monkeypatch, name):
    """ld.so(8), gconv, and what interpreters read: whoever set it would decide what runs as root."""
    monkeypatch.setenv(name, "/srv/nobody/here")
    assert name not in program_environment()
    assert f"{name}=" not in run_bounded(["env"], 5).stdout
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert program_environment()[name] == "/srv/nobody/here"


def test_what_programs_need_is_passed_on(monkeypatch):
    needed = ("https_proxy", "HTTPS_PROXY", "no_proxy", "HOME", "TERM", "DEBIAN_FRONTEND", "SSL_CERT_FILE", "CUDA_HOME")
    for name in needed:
        monkeypatch.setenv(name, "of the site")
    assert set(needed) <= set(program_environment())


@AS_ROOT
def test_root_loads_libraries_only_from_where_root_alone_fills(folder, monkeypatch):
    for name, owner in (("own", 0), ("other", 65534)):
        (folder / name).mkdir()
        os.chown(folder / name, owner, owner)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{folder}/other:/usr/lib:{folder}/own::{folder}/none")
    assert program_environment()["LD_LIBRARY_PATH"] == f"/usr/lib:{folder}/own"


@AS_ROOT
@pytest.mark.parametrize("place", ["/usr/local/sbin", "/usr/local/bin"])
def test_the_administrators_own_folders_are_measured_too(monkeypatch, place):
    """Debian's group staff may write to /usr/local, where it was set up so."""
    measured = program_path.is_roots_alone
    monkeypatch.setattr(program_path, "is_roots_alone", lambda folder: folder != place and measured(folder))
    for path in ("", place, f"/usr/bin:{place}"):
        assert place not in search_folders(path)
        monkeypatch.setenv("PATH", path)
        assert place not in program_environment()["PATH"].split(":")
    told = run_bounded(["gpuwright-nothing"], 5).problem
    assert told.endswith(f"(not found in PATH; left out, as others than root can write there: {place})")


def test_no_program_is_started_with_all_that_is_inherited():
    """Only gpu-run and gpu-job pass everything on: what they start is the user's."""
    starters = {"run", "Popen", "call", "check_call", "check_output"}
    for file in [*REPOSITORY.glob("plugins/module_utils/**/*.py"), *REPOSITORY.glob("library/*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            if name.partition(".")[0] == "subprocess" and name.rpartition(".")[2] in starters:
                assert "env" in {word.arg for word in node.keywords}, f"{file}:{node.lineno} has no env="
            assert not re.match(r"os\.(exec|spawn|popen|system|posix_spawn)", name) or "launch" in file.parts, file


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
