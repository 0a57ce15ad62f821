"""What the readings say of the CUDA toolkit where every check passes."""

from __future__ import annotations

from typing import Any

from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN

# The advice is that of cuda.version, which is tried; a compiler that is missing needs a distribution's archive.
NOT_TRIED = {"cuda.compiles": "not tried alone: as cuda.version; tests/testinfra/test_debian_archive.py compiles"}

READINGS: dict[str, Any] = {
    "cuda": {
        "version_file": "12.9.1",
        "nvcc": "12.9",
        "link": "/usr/local/cuda-12.9",
        "prefix": "/usr/local/cuda-12.9",
    },
    "cuda_compiling": {"problem": "", "compiler": ""},
}

PROBLEM = ("cuda_compiling", "problem")
NO_HOST_COMPILER = "ERROR: No supported gcc/g++ host compiler found, but clang-14 is available."

# (check, {path in the readings: value}, {expectation: value}, status, words of the message)
ROWS = [
    ("cuda.compiles", {}, {}, PASS, "compiles and links"),
    ("cuda.compiles", {PROBLEM: NO_HOST_COMPILER}, {}, FAIL, "nvcc cannot compile: ERROR: No supported gcc/g++"),
    ("cuda.compiles", {("cuda_compiling", "compiler"): "/opt/x/g++"}, {}, PASS, "device code with /opt/x/g++"),
    ("cuda.compiles", {("cuda_compiling",): {"problem": ""}}, {}, PASS, "links a program with device code"),
    ("cuda.compiles", {("cuda_compiling",): None}, {}, SKIP, "there is no nvcc"),
    ("cuda.compiles", {}, {"cuda.version": ""}, SKIP, "installs no CUDA"),
    ("cuda.compiles", {("cuda_compiling",): {"unreadable": "it took longer than 90 s"}}, {}, UNKNOWN, "90 s"),
]
