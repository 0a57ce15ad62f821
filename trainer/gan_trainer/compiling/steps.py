# SPDX-License-Identifier: Apache-2.0
"""The steps of a trial, each run in a process of its own: they raise what goes wrong, as whoever says it words it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Callable, NamedTuple

NAME = "gan_compiled"
C = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(%d); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, 0}, {0, 0, 0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "gan_compiled", 0, -1, methods};
PyMODINIT_FUNC PyInit_gan_compiled(void) { return PyModule_Create(&module); }
"""
# An exception is caught in it, since that needs the C++ library at run time, too.
CXX = """
#include <Python.h>
#include <stdexcept>
#include <vector>
static PyObject *answer(PyObject *self, PyObject *none) {
    std::vector<long> found(1, 0);
    try { found.at(1); } catch (const std::out_of_range &) { found[0] = %d; }
    return PyLong_FromLong(found[0]);
}
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, 0}, {0, 0, 0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "gan_compiled", 0, -1, methods};
PyMODINIT_FUNC PyInit_gan_compiled(void) { return PyModule_Create(&module); }
"""
TOLERANCE = 1e-4
OLDEST_CAPABILITY = (7, 0)


class LeftOut(Exception):
    """A step that cannot be tried here; the text says why."""


class Step(NamedTuple):
    what: str
    work: Callable[[str], None]


def find_compiler(language: str) -> str:
    """As Triton and Inductor choose it: CC or CXX is the name of one program; else gcc, else clang."""
    variable, names = {"C": ("CC", ("gcc", "clang")), "C++": ("CXX", ("g++", "clang++"))}[language]
    found = os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)
    if not found:
        raise RuntimeError(f"Failed to find {language} compiler")
    return found


def build_and_call(language: str, source: str) -> None:
    """Compile a Python extension as Triton does its own, import it from the cache, and call it."""
    number = os.getpid()
    place = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir()
    with tempfile.TemporaryDirectory(dir=place) as folder:
        file = Path(folder) / (NAME + (".c" if language == "C" else ".cpp"))
        file.write_text(source % number, encoding="ascii")
        made = Path(folder) / (NAME + sysconfig.get_config_var("EXT_SUFFIX"))
        words = [find_compiler(language), str(file), "-O3", "-shared", "-fPIC", "-o", str(made)]
        words += ["-std=c++17"] if language == "C++" else []
        # Debian's own scheme names /usr/local, where its headers are not.
        call([*words, "-I" + sysconfig.get_path("include", "posix_prefix")])
        spec = spec_from_file_location(NAME, made)
        if spec is None or spec.loader is None:
            raise RuntimeError(f"{made} is not a Python extension")
        module: Any = module_from_spec(spec)
        spec.loader.exec_module(module)
        if module.answer() != number:
            raise RuntimeError(f"the extension answers {module.answer()} instead of {number}")


def call(words: list[str]) -> None:
    """Run a compiler; what it says is evidence."""
    done = subprocess.run(words, stdout=sys.stderr)
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}")


def build_c(device: str) -> None:
    build_and_call("C", C)


def build_cxx(device: str) -> None:
    build_and_call("C++", CXX)


def build_tritons_helper(device: str) -> None:
    """The module with which Triton talks to the driver: built by Triton itself, before its first kernel.

    Without a GPU it is linked with an empty library in place of the driver's, so only its import can then fail.
    """
    if device == "cuda":
        utilities()()
    else:
        build_c(device)
        with tempfile.TemporaryDirectory() as folder:
            stand_in(Path(folder))
            # What is not called is not looked for, unless the distribution's linker says otherwise.
            sys.setdlopenflags(os.RTLD_LAZY)
            try:
                utilities()()
            except ImportError as error:
                if "undefined symbol: cu" not in str(error):
                    raise
    for program in assemblers():
        fault = why_not_started([str(program), "--version"])
        if fault:
            raise RuntimeError(f"{program.name} cannot assemble: {fault}")


def why_not_started(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    return f"it ended with {done.returncode}: {done.stderr.strip()[:200]}" if done.returncode else ""


def utilities() -> Callable[[], Any]:
    """Triton's class that builds its helper: the newest place first, the last is that of Triton 2.0."""
    for name in ("triton.backends.nvidia.driver", "triton.runtime.driver", "triton.compiler"):
        try:
            found = getattr(importlib.import_module(name), "CudaUtils", None)
        except ModuleNotFoundError as error:
            # Only for a place that this Triton does not have.
            if error.name == "triton" or not f"{name}.".startswith(f"{error.name}."):
                raise
            continue
        if found is not None:
            return found
    raise LeftOut("this Triton builds no helper that is known here")


def stand_in(folder: Path) -> None:
    """An empty libcuda.so.1, where Triton looks for the driver's; Triton 2.0 looks only where the compiler does."""
    source = folder / "empty.c"
    source.write_text("int gan_compiled_stand_in;\n", encoding="ascii")
    library = folder / "libcuda.so.1"
    words = [find_compiler("C"), "-shared", "-fPIC", str(source), "-Wl,-soname,libcuda.so.1", "-o", str(library)]
    call(words)
    (folder / "libcuda.so").symlink_to(library.name)
    os.environ["TRITON_LIBCUDA_PATH"] = os.environ["LIBRARY_PATH"] = str(folder)
    # Loaded once, the helper finds it by its name.
    importlib.import_module("ctypes").CDLL(str(library))


def assemblers() -> list[Path]:
    """Triton's ptxas programs, which every kernel goes through."""
    named = os.environ.get("TRITON_PTXAS_PATH")
    if named:
        return [Path(named)]
    top = Path(importlib.import_module("triton").__file__ or "").parent
    return sorted([*top.glob("backends/nvidia/bin/ptxas*"), *top.glob("third_party/cuda/bin/ptxas*")])


def run_torch_compile(device: str) -> None:
    """torch.compile itself: compiled code must run, and give what eager mode gives."""
    import torch
    from torch._dynamo.utils import counters

    capability = torch.cuda.get_device_capability() if device == "cuda" else None
    if capability and capability < OLDEST_CAPABILITY:
        raise LeftOut("compute capability {}.{}: Inductor supports 7.0 and newer".format(*capability))

    def work(values: torch.Tensor) -> torch.Tensor:
        return (values * torch.sigmoid(values) + 1.0).sum(dim=1)

    values = torch.linspace(-4.0, 4.0, 64 * 512, device=device).reshape(64, 512)
    found = torch.compile(work)(values)
    if not counters["stats"]["unique_graphs"]:
        raise RuntimeError("torch.compile ran without an error and compiled nothing")
    error = (found - work(values)).abs().max().item() / 512
    if not error < TOLERANCE:
        raise RuntimeError(f"compiled code is off by {error:.2g} of eager mode")


def run_nvrtc(device: str) -> None:
    """A function that PyTorch compiles at its first use by NVRTC, for each GPU anew."""
    import torch

    values = torch.linspace(0.5, 8.0, 256)
    error = (torch.lgamma(values.to(device)).cpu() - torch.lgamma(values)).abs().max().item()
    if not error < TOLERANCE:
        raise RuntimeError(f"lgamma on the GPU is off by {error:.2g}")


STEPS = {
    "c": Step("a Python extension in C", build_c),
    "triton": Step("Triton's helper in C", build_tritons_helper),
    "extension": Step("a Python extension in C++", build_cxx),
    "torch.compile": Step("a function under torch.compile", run_torch_compile),
    "nvrtc": Step("a function that PyTorch compiles by NVRTC", run_nvrtc),
}
