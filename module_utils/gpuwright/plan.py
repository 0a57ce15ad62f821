# SPDX-License-Identifier: Apache-2.0
"""The one place that decides versions: what a host is and what its owner pinned go in, a plan or a refusal comes out.

Pure and deterministic: no clock, no file, no network. What fits what is data (roles/preflight/files/matrix.yml); the rules
over it are in plan_rules, the search in plan_search, the refusals in plan_clash, the plan's form in plan_result.
"""

import difflib

from .plan_candidates import CPU_BUILD, GPU_KINDS, PINS, accepts, list_candidates
from .plan_clash import conflict, find_conflicts
from .plan_result import describe, planned_kinds
from .plan_rules import Gpu
from .plan_search import Fact, Problem
from .versions import is_version, major, version_key

# Who pins these has taken over what the plan would have derived from a GPU's architecture.
PINS_FOR_UNKNOWN_GPU = ("driver_branch", "driver_flavour", "cuda", "cudnn", "pytorch", "pytorch_build")


def solve(matrix, host, pins):
    """The plan for a host, or `{"conflicts": [...]}` when there is none; both as in docs/architecture.md.

    matrix  content of matrix.yml
    host    what gpu_probe returned; used are os, machine, kernel, gpus and nvidia. Raises KeyError where one is missing
    pins    `{name: text}`, names as in PINS; "" or a missing name leaves the choice to the plan
    """
    pins = {name: value for name, value in pins.items() if value not in ("", None)}
    found = _misspelt_pins(matrix, pins)
    if found:
        return {"conflicts": found}
    candidates = list_candidates(matrix, pins)
    release = _find_release(matrix, host["os"])
    found = _unknown_values(matrix, candidates, pins) + _unsupported_host(matrix, host, release, pins)
    if found:
        return {"conflicts": found}

    gpus, unknown = _kinds_of_gpu(matrix, host["gpus"])
    ignored = [] if host["gpus"] else _pins_of_gpu_kinds(candidates, pins)
    facts = _facts(gpus, {name: value for name, value in pins.items() if name not in ignored}, release)
    problem = Problem(matrix, candidates, planned_kinds(bool(host["gpus"]), pins))
    answer = problem.search(facts)
    if answer is None:
        return {"conflicts": find_conflicts(problem, facts)}
    plan = describe(matrix, host, release, problem, facts, answer)
    plan["warnings"] += ["{} is unknown: nothing in this plan was checked against it".format(gpu["name"]) for gpu in unknown]
    plan["warnings"] += ["{} is not used: this host has no NVIDIA GPU".format(name) for name in ignored]
    return plan


def host_title(host):
    """ "a5-01 (rhel 8.8, Tesla V100-PCIE-16GB)", for messages about a host."""
    names = sorted({gpu["name"] for gpu in host["gpus"]}) or ["no NVIDIA GPU"]
    system = "{id} {version}".format(**host["os"])
    return "{} ({})".format(host.get("hostname") or "this host", ", ".join([system] + names))


def _misspelt_pins(matrix, pins):
    """Conflicts for pins that do not exist, are no text, or cannot be what they should be."""
    found = []
    for name, value in sorted(pins.items()):
        if name not in PINS:
            nearest = difflib.get_close_matches(name, list(PINS), 1)
            hint = ", did you mean {}?".format(nearest[0]) if nearest else ""
            found.append(conflict("There is no pin {}{} Known: {}.".format(name, hint, ", ".join(PINS))))
        elif not isinstance(value, str):
            text = "{} is {!r} and not text. Write it in quotes: YAML turns 8.10 into 8.1."
            found.append(conflict(text.format(PINS[name], value)))
        elif name == "driver_version" and not (is_version(value) and major(value) in matrix["drivers"]):
            text = '{} "{}" is not a version of a known branch. Write it as "580.95.05"; known branches: {}.'
            branches = sorted(matrix["drivers"], key=int)
            found.append(conflict(text.format(PINS[name], value, ", ".join(branches))))
    return found


