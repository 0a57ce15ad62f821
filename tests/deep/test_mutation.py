"""Every comparison and every limit in the checks is there for a reason: turn one round, and a test must notice.

A mutant is a module of checks with one comparison, one limit, one `and` or one `not` changed. It is killed when a row
of the sad paths or the healthy node ends in another status, or without the words that the row asks for.
"""

from __future__ import annotations

import ast
import copy
import importlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import healthy_node
import pytest
import test_checks_sad_paths as rows_of_tests
import test_floors as tests_of_floors
from action_rows import ROWS as ACTIONS
from action_rows import given, next_step
from gpuwright.checks.all import CHECKS
from gpuwright.checks.all import MODULES as CHECKED
from gpuwright.checks.smoke.training import smoke_record
from gpuwright.verdict.check import judge

MODULES = [module.__name__.removeprefix("gpuwright.checks.") for module in CHECKED]
FLIPPED = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
CASES = rows_of_tests.CASES
CODE_AND_CARDS = rows_of_tests.test_code_runs_on_the_card.pytestmark[0].args[1]
AGES = rows_of_tests.test_the_age_of_a_smoke_test.pytestmark[0].args[1]
NONE = rows_of_tests.test_nothing_found_is_told_as_none.pytestmark[0].args[1]
# Mutants that no row can show, each with its reason: the module and the text of the line. One that a row shows is in
# the way, as is one of a line that there is no more: the test names it.
EQUIVALENT = {
    'gpu.cards FIRST_THE_GPUS if here < wanted else "",': ("the action, in test_the_cards_come_before_the_plan"),
    "model.trainer if not folders:": "the action, in test_advice.py and test_files_elsewhere_keep_the_checks_action",
    'driver.packages if len(wanted) > 1 and not readings.absent("probe", "nvidia", "user_space"):': (
        "of one version alone the libraries' own changes nothing: it is not read for its own sake"
    ),
    'gpu.cards return failed("mixed-models", value, wanted or "one model", "different models in one node")': (
        "what is expected, in test_without_a_named_model_one_model_is_expected"
    ),
    'gpu.pcie wanted = stated or "all"': ("what is expected, in test_lanes_are_expected_as_the_inventory_states_them"),
    'host.repositories return "; ".join(told) + (f"; and {len(rows) - MOST} more" if len(rows) > MOST else "")': (
        "the end of the message, in test_as_many_problems_and_files_as_fit_are_all"
    ),
    'host.repositories more = f" and {len(changed) - MOST} more" if len(changed) > MOST else ""': (
        "the end of the message, in test_as_many_problems_and_files_as_fit_are_all"
    ),
    'host.held_updates more = f", and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""': (
        "the end of the message, in test_as_many_names_as_fit_are_all"
    ),
    "gpu.processor here = node if node >= 0 or len(nodes) != 1 else 0": "node 0 is 0 either way",
    'gpu.memory "memory_share": Limit(': "in test_memory_is_held_against_what_the_model_was_made_with",
    'gpu.memory short_of = [made_with] if made_with is not None and size * 100 < made_with * limit("memory_share") '
    "else []": ("in test_memory_is_held_against_what_the_model_was_made_with"),
    "framework.pytorch if code == card or (later and code < card):": "equal ones are taken by the first half",
    'host.tuning return wanted[name].text("wanted") if name in wanted else ""': (
        "used by other modules: the rows of gpu.power_limit and host.cpu_governor show it"
    ),
}


