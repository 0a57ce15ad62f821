"""What fits what, written down a second time from the vendors' pages: it shares neither code nor data with the planner.

From the matrix only the names of what exists are taken (branches, toolkits, releases, builds), never what they fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from test_plan_questions import GPUS, MATRIX

# NVIDIA: "CUDA toolkit, driver and architecture matrix", driver installation guides of 580, 610 and 620.
LAST_BRANCH = {"kepler": 470, "maxwell": 580, "pascal": 580, "volta": 580}
FIRST_BRANCH = {"ada": 525, "hopper": 525, "blackwell": 570}
WITHOUT_GSP = {"kepler", "maxwell", "pascal", "volta"}
FIRST_OPEN, FIRST_WITHOUT_PROPRIETARY = 515, 615
BRANCH_FOR_CUDA = {10: (440, 33), 11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
# Compute capability: first and last toolkit.
TOOLKITS = {
    "3.0": ((6, 0), (10, 2)),
    "3.5": ((6, 0), (11, 8)),
    "3.7": ((6, 5), (11, 8)),
    "5.2": ((6, 5), (12, 9)),
    "6.0": ((8, 0), (12, 9)),
    "6.1": ((8, 0), (12, 9)),
    "7.0": ((9, 0), (12, 9)),
    "7.5": ((10, 0), (99, 0)),
    "8.0": ((11, 0), (99, 0)),
    "8.6": ((11, 1), (99, 0)),
    "8.9": ((11, 8), (99, 0)),
    "9.0": ((11, 8), (99, 0)),
    "10.0": ((12, 8), (99, 0)),
    "12.0": ((12, 8), (99, 0)),
}
WITH_BFLOAT16 = {"ampere", "ada", "hopper", "blackwell"}
# Red Hat, Debian, Ubuntu.
EL_PYTHONS = {"8.6": "3.6 3.8 3.9", "8.7": "3.6 3.8 3.9", "8.8": "3.6 3.8 3.9 3.11", "8.9": "3.6 3.8 3.9 3.11"}
EL_PYTHONS |= {"9.0": "3.9", "9.1": "3.9", "9.2": "3.9 3.11", "9.3": "3.9 3.11"}
PYTHONS = {"debian 12": "3.11", "debian 13": "3.13", "ubuntu 22.04": "3.10", "ubuntu 24.04": "3.12"}
# By the whole name, or for all minor releases of RHEL and its rebuilds.
FIRST_TOOLKIT = {"debian 12": (12, 3), "debian 13": (13, 1), "ubuntu 22.04": (11, 7), "ubuntu 24.04": (12, 5)}
FIRST_TOOLKIT |= {"el 9": (11, 7), "el 10": (13, 0)}
FIRST_IN_REPOSITORY = {"debian 13": 590, "el 9": 515, "el 10": 580}
# packages.debian.org, packages.ubuntu.com: branches of the driver, toolkit, and cuDNN for it (NVIDIA's wheel on PyPI).
ARCHIVES = {
    "debian 12": ({470, 535}, (11, 8), {(9, 10, 2)}),
    "debian 13": ({535, 550}, (12, 4), {(9, 10, 2)}),
    "ubuntu 22.04": ({470, 535, 570, 580}, (11, 5), {(8, 5, 0)}),
    "ubuntu 24.04": ({470, 535, 570, 580}, (12, 0), {(9, 10, 2)}),
}
# PyTorch: wheels on PyPI, and TORCH_CUDA_ARCH_LIST of the release branches.
TORCH_PYTHONS: dict[tuple[int, ...], tuple[int, int]] = {
    (1, 10): (6, 9), (1, 11): (7, 10), (1, 12): (7, 10), (1, 13): (7, 11), (2, 0): (8, 11), (2, 1): (8, 11),
    (2, 2): (8, 12), (2, 3): (8, 12), (2, 4): (8, 12), (2, 5): (9, 13), (2, 6): (9, 13), (2, 7): (9, 13),
    (2, 8): (9, 13), (2, 15): (11, 15),
}  # fmt: skip
BUILDS = {
    "cu102": "3.7 5.0 6.0 7.0",
    "cu113": "3.7 5.0 6.0 7.0 7.5 8.0 8.6",
    "cu116": "3.7 5.0 6.0 7.0 7.5 8.0 8.6",
    "cu117": "3.7 5.0 6.0 7.0 7.5 8.0 8.6",
    "cu118": "3.7 5.0 6.0 7.0 7.5 8.0 8.6 9.0",
    "cu121": "5.0 6.0 7.0 7.5 8.0 8.6 9.0",
    "cu124": "5.0 6.0 7.0 7.5 8.0 8.6 9.0",
    "cu126": "5.0 6.0 7.0 7.5 8.0 8.6 9.0",
    "cu128": "7.0 7.5 8.0 8.6 9.0 10.0 12.0",
    "cu129": "7.0 7.5 8.0 8.6 9.0 10.0 12.0",
    "cu130": "7.5 8.0 8.6 9.0 10.0 12.0",
    "cu132": "7.5 8.0 8.6 9.0 10.0 12.0",
}
TF_PYTHONS = {
    5: (6, 9), 6: (6, 9), 7: (7, 9), 8: (7, 10), 9: (7, 10), 10: (7, 10), 11: (7, 10), 12: (8, 11), 13: (8, 11),
    14: (9, 11), 15: (9, 11), 16: (9, 12), 17: (9, 12), 18: (9, 12), 19: (9, 12), 20: (9, 13), 21: (10, 13),
}  # fmt: skip


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version))


def agrees(value: str, wanted: str) -> bool:
    """Whether a value is what a pin asks for: the same text, a release of that series, or at least it (">=8.4")."""
    if wanted.startswith(">="):
        return numbers(value) >= numbers(wanted)
    if not numbers(wanted) or not wanted[0].isdigit():
        return value == wanted
    return numbers(value)[: len(numbers(wanted))] == numbers(wanted)


# github.com/NVIDIA/open-gpu-kernel-modules: the table of cards at each tag of a release.
FIRST_FOR_CARD = {"H200": (550, 90, 7), "4090": (525, 78, 1), "B200": (570, 86, 15), "5090": (570, 86, 16)}
GEFORCE, FIRST_OPEN_FOR_GEFORCE = {"4090", "5090"}, 560


def knows(key: str, driver: tuple[int, ...], flavour: str) -> bool:
    """Whether a driver knows the card, whatever its architecture; (550, 999) is the newest of a branch."""
    too_early = flavour == "open" and key in GEFORCE and driver[0] < FIRST_OPEN_FOR_GEFORCE
    return driver >= FIRST_FOR_CARD.get(key, (0,)) and not too_early


def drives(branch: int, flavour: str, architecture: str) -> bool:
    exists = branch >= FIRST_OPEN if flavour == "open" else branch < FIRST_WITHOUT_PROPRIETARY
    right_flavour = flavour == "open" if architecture == "blackwell" else not (
        flavour == "open" and architecture in WITHOUT_GSP
    )  # fmt: skip
    return (
        exists and right_flavour and FIRST_BRANCH.get(architecture, 0) <= branch <= LAST_BRANCH.get(architecture, 999)
    )


def compiles(cuda: tuple[int, ...], capability: str) -> bool:
    first, last = TOOLKITS[capability]
    return first <= cuda <= last


def cudnn_computes(cudnn: tuple[int, ...], cuda_major: int, architecture: str) -> bool:
    if architecture == "kepler":
        return cudnn < (8, 6)
    if architecture in WITHOUT_GSP:
        return cudnn < (9, 11)
    if architecture == "ampere":
        return cuda_major >= 11
    if architecture in ("ada", "hopper"):
        return cudnn >= (8, 6)
    return architecture == "turing" or (cudnn >= (9, 8) and cuda_major >= 12)


def toolkit_takes_cudnn(cuda: tuple[int, ...], cudnn: tuple[int, ...], cuda_major: int) -> bool:
    if cuda[0] != cuda_major:
        return False
    if cudnn[0] == 9:
        return cuda_major > 11 or cuda == (11, 8)
    lasts: dict[tuple[int, ...], tuple[int, ...]] = {(8, 2): (11, 3), (8, 5): (11, 7)}
    last = lasts.get(cudnn[:2], (11, 8))
    return cuda <= (last if cuda_major == 11 else (12, 2))


def has_python(system: str, python: str) -> bool:
    name, version = system.split()
    rest = {"el 8": "3.6 3.8 3.9 3.11 3.12", "el 9": "3.9 3.11 3.12", "el 10": "3.12"}
    known = PYTHONS.get(system) or EL_PYTHONS.get(version) or rest[without_minor(system)]
    return python in known.split()


def without_minor(system: str) -> str:
    """ "el 9" of "rocky 9.4"; Debian and Ubuntu as they are."""
    name, version = system.split()
    return system if name in ("debian", "ubuntu") else "el " + version.split(".")[0]


def has_wheels(span: tuple[int, int], python: str) -> bool:
    return span[0] <= numbers(python)[1] <= span[1]


def torch_computes(torch: str, build: str, capability: str) -> bool:
    if build == "cpu":
        return True
    series, code = numbers(torch)[:2], BUILDS[build].split()
    # PyTorch 2.4 brings cuDNN 9, which begins with Maxwell.
    if series >= (2, 4):
        code = [has for has in code if numbers(has) >= (5, 0)]
    if build == "cu128" and not (2, 8) <= series <= (2, 10):
        code = code[1:]
    first, second = numbers(capability)
    return any(numbers(has)[0] == first and numbers(has)[1] <= second for has in code)


def build_major(build: str) -> int:
    return int(build[2:4]) if build != "cpu" else 0


# Requires-Dist on PyPI: TensorFlow from 2.14 to 2.19 pins each nvidia package as no PyTorch on PyPI does, 2.21 wants an
# NCCL that no PyTorch of CUDA 12 brings, and 2.20 takes CUDA 12.5 and newer with NCCL 2.25.1 and newer.
BESIDE_TF_2_20 = ("2.7.0", "2.7.1", "2.8.0", "2.9.0", "2.9.1", "2.10.0")
ON_PYPI = {"2.7": "cu126", "2.8": "cu128", "2.9": "cu128", "2.10": "cu128"}
# blog.tensorflow.org (2.17), tensorflow/tensorflow#99592.
TF_OLDEST = {"kepler": 14, "maxwell": 16}


def tensorflow_computes(tensorflow: str, architecture: str) -> bool:
    return architecture != "blackwell" and numbers(tensorflow)[1] <= TF_OLDEST.get(architecture, 99)


def tensorflow_fits(
    tensorflow: str, python: str, cuda: tuple[int, ...], cudnn: tuple[int, ...], torch: str, build: str
) -> bool:
    minor = numbers(tensorflow)[1]
    if not has_wheels(TF_PYTHONS[minor], python):
        return False
    if minor in (5, 6, 12, 13) and numbers(torch) >= (2, 2):
        return False
    if minor >= 14:
        series = torch.rsplit(".", 1)[0]
        return build == "cpu" or (minor == 20 and torch in BESIDE_TF_2_20 and ON_PYPI[series] == build)
    wanted = (11, 2) if minor < 12 else (11, 8)
    return cuda[0] == 11 and cuda >= wanted and cudnn[0] == 8 and cudnn >= ((8, 1) if minor < 12 else (8, 6))


def tensorflow_cuda(tensorflow: str) -> int:
    return 11 if numbers(tensorflow)[1] < 15 else 12


def is_there(source: str, system: str, branch: int, cuda: tuple[int, ...], cudnn: tuple[int, ...] | None) -> bool:
    """Whether one place has driver, toolkit and cuDNN (None: any)."""
    if source == "nvidia":
        first = FIRST_TOOLKIT.get(without_minor(system), (10, 2))
        return cuda >= first and branch >= FIRST_IN_REPOSITORY.get(without_minor(system), 0)
    branches, toolkit, libraries = ARCHIVES.get(system, (set(), (), set()))
    return branch in branches and cuda == toolkit and (cudnn is None or cudnn in libraries)


def kind_of(key: str) -> tuple[str, str]:
    """Architecture and compute capability of a key of GPUS, of a card that is known."""
    _device, _name, architecture, capability = GPUS[key]
    assert capability is not None, key
    return architecture, capability


def faults(plan: dict[str, Any], gpu_keys: str, system: str) -> list[str]:
    """What is wrong with a plan for these GPUs (keys of GPUS)."""
    found = []
    branch, flavour = int(plan["driver"]["branch"]), plan["driver"]["flavour"]
    exact = numbers(plan["driver"]["version"]) or (branch, 999)
    cuda, cudnn = numbers(plan["cuda"]["version"]), numbers(plan["cudnn"]["version"])
    torch, build, python = plan["pytorch"]["version"], plan["pytorch"]["build"], plan["python"]["version"]
    tensorflow = plan["tensorflow"]["version"]
    architectures = {GPUS[key][2] for key in gpu_keys.split()}
    for key in gpu_keys.split():
        architecture, capability = kind_of(key)
        driven = drives(branch, flavour, architecture) and knows(key, exact, flavour)
        found += [f"driver {branch} for {architecture}"] * (not driven)
        found += [f"CUDA {cuda} for {capability}"] * (not compiles(cuda, capability))
        found += [f"cuDNN {cudnn} for {architecture}"] * (not cudnn_computes(cudnn, cuda[0], architecture))
        found += [f"{torch} {build} for {capability}"] * (not torch_computes(torch, build, capability))
    needed = {cuda[0], *([build_major(build)] if build != "cpu" else [])}
    needed |= {tensorflow_cuda(tensorflow)} if tensorflow else set()
    found += [f"driver {exact} below CUDA {major}" for major in needed if exact < BRANCH_FOR_CUDA[major]]
    found += [f"cuDNN {cudnn} with CUDA {cuda}"] * (not toolkit_takes_cudnn(cuda, cudnn, cuda[0]))
    names = [*plan["cudnn"]["packages"], plan["cudnn"]["wheel"]]
    spellings = (f"cuda-{cuda[0]}", f"cuda{cuda[0]}.", f"-cu{cuda[0]}==")
    found += ["cuDNN packages for another CUDA"] * (not any(part in name for name in names for part in spellings))
    if plan["nccl"]["version"] and not all(f"cuda{cuda[0]}." in name for name in plan["nccl"]["packages"]):
        found.append("NCCL for another CUDA")
    found += [f"Python {python} on {system}"] * (not has_python(system, python))
    found += [f"Python {python} with {torch}"] * (
        not has_wheels(TORCH_PYTHONS.get(numbers(torch)[:2], (10, 14)), python)
    )
    found += [f"{plan['driver']['source']} of {system}"] * (
        not is_there(plan["driver"]["source"], system, branch, cuda, cudnn)
    )
    if tensorflow and not tensorflow_fits(tensorflow, python, cuda, cudnn, torch, build):
        found.append(f"TensorFlow {tensorflow}")
    if tensorflow and not all(tensorflow_computes(tensorflow, architecture) for architecture in architectures):
        found.append(f"TensorFlow {tensorflow} on {architectures}")
    wants_bfloat16 = build == "cpu" or architectures <= WITH_BFLOAT16
    found += ["AMP type"] * (plan["amp"]["dtype"] != ("bfloat16" if wants_bfloat16 else "float16"))
    return found


def anything_fits(gpu_keys: str, system: str, pins: dict[str, str]) -> bool:
    """Whether any combination of all that exists satisfies the pins on this host: tried one by one, not searched."""
    kinds = [kind_of(key) for key in gpu_keys.split()]

    def wanted(pin: str, value: str) -> bool:
        return pin not in pins or agrees(value, pins[pin])

    drivers = [
        version
        for branch in MATRIX["drivers"]
        for flavour in ("open", "proprietary")
        if wanted("driver_branch", branch) and wanted("driver_flavour", flavour)
        if "driver_version" not in pins or str(numbers(pins["driver_version"])[0]) == branch
        if all(drives(int(branch), flavour, architecture) for architecture, _capability in kinds)
        for version in [numbers(pins["driver_version"]) if "driver_version" in pins else (int(branch), 999)]
        if all(knows(key, version, flavour) for key in gpu_keys.split())
    ]
    toolkits = [
        numbers(cuda)
        for cuda in MATRIX["cuda"]
        if wanted("cuda", cuda)
        if all(compiles(numbers(cuda), capability) for _architecture, capability in kinds)
        if "nccl" not in pins or any(
            row["cuda_major"] == cuda.split(".")[0] and wanted("nccl", row["version"]) for row in MATRIX["nccl"]
        )
    ]  # fmt: skip
    libraries = [
        (numbers(row["version"]), int(row["cuda_major"]))
        for row in MATRIX["cudnn"]
        if wanted("cudnn", row["package_version"])
        if all(cudnn_computes(numbers(row["version"]), int(row["cuda_major"]), kind) for kind, _capability in kinds)
    ]
    pythons = [
        python
        for python in ("3.6", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
        if wanted("python", python) and has_python(system, python) and (python != "3.6" or "python" in pins)
    ]
    environments = list(_environments(pythons, kinds, wanted, "cpu" in pins.get("pytorch_build", "")))
    releases = [release for row in MATRIX["tensorflow"].values() for release in row["releases"]]
    tensorflows = [
        release
        for release in (releases if "tensorflow" in pins else [""])
        if not release
        or (wanted("tensorflow", release) and all(tensorflow_computes(release, kind) for kind, _capability in kinds))
    ]
    for driver in drivers:
        for cuda in toolkits:
            if driver < BRANCH_FOR_CUDA[cuda[0]]:
                continue
            for cudnn, cuda_major in libraries:
                if not toolkit_takes_cudnn(cuda, cudnn, cuda_major):
                    continue
                # The archives have no NCCL.
                if not any(
                    wanted("driver_source", source) and is_there(source, system, driver[0], cuda, cudnn)
                    for source in ("nvidia", *(["distribution"] if "nccl" not in pins else []))
                ):
                    continue
                for python, torch, build in environments:
                    if build != "cpu" and driver < BRANCH_FOR_CUDA[build_major(build)]:
                        continue
                    for tensorflow in tensorflows:
                        if not tensorflow or (
                            driver >= BRANCH_FOR_CUDA[tensorflow_cuda(tensorflow)]
                            and tensorflow_fits(tensorflow, python, cuda, cudnn, torch, build)
                        ):
                            return True
    return False


def _environments(pythons: list[str], kinds: list, wanted: Any, cpu: bool) -> Iterator[tuple[str, str, str]]:
    """Every Python with every build of PyTorch that computes on all these GPUs."""
    found = set()
    for row in MATRIX["pytorch"].values():
        for release in row["releases"]:
            for build in [*row["builds"], *(["cpu"] if cpu else [])]:
                if wanted("pytorch", release) and wanted("pytorch_build", build):
                    span = TORCH_PYTHONS.get(numbers(release)[:2], (10, 14))
                    if all(torch_computes(release, build, capability) for _kind, capability in kinds):
                        found |= {(python, release, build) for python in pythons if has_wheels(span, python)}
    yield from sorted(found)
