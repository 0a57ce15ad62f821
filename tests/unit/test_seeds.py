"""No test draws without a seed of its own: what a result depends on comes from a generator that a seed was given.

In trainer/tests and tests/burn_in the generators of Python, NumPy and PyTorch are seeded for each test by its name
(trainer/tests/seeds.py), so that there only what no seed reaches is a fault.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# Programs that measure a machine or play one: no test compares what they draw.
PROGRAMS = ("tests/bench", "tests/fleet", "tests/gpu")
SEEDED = ("trainer/tests", "tests/burn_in")
# Functions that draw from a generator of the whole process.
SHARED = {
    "random": {"random", "uniform", "randint", "randrange", "choice", "choices", "sample", "shuffle", "randbytes"}
    | {"getrandbits", "gauss", "normalvariate", "expovariate", "betavariate", "triangular"},
    "numpy.random": {"rand", "randn", "randint", "random", "choice", "shuffle", "permutation", "normal", "uniform"},
    "torch": {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "rand_like", "randn_like"},
}
# No seed reaches these.
NEVER = {
    "random": {"SystemRandom"},
    "os": {"urandom"},
    "uuid": {"uuid1", "uuid4"},
    "secrets": {"choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe"},
}
# With a seed as their argument they are what is wanted; without one they draw it from the system.
WANTS_A_SEED = {"random": {"Random"}, "numpy.random": {"default_rng", "RandomState"}}
# Keys of a cluster that is taken down again: nothing is computed from them.
EXCUSED = {
    ("tests/schedulers/gpu_cluster.py", "secrets.token_bytes"),
    ("tests/schedulers/cluster.py", "secrets.token_bytes"),
}


def names_of(tree: ast.Module) -> dict[str, str]:
    """What each name of a module stands for, as `np` for numpy and `choice` for random.choice."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {
                alias.asname or alias.name.split(".")[0]: alias.name if alias.asname else alias.name.split(".")[0]
                for alias in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{before}.{node.attr}" if (before := dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def draws(source: str, seeded: bool) -> Iterator[tuple[int, str]]:
    """(line, function) of each draw from no seed of its own."""
    tree = ast.parse(source)
    names = names_of(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        first, dot, rest = dotted(node.func).partition(".")
        module, _, function = (names.get(first, "") + dot + rest).rpartition(".")
        own = any(word.arg == "generator" for word in node.keywords)
        shared = function in SHARED.get(module, ()) and not own and not seeded
        bare = function in WANTS_A_SEED.get(module, ()) and not node.args and not node.keywords
        if shared or bare or function in NEVER.get(module, ()):
            yield node.lineno, f"{module}.{function}"


def test_no_test_draws_without_a_seed_of_its_own() -> None:
    faults = []
    for file in sorted([*(REPOSITORY / "tests").rglob("*.py"), *(REPOSITORY / "trainer/tests").rglob("*.py")]):
        name = file.relative_to(REPOSITORY).as_posix()
        if name.startswith(PROGRAMS):
            continue
        for line, function in draws(file.read_text(), name.startswith(SEEDED)):
            if (name, function) not in EXCUSED:
                faults.append(f"{name}:{line} {function}")
    assert not faults, "give it a generator with a seed: " + ", ".join(faults)


@pytest.mark.parametrize(
    ("source", "seeded", "found"),
    [
        ("import random\nrandom.choice([1])", False, ["random.choice"]),
        ("import random\nrandom.choice([1])", True, []),
        ("from random import shuffle as mix\nmix([1])", False, ["random.shuffle"]),
        ("import random\nrandom.Random(1).choice([1])", False, []),
        ("import random\nrandom.Random().choice([1])", True, ["random.Random"]),
        ("import numpy as np\nnp.random.rand(2)", False, ["numpy.random.rand"]),
        ("import numpy as np\nnp.random.default_rng()", True, ["numpy.random.default_rng"]),
        ("import numpy as np\nnp.random.default_rng(3)", False, []),
        ("import torch\ntorch.randn(2, generator=made)", False, []),
        ("import torch\ntorch.randn(2)", False, ["torch.randn"]),
        ("import uuid\nuuid.uuid4()", True, ["uuid.uuid4"]),
        ("from os import urandom\nurandom(3)", True, ["os.urandom"]),
    ],
)
def test_a_draw_is_found_under_each_of_its_names(source: str, seeded: bool, found: list[str]) -> None:
    assert [function for _, function in draws(source, seeded)] == found


@pytest.mark.parametrize("module", ["random", "os", "uuid", "secrets"])
def test_the_functions_that_are_looked_for_exist(module: str) -> None:
    there = set(dir(importlib.import_module(module)))
    for table in (SHARED, NEVER, WANTS_A_SEED):
        assert table.get(module, set()) <= there


@pytest.mark.parametrize("file", ["trainer/tests/conftest.py", "tests/burn_in/test_burn_in_program.py"])
def test_the_suites_that_may_draw_are_seeded(file: str) -> None:
    text = (REPOSITORY / file).read_text()
    assert "seeds.seed_all(request.node.name)" in text or "import pytest_fixture_setup, pytest_pyfunc_call" in text
