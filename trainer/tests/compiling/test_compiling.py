"""gan_trainer.compiling: something is really built, the way Triton does, and what stands in the way has a name."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gan_trainer.compiling import faults, program, steps
from gan_trainer.compiling.caches import Caches

Run = Callable[..., subprocess.CompletedProcess]
PROGRAM = ("-m", "gan_trainer.compiling", "--device", "cpu", "--json")
# Triton in its newest and its oldest place: its class builds with the driver's library, as Triton's own does.
TRITON = """
import os, subprocess, sys, sysconfig
from importlib.util import module_from_spec, spec_from_file_location
SOURCE = '''
#include <Python.h>
int cuInit(unsigned);
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "cuda_utils", 0, -1, 0};
PyMODINIT_FUNC PyInit_cuda_utils(void) {
    return getenv("NEVER") ? (cuInit(0), (PyObject *)0) : PyModule_Create(&module);
}
'''
class CudaUtils:
    def __init__(self):
        folder = os.environ.get("TRITON_LIBCUDA_PATH") or "/no/driver"
        if not os.path.exists(folder + "/libcuda.so.1"):
            raise AssertionError("libcuda.so cannot found!")
        place = os.environ["TRITON_CACHE_DIR"]
        with open(place + "/main.c", "w") as file:
            file.write(SOURCE)
        made = place + "/cuda_utils.so"
        include = sysconfig.get_paths("posix_prefix")["include"]
        words = [os.environ.get("CC") or "gcc", file.name, "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", made]
        subprocess.check_call([*words, "-l:libcuda.so.1", "-L" + folder, "-I" + include])
        spec = spec_from_file_location("cuda_utils", made)
        spec.loader.exec_module(module_from_spec(spec))
"""


def answer(done: subprocess.CompletedProcess) -> dict[str, Any]:
    assert done.stdout.count("\n") == 1, (done.stdout, done.stderr)
    return json.loads(done.stdout)


@pytest.fixture
def run_python(run_python: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An extension is compiled once for all tests that do not say where it stays."""
    kept = str(tmp_path_factory.getbasetemp() / "extensions")

    def run(*words: str, env: dict | None = None, **options: Any) -> subprocess.CompletedProcess:
        return run_python(*words, env={"TORCH_EXTENSIONS_DIR": kept, **(env or {})}, **options)

    return run


