# SPDX-License-Identifier: Apache-2.0
"""The one place that decides versions: what a host is and what its owner pinned go in, a plan or a refusal comes out.

Pure and deterministic: no clock, no file, no network. What fits what is data (roles/preflight/files/matrix.yml). The
rules over it are in plan_rules, the search in plan_search, refusals in plan_input and plan_clash, and plan_result gives
the plan its form.
"""

from .plan_candidates import GPU_KINDS, KINDS, PINS, list_candidates
from .plan_clash import find_conflicts
from .plan_input import (
    find_release,
    kinds_of_gpu,
    misspelt_pins,
    pin_label,
    unknown_pins,
    unknown_value,
    unsupported_host,
)
from .plan_result import describe
from .plan_search import Fact, Problem


def solve(matrix, host, pins):
    """The plan for a host, or `{"conflicts": [...]}` when there is none; both as in docs/architecture.md.

    matrix  content of matrix.yml
    host    what gpu_probe returned; used are os, machine, kernel, gpus and nvidia. Raises KeyError where one is missing
    pins    `{name: text}`, names as in PINS; "" or a missing name leaves the choice to the plan
    """
    pins = {name: value for name, value in pins.items() if value not in ("", None)}
    conflicts = misspelt_pins(matrix, pins)
    if conflicts:
        return {"conflicts": conflicts}
    candidates = list_candidates(matrix, pins)
    unknown = unknown_pins(candidates, pins)
    release = find_release(matrix, host["os"])
    conflicts = unsupported_host(matrix, host, release, pins)
    if conflicts:
        return {"conflicts": conflicts}

    gpus, strangers = kinds_of_gpu(matrix, host["gpus"])
    kinds = [kind for kind in KINDS if _is_planned(kind, host, pins)]
    unused = [name for name in PINS if name in pins and not any(name in candidates[kind][0].pins for kind in kinds)]
    known = [name for name in PINS if name in pins and name not in unused and name not in unknown]
    facts = [Fact("gpu", "gpu", gpu, "{} ({})".format(gpu.name, gpu.architecture)) for gpu in gpus]
    facts += [_pin(name, pins[name]) for name in known]
    facts += [Fact("os", "os", release, "{name} {version}".format(**release))]
    problem = Problem(matrix, candidates, kinds)
    answer = problem.search(facts)

    def find_answer(more_pins):
        return problem.search(facts + [_pin(name, value) for name, value in more_pins.items()])

    conflicts = [unknown_value(matrix, candidates, name, pins[name], find_answer) for name in unknown]
    if answer is None:
        conflicts += find_conflicts(problem, facts)
    if conflicts:
        return {"conflicts": conflicts}

    plan = describe(matrix, host, release, problem, facts, answer)
    for gpu in strangers:
        plan["warnings"].append(
            "Nothing in this plan was checked against {}: its architecture is unknown".format(gpu["name"])
        )
    for name in unused:
        plan["warnings"].append("{} is not used: this host has no NVIDIA GPU".format(PINS[name]))
    return plan


def _pin(name, value):
    return Fact("pin", name, value, pin_label(name, value))


def _is_planned(kind, host, pins):
    """Nothing for a GPU where there is none; NCCL only where it is asked for, as PyTorch brings its own."""
    if kind == "nccl" and "nccl" not in pins:
        return False
    return bool(host["gpus"]) or kind not in GPU_KINDS
