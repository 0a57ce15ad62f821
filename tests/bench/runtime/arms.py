"""The ways to start a training that are compared: how each is spelt, and what of it this machine can do."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
# Makes the launcher of this checkout behave as the installed one.
INSTALLED_LIBRARY = "/usr/local/lib/gpuwright"
INSTALLED_PYTHON = "/usr/libexec/platform-python"
BARE, AGAIN = "bare", "bare again"


@dataclass
class Arm:
    """One way to start `python script.py`: words before the interpreter or in its place, and the environment."""

    name: str
    prefix: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    # Starts Python scripts itself, so the interpreter's name is part of `prefix`.
    is_python: bool = False
    note: str = ""
    # What the process must have loaded for the arm to be what its name says.
    allocators: list[str] = field(default_factory=list)

    def command(self, python: str, *script: str) -> list[str]:
        return [*self.prefix, *([] if self.is_python else [python]), *script]

    def full_environment(self) -> dict[str, str]:
        """A clean one: what the caller's shell sets must not be part of any arm."""
        unwanted = ("LD_PRELOAD", "MALLOC_CONF", "OMP_", "GOMP_", "KMP_", "LOCAL_", "PYTORCH_", "CUDA_", "SLURM_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        package = REPOSITORY / "trainer"
        return {**kept, "PYTHONPATH": str(package), "PYTHONWARNINGS": "ignore", **self.environment}


def install_gpu_run(folder: Path, python: str = "") -> Path:
    """The launcher and the compiled library of this checkout as a node has them; `python` runs it, if given."""
    from gpuwright.host.bytecode import compile_modules, first_interpreter

    text = (REPOSITORY / "roles/system_runtime/files/gpu-run").read_text()
    assert INSTALLED_LIBRARY in text and INSTALLED_PYTHON in text
    library = folder / "library"
    if not library.exists():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / "plugins/module_utils", library / "gpuwright", ignore=ignored)
    used = python or first_interpreter([INSTALLED_PYTHON, "/usr/bin/python3"])
    assert used is not None, "no Python of this machine runs gpu-run"
    compile_modules(str(library / "gpuwright"), used, write=True)
    program = folder / f"gpu-run{Path(python).name}"
    program.write_text(text.replace(INSTALLED_LIBRARY, str(library)).replace(INSTALLED_PYTHON, used))
    program.chmod(0o755)
    return program


def oldest_python() -> str:
    """A Python 3.6, which RHEL 8's platform-python is; "" where there is none."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for candidate in [shutil.which("python3.6"), *sorted(root.glob("versions/3.6*/bin/python3.6"))]:
        # pyenv's shim may be in PATH and still refuse to run.
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            return str(candidate)
    return ""


def tuned_conf() -> str:
    """MALLOC_CONF of the role."""
    # Not every machine that measures the launcher has it.
    import yaml

    defaults = yaml.safe_load((REPOSITORY / "roles/system_runtime/defaults/main.yml").read_text())
    return defaults["system_runtime_malloc_conf"]


def launchers(python: str, gpu_run: Path, cuda: bool) -> list[Arm]:
    """Bare twice (the control), the alternatives that this machine has, and gpu-run."""
    arms = [Arm(BARE), Arm(AGAIN)]
    if shutil.which("numactl"):
        arms.append(Arm("numactl", ["numactl", "--cpunodebind=0", "--membind=0"]))
    cpus = sorted(os.sched_getaffinity(0))
    arms.append(Arm("GOMP_CPU_AFFINITY", environment={"GOMP_CPU_AFFINITY": f"{cpus[0]}-{cpus[-1]}"}))
    run_cpu = [python, "-m", "torch.backends.xeon.run_cpu", "--ninstances", "1"]
    arms.append(Arm("run_cpu", run_cpu, is_python=True))
    torchrun = [python, "-m", "torch.distributed.run", "--nproc-per-node=1"]
    if cuda:
        arms.append(Arm("torchrun --numa-binding", [*torchrun, "--numa-binding=node"], is_python=True))
    else:
        note = "without --numa-binding, which ends in an error where PyTorch has no CUDA device"
        arms.append(Arm("torchrun", torchrun, is_python=True, note=note))
    arms.append(Arm("gpu-run", [str(gpu_run), "--"]))
    return arms


def allocators(gpu_run: Path, libraries: dict[str, str]) -> list[Arm]:
    """gpu-run with each allocator whose library is there."""
    arms = []
    for name, conf in (("jemalloc", ""), ("jemalloc", tuned_conf()), ("tcmalloc", "")):
        if libraries.get(name):
            environment = {"MALLOC_CONF": conf} if conf else {}
            words = [str(gpu_run), "--allocator", name, "--"]
            arms.append(Arm(name + (" tuned" if conf else ""), words, environment, allocators=[name]))
    return arms


def library_paths() -> dict[str, str]:
    """{allocator: path} of the libraries that this machine has."""
    folders = ("/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
    names = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
    found = {}
    for allocator, name in names.items():
        for folder in folders:
            if (Path(folder) / name).exists():
                found[allocator] = str(Path(folder) / name)
                break
    return found