def _unknown_values(matrix, candidates, pins):
    """Conflicts for values that no row of the matrix has, with the nearest that it has."""
    found = []
    for name in PINS:
        if name not in pins or any(_is_known(name, pins[name], group) for group in candidates.values()):
            continue
        value = pins[name]
        allowed = _known_values(name, candidates)
        what = '{} "{}" is not known. Known: {}.'.format(PINS[name], value, ", ".join(allowed))
        if name == "driver_branch" and value in matrix["floating_streams"]["names"]:
            text = '{} "{}" is a stream that moves to a new branch by itself, and with it the driver. Name a branch: {}.'
            what = text.format(PINS[name], value, ", ".join(allowed))
        nearest = difflib.get_close_matches(value, allowed, 3)
        found.append(conflict(what, ["{} {}".format(name, value)], [{name: near} for near in nearest]))
    return found


def _is_known(name, value, group):
    return any(name in candidate.pins and accepts(name, value, candidate) for candidate in group)


def _known_values(name, candidates):
    values = {
        candidate.row["version"] if name in ("cudnn", "nccl") else candidate.pins[name]
        for group in candidates.values()
        for candidate in group
        if candidate.pins.get(name)
    }
    return sorted(values, key=lambda value: version_key(value) if is_version(value) else (0,)) if values else []


def _find_release(matrix, system):
    for release in matrix["os_releases"]:
        if (release["id"], release["version"]) == (system["id"], system["version"]):
            return release
    return None


def _unsupported_host(matrix, host, release, pins):
    """Conflicts for what the host is, whatever is pinned."""
    found = []
    if host["machine"] != matrix["machine"]:
        text = "This host is {}: only {} is known."
        found.append(conflict(text.format(host["machine"], matrix["machine"]), ["machine " + host["machine"]]))
    if release is None:
        title = "{id} {version}".format(**host["os"])
        known = ", ".join("{id} {version}".format(**row) for row in matrix["os_releases"])
        found.append(conflict("{} is not supported. Known: {}.".format(title, known), [title]))
    unknown = _kinds_of_gpu(matrix, host["gpus"])[1]
    missing = [name for name in PINS_FOR_UNKNOWN_GPU if name not in pins]
    if unknown and missing:
        title = ", ".join("{} (device {}, {})".format(gpu["name"], gpu["device_id"], gpu["pci_id"]) for gpu in unknown)
        text = "The architecture of {} is unknown, so nothing can be chosen for it. To choose yourself, set {}."
        found.append(conflict(text.format(title, ", ".join(PINS[name] for name in missing)), [title]))
    if not host["gpus"] and pins.get("pytorch_build") != CPU_BUILD:
        text = 'No NVIDIA GPU is on the PCI bus of this host. If that is right, set {}: "cpu"; else look for the card.'
        choice = {"pytorch_build": CPU_BUILD}
        found.append(conflict(text.format(PINS["pytorch_build"]), ["no NVIDIA GPU"], [choice]))
    return found


def _kinds_of_gpu(matrix, gpus):
    """The different GPUs of a host: those whose architecture is known, as `Gpu`, and the records of the others."""
    known, unknown = [], []
    for gpu in gpus:
        architecture = matrix["architectures"].get(gpu["architecture"])
        if architecture is None:
            unknown.append(gpu)
            continue
        capability = gpu["compute_capability"]
        kind = Gpu(gpu["name"], gpu["architecture"], (capability,) if capability else tuple(architecture["capabilities"]))
        if kind not in known:
            known.append(kind)
    return known, unknown


def _pins_of_gpu_kinds(candidates, pins):
    """The pins that say nothing on a host without a GPU, such as those of a group that has both kinds of host."""
    names = {name for kind in GPU_KINDS for candidate in candidates[kind] for name in candidate.pins}
    return [name for name in PINS if name in pins and name in names]


def _facts(gpus, pins, release):
    """In the order in which they are told: GPUs, pins, operating system."""
    found = [Fact("gpu", "gpu", gpu, "{} ({})".format(gpu.name, gpu.architecture)) for gpu in gpus]
    found += [Fact("pin", name, pins[name], "{} {}".format(name, pins[name])) for name in PINS if name in pins]
    return found + [Fact("os", "os", release, "{name} {version}".format(**release))]