def readers(tree: ast.AST) -> set[ast.AST]:
    """What takes a reading from files and programs, which the rows of the checks do not ask for.

    It is in a Reader or in a function named read_..., and what only these use counts with them.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found: set[ast.AST] = {function for function in functions if function.name.startswith("read_")}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found |= {call for call in calls if getattr(call.func, "id", "") == "Reader"}
    while True:
        inside = {node for function in found for node in ast.walk(function)}
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in inside}
        used = {node.id for node in inside if isinstance(node, ast.Name)}
        more = {each for each in functions if each.name in used - names} - found
        if not more:
            return found
        found |= more


def sites(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """(number of the node in a walk, variant) of each place that can be changed."""
    read = {inside for reader in readers(tree) for inside in ast.walk(reader)}
    for number, node in enumerate(ast.walk(tree)):
        if node in read:
            continue
        if isinstance(node, ast.Compare):
            yield from ((number, position) for position in range(len(node.ops)))
        elif isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            yield number, 0
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Limit":
            yield from ((number, step) for step in (-1, 1))


def mutate(tree: ast.Module, number: int, variant: int) -> tuple[ast.Module, int]:
    """A copy with that place changed, and its line."""
    changed = copy.deepcopy(tree)
    node = list(ast.walk(changed))[number]
    if isinstance(node, ast.Compare):
        node.ops[variant] = FLIPPED[type(node.ops[variant])]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        node.operand = ast.UnaryOp(ast.Not(), node.operand)
    else:
        assert isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant), ast.dump(node)
        number_of_limit = node.args[0].value
        assert isinstance(number_of_limit, int | float), number_of_limit
        node.args[0] = ast.Constant(number_of_limit + variant)
    return ast.fix_missing_locations(changed), node.lineno


def load(name: str, tree: ast.Module) -> types.ModuleType:
    module = types.ModuleType(f"gpuwright.{name}")
    module.__package__ = module.__name__.rpartition(".")[0]
    exec(compile(tree, f"{name}.py", "exec"), module.__dict__)
    return module


def source_of(module: str) -> str:
    file = importlib.import_module(module).__file__
    assert file is not None, module
    return Path(file).read_text()


def made(check_id: str, changes: dict, wishes: dict) -> tuple[dict, dict]:
    record = {**healthy_node.readings(check_id), "smoke": healthy_node.elsewhere(check_id, "smoke")}
    for path, value in changes.items():
        healthy_node.put(record, path, value)
    expectations = healthy_node.elsewhere(check_id, "expectations")
    for name, value in wishes.items():
        target = expectations["plan"] if "." in name else expectations
        healthy_node.put(target, tuple(name.split(".")), value)
    return record, expectations


def outcomes(module: types.ModuleType) -> list:
    """What the tests of this module look at: status, code, items, whether their words are in message or next step."""
    table = {check.id: check for check in module.CHECKS}
    if hasattr(module, "KNOWN"):
        module.KNOWN[:] = CHECKS
    complete = getattr(module, "smoke_record", smoke_record)
    rows = [(name, changes, wishes, words) for name, changes, wishes, _status, words in CASES if name in table]
    nodes: list[tuple[str, dict, dict, str]] = [
        (name, *made("", changes, wishes), words) for name, changes, wishes, words in rows
    ]
    nodes += [(name, *made(name, {}, {}), "") for name in table]
    nodes += [
        (name, *made("", {("smoke",): {**healthy_node.smoke(), "age_s": s}}, {}), w)
        for name in table
        for s, w in AGES
        if name == "smoke.amp"
    ]
    nodes += [("smoke.amp", *made("", {("smoke",): None}, {}), "no smoke test was run")] * ("smoke.amp" in table)
    found: list[object] = []
    for name, record, expectations, words in nodes:
        record["smoke"] = complete(record["smoke"])
        answer = judge(table[name], record, expectations)
        found.append((answer["status"], words in answer["message"], answer["code"], answer["items"]))
    for name, changes, words, _there in ACTIONS:
        if name in table:
            found.append(words in next_step(judge(table[name], *made("", *given(changes)))))
    found += [judge(table[name], *made(name, {}, {}))["value"] for name in NONE if name in table]
    if hasattr(module, "runs_on"):
        found += [module.runs_on(built_for, card) for built_for, card, _expected in CODE_AND_CARDS]
    return found


@pytest.mark.parametrize("name", MODULES)
def test_every_mutant_is_noticed(name):
    lines = source_of(f"gpuwright.checks.{name}").splitlines()
    tree = ast.parse("\n".join(lines))
    right = outcomes(load(f"checks.{name}", tree))
    survivors, total = [], 0
    in_the_way = {entry for entry in EQUIVALENT if entry.startswith(f"{name} ")}
    for number, variant in sites(tree):
        mutant, line = mutate(tree, number, variant)
        total += 1
        try:
            noticed = outcomes(load(f"checks.{name}", mutant)) != right
        except Exception:
            noticed = True
        if not noticed:
            entry = f"{name} {lines[line - 1].strip()}"
            in_the_way.discard(entry)
            survivors += [] if entry in EQUIVALENT else [f"{line}: {lines[line - 1].strip()}"]
    print(f"\n{name}: {total} mutants, {len(survivors)} survived")
    # The smallest modules have one `not`.
    assert total >= 1
    assert survivors == [], "\n".join(survivors)
    assert not in_the_way


def of_tests(test: Any) -> list[tuple]:
    """The rows of a parametrized test, without what it expects, which is last."""
    return [row[:-1] for row in test.pytestmark[0].args[1]]


def floors_seen(module: types.ModuleType) -> list:
    """What the tests of floors look at."""
    found = [module.floor_of(*row)[:2] for row in of_tests(tests_of_floors.test_floor_of_a_model)]
    found += [module.peak_of(*row) for row in of_tests(tests_of_floors.test_peak)]
    reduced = of_tests(tests_of_floors.test_all_reduce_is_judged_where_others_measured_it)
    found += [module.reduce_floor(*row)[0] for row in [*reduced, ("NVIDIA H200", 8)]]
    # test_the_source_of_a_floor_names_its_number
    found += [module.floor_of(tests_of_floors.A100, measure).source for measure in ("p2p_gb_s", "copy_gb_s")]
    return found + [module.amp_floor(name)[:2] for name in ("volta", "ampere", "hopper")]


def floor_sites(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Comparisons as elsewhere, and every number; the measurements are golden values of test_floors.py."""
    yield from sites(tree)
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield number, 1


def test_every_mutant_of_the_floors_is_noticed():
    lines = source_of("gpuwright.gpu.floors").splitlines()
    tree = ast.parse("\n".join(lines))
    right = floors_seen(load("gpu.floors", tree))
    survivors, total = [], 0
    for number, variant in floor_sites(tree):
        if isinstance(list(ast.walk(tree))[number], ast.Constant):
            mutant = copy.deepcopy(tree)
            node = list(ast.walk(mutant))[number]
            assert isinstance(node, ast.Constant) and isinstance(node.value, int | float)
            node.value, line = node.value * 1.01, node.lineno
        else:
            mutant, line = mutate(tree, number, variant)
        total += 1
        try:
            noticed = floors_seen(load("gpu.floors", mutant)) != right
        except Exception:
            noticed = True
        if not noticed:
            survivors.append(f"{line}: {lines[line - 1].strip()}")
    assert total > 15
    assert survivors == [], "\n".join(survivors)
