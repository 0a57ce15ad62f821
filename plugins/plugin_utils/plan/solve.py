# SPDX-License-Identifier: Apache-2.0
"""The only place that decides versions: a host and its owner's pins go in, a plan or a refusal comes out.

Pure and deterministic: no clock, no network and no file. Which versions fit together is data
(roles/preflight/files/matrix/). The rules for it are in `rules`, the search in `search`, refusals in `input` and
`clash`; `result` gives the plan its format, `reasons` its sentences.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import major

from .candidates import (
    CPU_BUILD,
    DISTRIBUTION,
    GPU_KINDS,
    KINDS,
    NO_TOOLKIT,
    ON_DEMAND,
    PINS,
    TOOLKIT_KINDS,
    Candidate,
    Fact,
    candidates_of_all,
    list_candidates,
    pin_label,
)
from .clash import conflict, find_conflicts, with_choice
from .input import (
    find_release,
    held_pins,
    kinds_of_gpu,
    misspelt_pins,
    only_planned,
    profile_pins,
    unknown_pins,
    unsupported_host,
    without_toolkit,
)
from .kernels.signed import needs_a_console
from .machines.board_packages import platform_of
from .machines.guests import guest_of, guest_warnings
from .result import describe, requirements
from .risks.compilers import ONLY
from .risks.holes import known_holes, wheel_holes
from .rules import Rules
from .search import Problem
from .typed_names import newest_release
from .unknown import unknown_value
from .unlisted import with_unlisted


def solve(matrix: dict[str, Any], host: dict[str, Any], pins: dict[str, str]) -> dict[str, Any]:
    """The plan for a host, or `{"conflicts": [...]}` if there is none; both as in docs/parts/plan.md.

    matrix  which versions fit together; with a list `locks` in it, the plan says whether its lock file is among them
    host    what gpu_probe returned; it uses os, machine, kernel, gpus and nvidia, and the text `ansible_core` if
            present. Raises KeyError if one of the others is missing. With `imagined` or `only_judged` nothing will be
            installed: it may have a processor on which this version installs nothing
    pins    `{name: text}`, names as in PINS; "" or a missing name leaves the choice to the profile, then to the plan
    """
    pins = {name: value for name, value in pins.items() if value not in ("", None)}
    conflicts = misspelt_pins(matrix, pins)
    if conflicts:
        return {"conflicts": conflicts}
    asked = dict(pins)
    matrix, pins, warnings = with_unlisted(matrix, pins, PINS)
    profile = pins.pop("profile", matrix["default_profile"])
    held = held_pins(profile_pins(matrix, profile), pins)
    toolkit = pins.get("cuda") != NO_TOOLKIT
    if not toolkit:
        conflicts = without_toolkit(pins)
        if conflicts:
            return {"conflicts": conflicts}
        pins = {name: value for name, value in pins.items() if name not in TOOLKIT_KINDS}
        held = {name: value for name, value in held.items() if name not in TOOLKIT_KINDS}
    release = find_release(matrix, host)
    form = matrix["os_families"][release["family"]]["format"] if release else "rpm"
    guest = guest_of(host, pins, form)
    if guest and guest.conflicts:
        if not host.get("only_judged"):
            return {"conflicts": guest.conflicts}
        guest = None
    if guest:
        matrix, pins = dict(matrix, site_driver=guest.packages), guest.pins
    by_signature = _without_console(matrix, host, release, asked) if release and not guest else None
    if by_signature:
        return by_signature
    candidates = list_candidates(matrix, pins, release["family"] if release else None)
    unknown = unknown_pins(candidates, pins)
    conflicts = unsupported_host(matrix, host, release, pins)
    # Without a release there is always a conflict.
    if conflicts or release is None:
        return {"conflicts": conflicts}

    gpus, strangers = kinds_of_gpu(matrix, host["gpus"])
    kinds = [kind for kind in KINDS if _is_planned(kind, host, dict(held, **pins))]
    kinds = [kind for kind in kinds if toolkit or kind not in TOOLKIT_KINDS]
    used = {name for kind in kinds for name in candidates[kind][0].pins}
    unused = [name for name in PINS if name in pins and name not in used]
    facts = [Fact("gpu", "gpu", gpu, f"{gpu.name} ({gpu.architecture})", "") for gpu in gpus]
    facts += [_pin(name, pins[name]) for name in PINS if name in pins and name in used and name not in unknown]
    facts += [_held(profile, name, held[name]) for name in PINS if name in held and name in used]
    # What is available there depends on the processor and on the board of the GPUs, too.
    facts += [_system(dict(release, machine=host["machine"], platform=platform_of(host), toolkit=toolkit))]
    problem = Problem(Rules(matrix), candidates, kinds)
    answer = problem.best(facts)

    def find_answer(more_pins: dict[str, str]) -> dict[str, Candidate] | None:
        return problem.best(facts + [_pin(name, value) for name, value in more_pins.items()])

    conflicts = [unknown_value(problem, facts, matrix, name, pins[name], find_answer) for name in unknown]
    if answer is None:
        conflicts += find_conflicts(problem, facts)
    if conflicts or answer is None:
        conflicts = conflicts if unknown else _offer_cpu_build(problem, facts, conflicts)
        conflicts = _offer_other_profile(matrix, host, pins, profile, problem, facts, conflicts)
        if not unknown:
            conflicts = _name_other_systems(problem, matrix, pins, facts, conflicts)
            conflicts = _offer_no_toolkit(problem, facts, conflicts)
        return {"conflicts": conflicts}

    plan = describe(matrix, host, release, problem, facts, answer)
    plan["profile"] = profile
    not_installed = only_planned(matrix, host, release)
    plan["warnings"] = ([not_installed] if not_installed else []) + warnings + plan["warnings"]
    plan["warnings"] += guest_warnings(host)
    plan["warnings"] += known_holes(matrix, plan["driver"]["version"], host, plan["driver"]["present"])
    plan["warnings"] += _toolkit_for_extensions(problem, facts, answer)
    plan["warnings"] += wheel_holes(matrix, problem, facts, answer)
    plan["requirements"] = requirements(plan, matrix["profiles"][profile]["packages"], matrix["environment_packages"])
    for gpu in strangers:
        plan["warnings"].append(f"Nothing in this plan was checked against {gpu['name']}: its architecture is unknown")
    for name in unused:
        plan["warnings"].append(f"{PINS[name]} is not used: this host has no NVIDIA GPU")
    return plan


def _toolkit_for_extensions(problem: Problem, facts: list[Fact], answer: dict[str, Candidate]) -> list[str]:
    """A sentence on a toolkit of PyTorch's own CUDA, with which alone its extensions are compiled, if one fits.

    The toolkit is chosen before the PyTorch, as the newest that the driver has.
    """
    wanted = answer["pytorch"].row["cuda"]
    if "cuda" not in answer or not wanted or major(answer["cuda"].pins["cuda"]) == major(wanted):
        return []
    kept = [(name, value) for kind in ("driver", "python", "pytorch") for name, value in answer[kind].pins.items()]
    pins = [_pin(name, value) for name, value in [*kept, ("cuda", major(wanted))] if value]
    own = problem.search([fact for fact in facts if fact.name not in TOOLKIT_KINDS] + pins)
    text = "{} those of {} can be compiled with {}, which fits, too: {}"
    label = pin_label("cuda", own["cuda"].pins["cuda"]) if own else ""
    return [text.format(ONLY, answer["pytorch"].label, own["cuda"].label, label)] if own else []


def _without_console(
    matrix: dict[str, Any], host: dict[str, Any], release: dict[str, Any], pins: dict[str, str]
) -> dict[str, Any] | None:
    """Under Secure Boot, the plan with modules that the distribution has signed, if there is one; else None."""
    archive = matrix["os_families"][release["family"]].get("distribution") or {}
    if "signed" not in archive or "driver_source" in pins or not needs_a_console(host):
        return None
    # Secure Boot has accepted a driver that is loaded, whoever signed it. One that DKMS has not built has come signed.
    if host["nvidia"].get("loaded") and host["nvidia"].get("dkms"):
        return None
    plan = solve(matrix, host, dict(pins, driver_source=DISTRIBUTION))
    if "conflicts" in plan or not plan["driver"]["signed"]:
        return None
    why = f"Secure Boot takes the modules of {archive['title']}, which are signed, and nobody has to be at the console"
    return {**plan, "because": {**plan["because"], "driver": why}}


def one_way_out(
    matrix: dict[str, Any], host: dict[str, Any], pins: dict[str, str], conflicts: list[dict[str, Any]]
) -> dict[str, str]:
    """The first choice of every conflict, as `{pin: value}`, if together they lead to a plan; else an empty dict."""
    together: dict[str, str] = {}
    for entry in conflicts:
        together.update(entry["choices"][0] if entry["choices"] else {})
    if not together or "conflicts" in solve(matrix, host, dict(pins, **together)):
        return {}
    return together


def _offer_no_toolkit(problem: Problem, facts: list[Fact], conflicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The node without a toolkit, where that alone is in the way: wheels bring their own CUDA, and need the driver."""
    here = next(fact for fact in facts if fact.kind == "os")
    kept = [fact for fact in facts if fact is not here and fact.name not in TOOLKIT_KINDS]
    named = any("CUDA" in entry["what"] or "cuDNN" in entry["what"] for entry in conflicts)
    pinned = {fact.name for fact in facts if fact.kind == "pin"}
    if len(conflicts) > 1 or "cuda" not in problem.kinds or not named or pinned & {"cudnn", "nccl"}:
        return conflicts
    smaller = problem.over(problem.candidates, [kind for kind in problem.kinds if kind not in TOOLKIT_KINDS])
    if smaller.search([*kept, here._replace(value=dict(here.value, toolkit=False))]) is None:
        return conflicts
    return [with_choice(entry, {"cuda": NO_TOOLKIT}) for entry in conflicts]


