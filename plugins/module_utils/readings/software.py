# SPDX-License-Identifier: Apache-2.0
"""Versions of what is installed: CUDA toolkit, cuDNN, NCCL, and what the venv's Python can import.

Null means "it does not exist"; what exists but cannot be understood raises ValueError or OSError.
"""

import json
import os
import re
import sys
from typing import Any, Dict, Iterable, List, Optional, Sequence

from ..gpu.cards import card_of, has_tensor_cores
from ..host.as_user import ordinary_account, run_as
from ..host.bounded import Finished, run_bounded
from ..host.files import below, exists, names_in, read_text, resolve
from ..host.written.state_file import ANY, OTHERS, parsed

NVCC_SECONDS = 20
# The first import of torch reads about 2 GB from disk, and starting CUDA on eight GPUs takes seconds more.
VENV_SECONDS = 180
LIBRARY_FOLDERS = ("/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")

# Runs in the venv and prints one JSON line. It uses only torch's public functions, and every import that fails
# becomes a value, so that one broken package does not hide the others.
VENV_PROGRAM = """
import importlib, json, platform, sys
found = {"python": platform.python_version(), "imports": {}, "versions": {}}
for name in ("torch", "numpy", "gan_trainer"):
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        found["imports"][name] = "%s: %s" % (type(error).__name__, str(error)[:300])
    else:
        found["imports"][name] = "ok"
        found["versions"][name] = str(getattr(module, "__version__", "unknown"))
        if name == "torch":
            cuda = module.version.cuda
            cudnn = module.backends.cudnn.version() if cuda else None
            found["torch"] = {
                "build": "cu" + cuda.replace(".", "") if cuda else "cpu",
                "cudnn": str(cudnn) if cudnn else "none",
                "cuda_available": module.cuda.is_available(),
                "architectures": module.cuda.get_arch_list(),
                "devices": [],
            }
            # An ordinary product on each device: what "PyTorch works here" means to people.
            try:
                places = ["cpu"]
                for index in range(module.cuda.device_count() if module.cuda.is_available() else 0):
                    card = module.cuda.get_device_properties(index)
                    found["torch"]["devices"].append({
                        "index": index,
                        "name": card.name,
                        "capability": "%d.%d" % (card.major, card.minor),
                        "memory_mib": card.total_memory // 1048576,
                        "multiprocessors": card.multi_processor_count,
                    })
                    if "cpu" not in sys.argv[1:]:
                        places.append("cuda:%d" % index)
                right = all(
                    bool((module.ones(64, 64, device=place) @ module.ones(64, 64, device=place) == 64).all())
                    for place in places
                )
                found["torch"]["product"] = ("right on " if right else "WRONG on one of ") + ", ".join(places)
            except Exception as error:
                found["torch"]["product"] = "failed: %s" % str(error)[:300]
print(json.dumps(found))
"""


def read_toolkit_version_file(root: str, prefix: str) -> Optional[str]:
    """The toolkit version that `version.json` of CUDA 11.1 and later states, such as "12.9.1"."""
    text = read_text(root, prefix + "/version.json")
    if text is None:
        return None
    version = json.loads(text).get("cuda", {}).get("version")
    if not isinstance(version, str):
        raise ValueError(f"{prefix}/version.json has no version of cuda")
    return version


def read_nvcc_version(root: str, prefix: str) -> Optional[str]:
    """The release that `nvcc --version` prints, such as "12.9"; None if the toolkit has no nvcc."""
    path = prefix + "/bin/nvcc"
    if not exists(root, path):
        return None
    done = run_bounded([below(root, path), "--version"], timeout=NVCC_SECONDS)
    if done.rc != 0:
        raise OSError(done.problem or f"{path} --version ended with {done.rc}")
    match = re.search(r"\brelease ([0-9]+\.[0-9]+)\b", done.stdout)
    if not match:
        raise ValueError(f"{path} --version prints no release")
    return match.group(1)


def read_link(root: str, path: str) -> Optional[str]:
    """The path, as the node sees it, to which a chain of links leads; None if it ends nowhere."""
    full = resolve(root, path)
    return None if full is None else "/" + full[len(below(root, "/")) :].lstrip("/")


def read_header_version(root: str, path: str, prefix: str) -> Optional[str]:
    """Version in a C header that defines `<prefix>_MAJOR`, `_MINOR` and `_PATCHLEVEL` (cuDNN) or `_PATCH` (NCCL)."""
    text = read_text(root, path)
    if text is None:
        return None
    numbers = dict(re.findall(r"(?m)^[ \t]*#[ \t]*define[ \t]+" + prefix + r"_(\w+)[ \t]+([0-9]+)\b", text))
    parts = [numbers.get("MAJOR"), numbers.get("MINOR"), numbers.get("PATCHLEVEL", numbers.get("PATCH"))]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        raise ValueError(f"{path} defines no complete version")
    return ".".join(known)


