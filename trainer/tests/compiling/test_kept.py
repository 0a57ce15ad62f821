"""The kept extension: loaded only as it was written, for what it was built with, and never another host's."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gan_trainer.compiling import kept, steps

Run = Callable[..., subprocess.CompletedProcess]
PROGRAM = ("-m", "gan_trainer.compiling", "--device", "cpu", "--json")
# Read by torch and setuptools on Linux, and of no weight for what is built; the rest is Windows'.
NO_MATTER = {"PATH", "HOME", "PLAT", "MAX_JOBS", "TORCH_EXTENSIONS_DIR", "VCToolsInstallDir", "VSCMD_ARG_TGT_ARCH"}
NO_MATTER |= {"WINDOWS_CUDA_HOME", "_PYTHON_PROJECT_BASE", "_PYTHON_HOST_PLATFORM"}


def extension_of(done: subprocess.CompletedProcess) -> dict[str, Any]:
    assert done.stdout.count("\n") == 1, (done.stdout, done.stderr)
    step: dict[str, Any] = json.loads(done.stdout)["steps"][-1]
    return step


def test_an_extension_stays_while_what_made_it_is_the_same(run_python: Run, tmp_path: Path) -> None:
    """With a compiler of another time it is compiled anew, as is one that is damaged, and what stays is one file."""
    compiler, seen = tmp_path / "g++", tmp_path / "seen"
    compiler.write_text(f'#!/bin/sh\nfor word; do [ "$word" = -c ] && echo >> {seen}; done\nexec /usr/bin/g++ "$@"\n')
    compiler.chmod(0o755)
    env = {"TORCH_EXTENSIONS_DIR": str(tmp_path / "kept"), "CXX": str(compiler)}
    first, second = (extension_of(run_python(*PROGRAM, env=env)) for _ in range(2))
    assert (first["fault"], first["words"]) == ("none", "") and seen.read_text() == "\n"
    assert (second["fault"], second["words"]) == ("none", "as built before with the same compiler and headers")
    (file,) = (path for path in (tmp_path / "kept").rglob("*") if path.is_file())
    whole = file.read_bytes()
    # The loader takes it, and the kernel ends the process that reads on.
    file.write_bytes(whole[: len(whole) // 2])
    again = extension_of(run_python(*PROGRAM, env=env))
    assert (again["fault"], again["words"]) == ("none", "") and seen.read_text() == "\n\n"
    assert [path for path in (tmp_path / "kept").rglob("*") if path.is_file()] == [file]
    compiler.write_text("#!/bin/sh\necho \"g++: error: unrecognized command line option '-std=c++20'\" >&2\nexit 1\n")
    third = extension_of(run_python(*PROGRAM, env=env))
    assert third["fault"] == "old-compiler" and "no c++20, which the headers of this PyTorch need" in third["words"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    return tmp_path


def name_of() -> Path:
    found = kept.kept_file("g++", torch)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:100],
        lambda data: bytes(len(data)),
        lambda data: data[:500] + bytes(100) + data[600:],
        lambda data: data + b"\n",
    ],
    ids=["empty", "cut", "short", "zeros", "block", "longer"],
)
def test_what_is_not_as_it_was_written_is_not_loaded(place: Path, damage: Callable[[bytes], bytes]) -> None:
    (place / "made.so").write_bytes(bytes(range(250)) * 4)
    file = kept.keep(place / "made.so", name_of())
    assert kept.is_whole(file)
    file.write_bytes(damage(file.read_bytes()))
    assert not kept.is_whole(file) and not steps.load_kept(file)
    # Whole again, and no extension all the same.
    assert kept.is_whole(kept.keep(place / "made.so", file)) and not steps.load_kept(file)
    file.unlink()
    assert not kept.is_whole(file)


def test_it_is_on_the_disk_before_it_has_its_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "made.so").write_bytes(b"extension")
    file, synced = name_of(), []

    def note(handle: int) -> None:
        synced.append((Path(f"/proc/self/fd/{handle}").resolve(), file.exists()))

    monkeypatch.setattr(os, "fsync", note)
    kept.keep(place / "made.so", file)
    (first, there), (folder, named) = synced
    assert (first.parent, first.suffix, there) == (file.parent, ".tmp", False)
    assert (folder, named) == (file.parent, True) and list(file.parent.iterdir()) == [file]


def test_only_what_nobody_uses_is_removed(place: Path) -> None:
    """Files of other hosts and environments, and what killed writers left."""
    (place / "made.so").write_bytes(b"extension")
    folder = name_of().parent
    folder.mkdir()
    names = ("other-host-1.so", "left.0123456789abcdef.tmp", "notes.txt")
    for age, days in (("old", 31), ("young", 29)):
        for name in names:
            (folder / f"{age}-{name}").touch()
            os.utime(folder / f"{age}-{name}", (time.time() - days * 86400,) * 2)
    kept.keep(place / "made.so", name_of())
    left = {path.name for path in folder.iterdir()} - {name_of().name}
    assert left == {"old-notes.txt", *(f"young-{name}" for name in names)}
    os.utime(name_of(), (0, 0))
    assert kept.is_whole(name_of()) and time.time() - name_of().stat().st_mtime < 600


def test_processes_that_keep_at_once_do_not_hurt_each_other(place: Path) -> None:
    (place / "made.so").write_bytes(bytes(range(250)) * 400)
    file, errors = name_of(), []

    def work() -> None:
        try:
            for _ in range(30):
                assert kept.is_whole(kept.keep(place / "made.so", file))
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == [] and [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    "name", ["CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED", "NVCC_APPEND_FLAGS", "CUDA_HOME", "CPATH"]
)
def test_what_changes_a_build_has_a_file_of_its_own(place: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    plain = name_of()
    monkeypatch.setenv(name, "/another")
    assert name_of() != plain
    monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setenv("TORCH_LOGS", "all")
    assert name_of() == plain


def test_versions_and_hosts_have_files_of_their_own(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = name_of()
    with monkeypatch.context() as changed:
        changed.setattr(kept, "version", lambda package: "1.2.3")
        assert name_of() != plain
    for host in ("gpu-01", "gpu/01", "..", "", "\udcff" * 64):
        found = os.uname()
        monkeypatch.setattr(os, "uname", lambda: os.uname_result((found[0], host, *found[2:])))  # noqa: B023
        assert name_of() != plain and name_of().parent == plain.parent
        plain = name_of()


def test_every_variable_that_builders_read_is_counted() -> None:
    """As the installed releases of torch and setuptools have them: a new one is to be judged here."""
    read = set()
    setuptools = ("setuptools._distutils.compilers.C.unix", "setuptools.command.build_ext")
    for module in ("torch.utils.cpp_extension", *setuptools):
        spec = importlib.util.find_spec(module)
        assert spec is not None and spec.origin
        text = Path(spec.origin).read_text()
        read |= set(re.findall(r"""(?:environ(?:\.get)?[\[(]|getenv\()\s*f?['"](\w+)['"]""", text))
        read |= set(re.findall(r"""['"](\w+)['"] (?:not )?in os\.environ""", text))
    assert len(read) > 20
    assert {name for name in read if not kept.READ.fullmatch(name)} <= NO_MATTER