@pytest.fixture
def triton(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """A Triton with its class in this module, a ptxas, and a home folder for its cache."""

    def make(module: str) -> dict[str, str]:
        top = tmp_path / "packages"
        file = top / (module.replace(".", "/") + ".py")
        file.parent.mkdir(parents=True)
        file.write_text(TRITON)
        for folder in (file.parent, *file.parent.parents):
            if folder == top:
                break
            (folder / "__init__.py").touch()
        ptxas = top / "triton/backends/nvidia/bin/ptxas"
        ptxas.parent.mkdir(parents=True, exist_ok=True)
        ptxas.write_text("#!/bin/sh\necho release 12.8\n")
        ptxas.chmod(0o755)
        (tmp_path / "home").mkdir()
        package = Path(program.__file__).parents[2]
        return {"PYTHONPATH": f"{package}:{top}", "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}

    return make


def test_extensions_are_built_and_nothing_stays(run_python: Run, tmp_path: Path) -> None:
    done = run_python(*PROGRAM, env={"HOME": str(tmp_path), "TMPDIR": str(tmp_path)})
    found = answer(done)
    assert done.returncode == 0 and found["problems"] == [] and found["left_out"] == []
    assert [(step["name"], step["fault"]) for step in found["steps"]] == [("c", "none"), ("extension", "none")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["triton.backends.nvidia.driver", "triton.runtime.driver", "triton.compiler"])
def test_tritons_own_helper_is_built_without_a_gpu(
    run_python: Run, triton: Callable[[str], dict[str, str]], module: str, tmp_path: Path
) -> None:
    done = run_python(*PROGRAM, env=triton(module))
    assert [(step["name"], step["fault"]) for step in answer(done)["steps"]] == [
        ("triton", "none"),
        ("extension", "none"),
    ]
    assert list((tmp_path / "home").iterdir()) == []


def test_with_a_gpu_the_drivers_own_library_counts(run_python: Run, triton: Callable[[str], dict[str, str]]) -> None:
    done = run_python(*PROGRAM[:2], "--device", "cuda", "--json", env=triton("triton.backends.nvidia.driver"))
    found = answer(done)
    assert done.returncode == 1 and found["steps"][0]["fault"] == "no-libcuda"
    assert found["problems"][0] == (
        "Triton's helper in C cannot be built and used: ldconfig -p does not know libcuda.so.1"
    )
    # It would only fail again, after a minute.
    assert found["left_out"] == [{"name": "torch.compile", "why": "what it needs cannot be built"}]


def without_headers(env: dict[str, str], folder: Path) -> dict[str, str]:
    """A Python whose headers nobody has installed: the folder that it names is empty."""
    words = f"import sysconfig\nplain = sysconfig.get_paths\nempty = {{'include': {str(folder)!r}}}\n"
    words += "sysconfig.get_paths = lambda *a, **k: {**plain(*a, **k), **empty}\n"
    words += "sysconfig.get_path = lambda name, *a, **k: sysconfig.get_paths(*a, **k)[name]\n"
    words += f"sysconfig.get_config_vars().update(INCLUDEPY={str(folder)!r}, CONFINCLUDEPY={str(folder)!r})\n"
    (folder / "sitecustomize.py").write_text(words)
    return {**env, "PYTHONPATH": f"{folder}:{env['PYTHONPATH']}"}


def test_missing_headers_are_named(run_python: Run, triton: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    found = answer(run_python(*PROGRAM, env=without_headers(triton("triton.compiler"), tmp_path)))
    assert [step["fault"] for step in found["steps"]] == ["no-headers", "no-headers"]
    assert f"Python.h is missing: the headers of Python 3.{sys.version_info[1]} are not in" in found["problems"][0]


@pytest.mark.parametrize(
    "changes, codes",
    [
        ({"PATH": "/nonexistent"}, ["no-compiler", "no-compiler"]),
        ({"CC": "ccache gcc"}, ["bad-cc", "none"]),
        ({"CXX": "no-such-compiler"}, ["none", "bad-cc"]),
        ({"CC": "gcc", "CXX": "g++"}, ["none", "none"]),
        ({"CXX": "/bin/false"}, ["none", "other"]),
        ({"TRITON_CACHE_DIR": "/dev/null/triton"}, ["cache", "cache"]),
        ({"TRITON_CACHE_DIR": "", "TRITON_HOME": "/proc/1"}, ["cache", "cache"]),
    ],
)
def test_what_stands_in_the_way_has_a_code(run_python: Run, changes: dict[str, str], codes: list[str]) -> None:
    done = run_python(*PROGRAM, env=changes)
    assert [step["fault"] for step in answer(done)["steps"]] == codes
    assert done.returncode == (1 if set(codes) - {"none"} else 0)


def test_a_damaged_assembler_is_a_fault(run_python: Run, triton: Callable[[str], dict[str, str]]) -> None:
    env = triton("triton.backends.nvidia.driver")
    (Path(env["PYTHONPATH"].split(":")[1]) / "triton/backends/nvidia/bin/ptxas").chmod(0o644)
    found = answer(run_python(*PROGRAM, env=env))
    assert found["steps"][0]["fault"] == "ptxas" and "Permission denied" in found["problems"][0]


def test_a_compiler_that_hangs_ends_with_its_children(run_python: Run, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\nsleep 611 & echo $! > {tmp_path}/pid; wait\n")
    slow.chmod(0o755)
    found = answer(run_python(*PROGRAM, "--seconds", "20", env={"CC": str(slow)}))
    assert [step["fault"] for step in found["steps"]] == ["timeout", "none"]
    # Nobody may have collected it yet.
    status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert not status.exists() or status.read_text().split()[2] == "Z"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can mount")
@pytest.mark.parametrize("option, code", [("noexec", "noexec"), ("size=8k", "full"), ("ro", "cache")])
def test_a_cache_that_cannot_be_used_is_named(option: str, code: str, tmp_path: Path) -> None:
    """Really mounted, in a mount namespace of its own."""
    words = 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", words, "sh", option, str(tmp_path), sys.executable, *PROGRAM]
    places = {"TORCH_EXTENSIONS_DIR": "", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    env = {**os.environ, **places, "PYTHONPATH": str(Path(program.__file__).parents[2])}
    found = answer(subprocess.run(command, env=env, capture_output=True, text=True))
    assert {step["fault"] for step in found["steps"]} == {code}
    assert code == "full" or str(tmp_path) in found["problems"][0]


@pytest.mark.parametrize(
    "text, code",
    [
        ("main.c:5:10: fatal error: Python.h: No such file or directory", "no-headers"),
        (
            "/usr/include/stdlib.h:26: fatal error: bits/libc-header-start.h: No such file or directory",
            "no-library-headers",
        ),
        ("/tmp/a.cpp:3:10: fatal error: vector: No such file or directory", "no-library-headers"),
        ("/usr/bin/ld: cannot find crti.o: No such file or directory", "no-library-headers"),
        ("g++: fatal error: cannot execute 'cc1plus': execvp: No such file or directory", "no-compiler"),
        ("gcc: error trying to exec 'cc1': execvp: No such file or directory\ncannot execute 'cc1'", "no-compiler"),
        ("RuntimeError: Failed to find C compiler. Please specify via CC environment variable.", "no-compiler"),
        ("/usr/bin/ld: cannot find -lcuda: No such file or directory", "no-libcuda"),
        ("/usr/bin/ld: cannot find -l:libcuda.so.1", "no-libcuda"),
        ("AssertionError: libcuda.so cannot found!\nPlease make sure GPU is set up", "no-libcuda"),
        ("ImportError: libcuda.so.1: cannot open shared object file: No such file or directory", "no-libcuda"),
        ("ImportError: /root/.triton/x.so: failed to map segment from shared object", "noexec"),
        ("ImportError: /tmp/x.so: failed to map segment from shared object: Operation not permitted", "noexec"),
        ("ImportError: /tmp/x.so: wrong ELF class: ELFCLASS32", "other-machine"),
        ("OSError: [Errno 30] Read-only file system: '/home/trainer/.triton'", "cache"),
        ("PermissionError: [Errno 13] Permission denied: '/.triton'", "cache"),
        ("OSError: [Errno 28] No space left on device", "full"),
        ("OSError: [Errno 122] Disk quota exceeded", "full"),
        ("ModuleNotFoundError: No module named 'triton'", "no-triton"),
        ("ModuleNotFoundError: No module named 'pkg_resources'", "no-build-tools"),
        ("ImportError: cannot import name 'packaging' from 'pkg_resources' (/x/__init__.py)", "no-build-tools"),
        ("g++: error: unrecognized command line option ‘-std=c++20’; did you mean ‘-std=c++2a’?", "old-compiler"),
        ("ATen.h:4:2: error: #error C++20 or later compatible compiler is required to use ATen.", "old-compiler"),
        ("RuntimeError: Dynamo is not supported on Python 3.11+", faults.LEFT_OUT),
        ("RuntimeError: Python 3.14+ not yet supported for torch.compile", faults.LEFT_OUT),
        ("something new\nld: internal error 5\nmore", "other"),
    ],
)
def test_what_compilers_and_triton_say(text: str, code: str) -> None:
    found = faults.classify(text)
    assert found.code == code and 0 < len(found.words) <= faults.LONGEST
    assert faults.action_for(code)


def test_every_code_has_an_action() -> None:
    known = {code for code, _pattern, _words in faults.KNOWN}
    assert known - set(faults.ACTIONS) == {"other-machine"} and set(faults.ACTIONS) - known == {"bad-cc"}


def test_a_child_that_is_killed_says_so() -> None:
    assert faults.of_ending(-11, "").words == "its process was ended by SIGSEGV"
    assert faults.of_ending(1, "x: failed to map segment from shared object /").code == "other"
    assert faults.of_ending(3, "").code == "other"


@pytest.mark.parametrize("moment", ["as it begins", "as it works"])
def test_an_interruption_ends_the_child(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[subprocess.Popen] = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            children.append(self)
            if moment == "as it begins":
                os.kill(os.getpid(), signal.SIGINT)

        def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:
            if timeout:
                raise KeyboardInterrupt
            return super().communicate(input)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        program.run_child(["sleep", "60"], dict(os.environ), 60)
    assert children[0].wait(20) == -signal.SIGKILL


def test_torch_compile_must_run_what_it_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch, "compile", lambda work: work)
    with pytest.raises(RuntimeError, match="compiled nothing"):
        steps.run_torch_compile("cpu")
    monkeypatch.setattr(torch, "compile", lambda work: torch._dynamo.optimize("eager")(lambda values: work(values) * 2))
    with pytest.raises(RuntimeError, match=r"off by [0-9.]+ of eager mode"):
        steps.run_torch_compile("cpu")


@pytest.mark.long
def test_torch_compile_runs_here() -> None:
    with Caches() as caches:
        done = program.run_child(
            [sys.executable, "-c", program.CHILD, "--device", "cpu", "--step", "torch.compile"],
            {**os.environ, **caches.environment()}, 600,
        )  # fmt: skip
    assert json.loads(done[1].splitlines()[-1]) == {"left_out": "", "error": "", "words": ""}, done[2]


@pytest.mark.parametrize("arguments", [[], ["--device", "tpu"], ["--device", "cpu", "--seconds", "0"]])
def test_wrong_command_line_ends_with_2(run_python: Run, arguments: list[str]) -> None:
    done = run_python("-m", "gan_trainer.compiling", *arguments)
    assert (done.returncode, done.stdout) == (2, "") and "error: " in done.stderr