def read_library_version(root: str, name: str, major: str, folders: Iterable[str] = LIBRARY_FOLDERS) -> Optional[str]:
    """Version in the name of the file to which `<name>.so.<major>` leads, which is the one programs load."""
    for folder in folders:
        path = f"{folder}/{name}.so.{major}"
        full = resolve(root, path)
        if full is None:
            continue
        match = re.search(r"\.so\.([0-9]+(?:\.[0-9]+)+)$", full)
        if not match:
            raise ValueError(f"{path} points to a file without a version in its name: {full}")
        return match.group(1)
    return None


def read_cudnn_of_wheel(root: str, prefix: str, user: str) -> Optional[str]:
    """The version that the library in NVIDIA's wheel reports (its files have none in their names); None if no library.

    Loading a library runs its code, so root has `user` do it; ValueError without such a user.
    """
    names = [name for name in names_in(root, prefix + "/lib") if re.match(r"libcudnn\.so\.[0-9]+$", name)]
    if not names:
        return None
    path = resolve(root, f"{prefix}/lib/{names[-1]}")
    if path is None:
        raise OSError(f"{prefix}/lib/{names[-1]} is a dangling link")
    # In a separate process: a damaged library crashes its process.
    program = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cudnnGetVersion())"
    done = run_as([sys.executable, "-I", "-c", program, path], ordinary_account(user, root), NVCC_SECONDS)
    number = done.stdout.strip()
    if done.rc != 0 or not re.match(r"[0-9]{4,6}$", number):
        raise OSError(done.problem or f"{path} cannot be loaded: {done.stderr.strip()[-200:]}")
    # cudnn_version.h: 8907 is 8.9.7; since version 9, 91002 is 9.10.2.
    unit = 10000 if int(number) >= 90000 else 1000
    return f"{int(number) // unit}.{int(number) % unit // 100}.{int(number) % 100}"


def who_computes(host: Any, nvidia_smi: Any) -> List[str]:
    """Programs that are computing on a card now, from nvidia-smi and from who has a card open; sorted texts."""
    gpus = (nvidia_smi or {}).get("gpus") or []
    shown = [process for gpu in gpus for process in gpu.get("processes") or [] if isinstance(process, dict)]
    found = [process for process in shown if "C" in str(process.get("type"))]
    found += [process for process in (host.get("in_use") or {}).get("gpu_processes", []) if process.get("pid")]
    names = {process.get("pid"): os.path.basename(str(process.get("name"))) for process in found}
    return [f"{names[pid]} (pid {pid})" for pid in sorted(names, key=str)]


def record_of(done: Finished, python: str) -> Dict[str, Any]:
    """The record that a program in the environment printed; OSError with its last words if it failed."""
    if done.rc != 0:
        last_words = (done.stderr.strip().splitlines() or ["no error text"])[-1]
        raise OSError(done.problem or f"{python} ended with {done.rc}: {last_words[:300]}")
    # Libraries may print while they are imported; our line is the last.
    answer = json.loads((done.stdout.strip().splitlines() or [""])[-1])
    if not isinstance(answer, dict):
        raise ValueError(f"{python} answered {answer!r} instead of a record")
    return answer


def read_venv(root: str, venv: str, user: str, busy: Sequence[str] = ()) -> Any:
    """What the venv's Python reports (see VENV_PROGRAM), or None if there is no venv.

    Importing torch runs the code of hundreds of packages, so root has `user` do it, as for training, in an environment
    that contains nothing of the caller's; ValueError without such a user. Other callers run it as themselves.
    """
    python = venv + "/bin/python"
    if not exists(root, python):
        return None
    # -I: neither the caller's environment nor its folder affects what is imported. -B: a check writes nothing.
    # A matrix product on a card takes memory that training on it may need next.
    command = [below(root, python), "-I", "-B", "-c", VENV_PROGRAM] + (["cpu"] if busy else [])
    answer = record_of(run_as(command, ordinary_account(user, root), VENV_SECONDS), python)
    for device in (answer.get("torch") or {}).get("devices") or []:
        device["tensor_cores"] = has_tensor_cores(card_of(device["name"]), device["capability"])
    if busy and isinstance(answer.get("torch"), dict):
        answer["torch"]["busy"] = "; ".join(busy)
    return answer


def read_environment_stamp(root: str, venv: str) -> Any:
    """What the role framework_pytorch wrote when the environment was complete, or None if there is no such file."""
    path = venv + "/gpuwright.json"
    if not exists(root, path):
        return None
    text = read_text(root, path)
    if text is None:
        raise OSError(f"{path} cannot be read")
    return parsed(text.encode("utf-8", "replace"), {OTHERS: ANY}, path)