def _offer_cpu_build(problem: Problem, facts: list[Fact], conflicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """PyTorch for the CPU, if nothing else is left or TensorFlow shares no environment with a build for GPUs."""
    pinned = {fact.name for fact in facts if fact.kind == "pin"}
    no_way = not any(entry["choices"] for entry in conflicts)
    involved = "tensorflow" in pinned and PINS["tensorflow"] in " ".join(conflicts[0]["clash"])
    choice = {"pytorch_build": CPU_BUILD}
    if len(conflicts) > 1 or not (involved or no_way) or "pytorch_build" in pinned:
        return conflicts
    if problem.search(facts + [_pin(*item) for item in choice.items()]) is None:
        return conflicts
    return [with_choice(entry, choice) for entry in conflicts]


def _name_other_systems(
    problem: Problem,
    matrix: dict[str, Any],
    pins: dict[str, str],
    facts: list[Fact],
    conflicts: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """If no pin leads to a plan, the systems on which the same question has one, the newest of each family."""
    if any(entry["choices"] for entry in conflicts):
        return conflicts
    gpus = [fact.label for fact in facts if fact.kind == "gpu"]
    here = next(fact.value for fact in facts if fact.kind == "os")
    rest = [fact for fact in facts if fact.kind != "os"]
    systems = {}
    for family in matrix["os_families"]:
        releases = [other for other in matrix["os_releases"] if other["family"] == family != here["family"]]
        if releases:
            systems[family] = dict(newest_release(releases), machine=here["machine"], platform=here["platform"])
    everywhere = problem.over(candidates_of_all(matrix, pins, list(systems), problem.candidates), problem.kinds)
    found = []
    for family in everywhere.with_answer(rest, {name: _system(release) for name, release in systems.items()}):
        name = matrix["os_families"][family]["name"]
        found.append(f"{name} ({systems[family]['version']})" if "," in name else name)
    if found:
        step = f"There is a plan for it on {' or '.join(found)}"
    elif len(gpus) > 1:
        step = "Nothing supports all of these GPUs: put those of one generation into one host"
    else:
        step = "No system that this version installs has a plan for it"
    first = conflicts[0]
    return [conflict(f"{first['what']} {step}.", first["clash"], first["choices"])] + conflicts[1:]


def _system(release: dict[str, Any]) -> Fact:
    return Fact("os", "os", release, "{name} {version}".format(**release), "")


def _offer_other_profile(
    matrix: dict[str, Any],
    host: dict[str, Any],
    pins: dict[str, str],
    profile: str,
    problem: Problem,
    facts: list[Fact],
    conflicts: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """If a profile is part of a refusal and the default profile leads to a plan, that is a choice, too."""
    default = matrix["default_profile"]
    involved = [entry for entry in conflicts if any(label.startswith(PINS["profile"]) for label in entry["clash"])]
    if profile == default or not involved:
        return conflicts
    held = held_pins(profile_pins(matrix, default), pins)
    kept = [fact for fact in facts if not fact.origin.startswith("the profile")]
    kinds = [kind for kind in KINDS if _is_planned(kind, host, dict(held, **pins))]
    problem = problem.over(problem.candidates, kinds)
    if problem.search(kept + [_held(default, name, value) for name, value in held.items()]) is None:
        return conflicts
    return [with_choice(entry, {"profile": default}) if entry in involved else entry for entry in conflicts]


def _pin(name: str, value: str) -> Fact:
    return Fact("pin", name, value, pin_label(name, value), PINS[name])


def _held(profile: str, name: str, value: str) -> Fact:
    label = 'preflight_profile "{}" ({} {})'.format(profile, name.replace("_", " "), value)
    return Fact("pin", name, value, label, "the profile " + profile)


def _is_planned(kind: str, host: dict[str, Any], pins: dict[str, str]) -> bool:
    """Nothing for a GPU if there is none; optional parts only if they are asked for."""
    if kind in ON_DEMAND and kind not in pins:
        return False
    return bool(host["gpus"]) or kind not in GPU_KINDS
