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
from errno import ENOENT, ENOSPC
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Callable, NamedTuple

from .kept import is_whole, keep, kept_file

NAME = "gan_compiled"
C = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(%d); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, 0}, {0, 0, 0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "gan_compiled", 0, -1, methods};
PyMODINIT_FUNC PyInit_gan_compiled(void) { return PyModule_Create(&module); }
"""
# An operator of PyTorch's: its headers say which C++ they need, and take most of the 6 s. An exception is caught in it,
# since that needs the C++ library at run time, too.
CXX = """
#include <ATen/ops/mul.h>
#include <torch/library.h>
#include <Python.h>
#include <stdexcept>
#include <vector>
static at::Tensor times(const at::Tensor &values, int64_t number) {
    std::vector<int64_t> found(1, 0);
    try { found.at(1); } catch (const std::out_of_range &) { found[0] = number; }
    return at::mul(values, found[0]);
}
TORCH_LIBRARY(gan_compiled, library) { library.def("times(Tensor values, int number) -> Tensor", &times); }
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "gan_compiled", 0, -1, 0};
PyMODINIT_FUNC PyInit_gan_compiled(void) { return PyModule_Create(&module); }
"""
TOLERANCE = 1e-4
# What an extension needs while it is built is several times as much.
LEAST_BYTES = 2**20
OLDEST_CAPABILITY = (7, 0)


class LeftOut(Exception):
    """A step that cannot be tried here; the text says why."""


class Step(NamedTuple):
    what: str
    work: Callable[[str], str | None]


def find_compiler(language: str) -> str:
    """As Triton and Inductor choose it: CC or CXX is the name of one program; else gcc, else clang."""
    variable, names = {"C": ("CC", ("gcc", "clang")), "C++": ("CXX", ("g++", "clang++"))}[language]
    found = os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)
    if not found:
        raise RuntimeError(f"Failed to find {language} compiler")
    if not shutil.which(found):
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), found)
    return found


def place_for_builds() -> str:
    return os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir()


def load(made: Path) -> Any:
    """The Python extension in this file."""
    spec = spec_from_file_location(NAME, made)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{made} is not a Python extension")
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(words: list[str]) -> None:
    """Run a compiler; what it says is evidence."""
    done = subprocess.run(words, stdout=sys.stderr)
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}")


def build_c(device: str) -> None:
    """Compile a Python extension as Triton does its own, import it from the cache, and call it."""
    number = os.getpid()
    with tempfile.TemporaryDirectory(dir=place_for_builds()) as folder:
        file, made = Path(folder) / f"{NAME}.c", Path(folder) / (NAME + sysconfig.get_config_var("EXT_SUFFIX"))
        file.write_text(C % number, encoding="ascii")
        words = [find_compiler("C"), str(file), "-O3", "-shared", "-fPIC", "-o", str(made)]
        # Debian's own scheme names /usr/local, where its headers are not.
        call([*words, "-I" + sysconfig.get_path("include", "posix_prefix")])
        found = load(made).answer()
    if found != number:
        raise RuntimeError(f"the extension answers {found} instead of {number}")


def build_extension(device: str) -> str:
    """Compile an operator of PyTorch's by its own torch.utils.cpp_extension, as packages with one do, and call it.

    PyTorch itself says which C++ its headers need. What was built stays in TORCH_EXTENSIONS_DIR, if that is set, and is
    only loaded and called for as long as compiler, headers and PyTorch are the same; the answer says so, "" otherwise.
    One that is damaged is built anew in its place: only what fails then is a fault of the node.
    """
    # Older setuptools compile C++ with CC.
    os.environ["CC"] = os.environ["CXX"] = compiler = find_compiler("C++")
    import torch

    kept, said = kept_file(compiler, torch), ""
    if kept is not None and load_kept(kept):
        said = "as built before with the same compiler and headers"
    else:
        with tempfile.TemporaryDirectory(dir=place_for_builds()) as folder:
            made = compile_extension(Path(folder))
            load(made if kept is None else keep(made, kept))
    number = os.getpid()
    found = torch.ops.gan_compiled.times(torch.ones(2), number).tolist()
    if found != [number, number]:
        raise RuntimeError(f"the extension answers {found} instead of {number}")
    return said


def load_kept(kept: Path) -> bool:
    """Whether the extension of an earlier trial is there, and is one that can be loaded."""
    try:
        whole = is_whole(kept)
        if whole:
            load(kept)
    except (ImportError, OSError):
        return False
    return whole


def compile_extension(folder: Path) -> Path:
    from setuptools import Distribution
    from torch.utils.cpp_extension import BuildExtension, CppExtension

    (folder / f"{NAME}.cpp").write_text(CXX, encoding="ascii")
    # The file's path, as it is given, is repeated below the folder for what comes between.
    os.chdir(folder)
    extension = CppExtension(NAME, [f"{NAME}.cpp"], extra_compile_args=["-O0", "-g0"])
    # Ninja is not part of the environment, and one file needs none.
    build = BuildExtension(Distribution({"name": NAME, "ext_modules": [extension]}), use_ninja=False)
    build.build_lib = build.build_temp = str(folder)
    build.ensure_finalized()
    try:
        build.run()
    except Exception as error:
        # An assembler says many things of a full file system, and not always that.
        if shutil.disk_usage(folder).free < LEAST_BYTES:
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(folder)) from error
        raise
    finally:
        os.chdir("/")
    return Path(build.get_ext_fullpath(NAME))


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
    "extension": Step("a PyTorch extension in C++", build_extension),
    "torch.compile": Step("a function under torch.compile", run_torch_compile),
    "nvrtc": Step("a function that PyTorch compiles by NVRTC", run_nvrtc),
}
