"""What the CUDA compiler says when it really has something to compile, as an ordinary user, and never for long."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import healthy_files
import pytest
from gpuwright.checks.cuda import compiling
from gpuwright.verdict.reader import Seen
from host_tree import HostTree

NVCC = "/usr/local/cuda-12.9/bin/nvcc"
PLAN: dict[str, Any] = {"plan": {"cuda": {"prefix": "/usr/local/cuda-12.9"}}, "training_user": "trainer"}


def compiled(root: str, expectations: dict | None = None) -> dict[str, str] | None:
    return compiling.read_compiling(Seen(root, PLAN if expectations is None else expectations, {}, {}))


@pytest.fixture
def host() -> Iterator[HostTree]:
    # An ordinary user has to get there, which pytest's own folders do not allow.
    folder = Path(tempfile.mkdtemp(prefix="gpuwright-test-"))
    tree = HostTree(folder)
    tree.put("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\ntrainer:x:991:991::/var/lib/trainer:/sbin/nologin\n")
    tree.put("/etc/group", "root:x:0:\ntrainer:x:991:\n")
    yield tree
    shutil.rmtree(folder)


def put_nvcc(host: HostTree, script: str) -> None:
    healthy_files.put_program(host, NVCC, script)
    for path in (host.folder, *host.folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o055)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ('cp "$3" "$2"', ""),
        # A compiler that ends well and leaves nothing has compiled nothing.
        ("echo done", "it ended without an error, and left no program"),
        (
            "echo 'nvcc warning: old' >&2; echo 'gcc: fatal error: no' >&2; echo '1 more' >&2; exit 1",
            "gcc: fatal error: no",
        ),
        ("echo 'ERROR: No supported gcc/g++ host compiler found' >&2; exit 1", "ERROR: No supported gcc/g++"),
        ("exit 3", "it ended with 3"),
        ("kill -9 $$", "Killed"),
        ("exec /no/such/compiler", "not found"),
        ('test "$(id -u)" -ne 0 && test "$TMPDIR" = . && test -z "$CALLER" && cp "$3" "$2"', ""),
        ('test "$(ls -A)" = probe.cu && grep -q "<<<1, 1>>>" probe.cu && cp "$3" "$2"', ""),
    ],
)
def test_what_nvcc_leaves_decides(host: HostTree, monkeypatch: pytest.MonkeyPatch, script: str, problem: str) -> None:
    monkeypatch.setenv("CALLER", "its environment")
    if "id -u" in script and os.geteuid() != 0:
        script = script.partition("&& ")[2]
    put_nvcc(host, script)
    found = compiled(host.root)
    assert found is not None and (problem in found["problem"] if problem else found["problem"] == ""), found


GXX = "/opt/rh/gcc-toolset-14/root/usr/bin/g++"
WITH_TOOLSET = {"plan": {"cuda": {**PLAN["plan"]["cuda"], "host_compiler": GXX}}, "training_user": "trainer"}


def test_nvcc_is_tried_with_the_compiler_that_the_plan_names(host: HostTree) -> None:
    healthy_files.put_program(host, GXX, "exit 0")
    put_nvcc(host, f'test "$1" = -ccbin && test "$2" = {host.root}{GXX} && cp "$5" "$4"')
    assert compiled(host.root, WITH_TOOLSET) == {"problem": "", "compiler": GXX}
    without = compiled(host.root)
    assert without is not None and without["problem"] == "it ended with 1"


def test_a_planned_compiler_that_is_not_there_is_the_cause(host: HostTree) -> None:
    put_nvcc(host, 'cp "$5" "$4"')
    found = compiled(host.root, WITH_TOOLSET)
    assert found == {"problem": f"the planned compiler {GXX} is not there", "compiler": GXX}


def test_a_compiler_that_hangs_is_left_behind(host: HostTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "SECONDS", 0.5)
    put_nvcc(host, "trap '' TERM; sleep 30")
    with pytest.raises(OSError, match="0.5"):
        compiled(host.root)


@pytest.mark.parametrize("expectations", [{}, {"plan": {"cuda": {"prefix": ""}}, "training_user": "trainer"}, PLAN])
def test_without_a_toolkit_nothing_is_tried(host: HostTree, expectations: dict) -> None:
    assert compiled(host.root, expectations) is None


def plan_of(prefix: Path) -> dict:
    return {"plan": {"cuda": {"prefix": str(prefix)}}, "training_user": "nobody"}


@pytest.mark.skipif(not shutil.which("nvcc"), reason="this machine has no CUDA compiler")
def test_a_real_compiler_compiles_it(host: HostTree) -> None:
    # What is in PATH may be a script that calls it from its own folder.
    found = [
        compiled("/", plan_of(Path(folder).parent))
        for folder in ("/usr/local/cuda/bin", Path(str(shutil.which("nvcc"))).parent)
    ]
    assert {"problem": "", "compiler": ""} in found
