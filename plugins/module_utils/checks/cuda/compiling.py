# SPDX-License-Identifier: Apache-2.0
"""Check that the CUDA compiler compiles: it needs a C++ compiler that suits it, and its headers and libraries."""

from typing import Dict, Optional

from ...host.as_user import ordinary_account, run_as
from ...host.files import exists
from ...verdict.check import DRAIN, FAIL, STANDARD, Check, Outcome, failed, passed, skipped
from ...verdict.evidence import Evidence
from ...verdict.reader import ALWAYS, Reader, Seen
from ...verdict.reading_sources import by_hand

# nvcc takes 2 to 6 s for it on a busy server.
SECONDS = 90.0
# Device code, host code with a header of the C++ library, a launch, and the runtime to link with.
SOURCE = (
    "#include <vector>\n"
    "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n"
    "int main() { std::vector<float> x(1); twice<<<1, 1>>>(x.data()); return cudaGetLastError() == cudaSuccess; }\n"
)
# In an empty folder of an ordinary user; the program that comes out is not run.
COMMAND = (
    'printf %s "$2" > probe.cu && TMPDIR=. "$1" ${3:+-ccbin "$3"} -o probe probe.cu && '
    '{ test -s probe || { echo "it ended without an error, and left no program" >&2; false; }; }'
)
MOST_WORDS = 300


def read_compiling(seen: Seen) -> Optional[Dict[str, str]]:
    """`{problem}` of a small program that the planned nvcc compiles and links, "" for none; None if there is no nvcc.

    `compiler` is the g++ that the plan names for it, "" for the system's own. OSError if that could not be tried, or
    took too long.
    """
    planned = (seen.expectations.get("plan") or {}).get("cuda", {})
    prefix, compiler = planned.get("prefix", ""), planned.get("host_compiler", "")
    path = prefix + "/bin/nvcc"
    if not prefix or not exists(seen.root, path):
        return None
    if compiler and not exists(seen.root, compiler):
        return {"problem": f"the planned compiler {compiler} is not there", "compiler": compiler}
    account = ordinary_account(seen.expectations["training_user"], seen.root)
    command = ["/bin/sh", "-c", COMMAND, "sh", _below(seen, path), SOURCE, _below(seen, compiler)]
    done = run_as(command, account, SECONDS)
    if done.rc is None:
        raise OSError(done.problem)
    problem = "" if done.rc == 0 else _last_words(done.stderr or done.stdout) or f"it ended with {done.rc}"
    return {"problem": problem, "compiler": compiler}


def _below(seen: Seen, path: str) -> str:
    return seen.root.rstrip("/") + path if path else ""


def _last_words(text: str) -> str:
    """The first line that names an error, which later ones only follow from; else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "error" in line.lower() or "fatal" in line.lower() or "not found" in line]
    return (named + lines[-1:] + [""])[0][:MOST_WORDS]


def cuda_compiles(readings: Evidence, expected: Evidence) -> Outcome:
    """The planned toolkit's nvcc compiles and links a program with device code.

    Its version says nothing about that: it needs a C++ compiler of a version that it accepts, which may be another than
    the system's own, and the headers and libraries of the toolkit. An ordinary user compiles, in an empty folder.
    """
    if not expected.wish("plan", "cuda", "version"):
        return skipped("not-planned", "the plan installs no CUDA toolkit")
    if readings.absent("cuda_compiling"):
        return skipped("no-compiler", "there is no nvcc, about which cuda.version says more")
    problem = readings.wish("cuda_compiling", "problem")
    # A reading of an earlier release does not name it.
    compiler = readings.at("cuda_compiling").value.get("compiler", "")
    by = f" with {compiler}" if compiler else ""
    if problem:
        return failed("cannot-compile", "an error", "a program", f"nvcc cannot compile{by}: {problem}")
    return passed("a program", "a program", f"nvcc compiles and links a program with device code{by}")


COMPILING = Reader(
    name="cuda_compiling",
    level=STANDARD,
    read=read_compiling,
    source=by_hand("what nvcc says when it compiles", "echo 'int main() {}' > /tmp/x.cu && nvcc -o /tmp/x /tmp/x.cu"),
    ahead=ALWAYS,
)

CHECKS = (
    Check(
        id="cuda.compiles",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Does the CUDA toolkit compile?",
        judge=cuda_compiles,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_cuda",
        readers=(COMPILING,),
    ),
)
