"""Play an interpreter with PyTorch and two cards for tests/gpu/evidence: it answers as the scripts on a real one would.

It is started in place of Python, as `made_up_torch.py SCRIPT ARGUMENT ...` or `-m MODULE ...`. $MADE_UP is JSON,
{script or module: fault}; a fault is hang, ignore (hangs, also after SIGTERM), orphan (a grandchild of another session
hangs on), crash, flood, or raise.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

GPU = {"name": "NVIDIA H100 80GB HBM3", "capability": "9.0", "memory_mib": 81559}
MARK = "evidence-test-sleeper"


def tell(**values: Any) -> None:
    print("RESULT " + json.dumps(values), flush=True)


def about() -> None:
    modules = {"numpy": "2.4.6", "PIL": "13.0.0", "yaml": None, "triton": "3.8.0", "lightning": None}
    torch = {"version": "2.15.0+cu132", "cuda": "13.2", "cudnn": 92600, "architectures": ["sm_90"], "nccl": "2.30.4"}
    gpus = [{"index": number, **GPU} for number in range(2)]
    tell(python="3.12.9", executable=sys.executable, modules=modules, torch=torch, gpus=gpus, trainer="")


def compilers() -> None:
    whats = {"triton": "Triton's helper in C", "extension": "a PyTorch extension in C++"}
    steps = [{"name": name, "what": what, "fault": "none", "words": "", "seconds": 1.5} for name, what in whats.items()]
    left_out = [{"name": "torch.compile", "why": "compute capability 6.0"}]
    print(json.dumps({"schema": 1, "device": "cuda", "steps": steps, "left_out": left_out, "problems": []}))


def rows(arms: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "images_per_s": rate,
            "ratio": 1.0,
            "spread": 0.01,
            "rates": [rate * (1 + 0.001 * number) for number in range(7)],
            "peak_memory_mib": 4321,
            "gemm": f"{rate / 250:.0f}%",
        }
        for name, rate in arms.items()
    ]


def bench() -> None:
    raw = Path(sys.argv[sys.argv.index("--raw") + 1])
    raw.mkdir(parents=True)
    arms = {
        "newcomer, strict float32": 1000.0,
        "best loop by hand": 3000.0,
        "gan_trainer, eager": 2900.0,
        "gan_trainer, CUDA graphs": 9400.0,
        "newcomer, TF32 default": 2500.0,
        "by hand, CUDA graph": 9500.0,
        "loop that reads three losses": 2000.0,
        "gan_trainer, compiled, CUDA graphs": 9300.0,
    }
    fed = {"prefetcher off": 9000.0, "prefetcher on": 9100.0}
    cases: list[dict[str, Any]] = [
        {"name": f"{size} px, DCGAN, batch 128", "rows": rows({**arms, **fed}), "goals": [], "wait": 0.004}
        for size in (256, 64)
    ]
    cases[0]["rows"].append({"name": "gan_trainer, compiled", "note": "generator runs eagerly", "images_per_s": None})
    cases[0]["loss_in_half"] = 0.031
    ceilings = {"bf16 GEMM, TFLOP/s": 620.0}
    record = {"schema": 1, "kind": "gpu", "rounds": 15, "trial": False, "ceilings": ceilings, "cases": cases}
    (raw / "trainer-gpu.json").write_text(json.dumps(record))


def performance() -> None:
    measures = {"h2d_gb_s": 54.0, "copy_gb_s": 2500.0, "matmul_bf16_tflops": 110.0}
    device = {"device": "cuda:0", "name": GPU["name"], "pci_id": "0000:18:00.0", "measures": measures, "left_out": {}}
    record = {"schema": 1, "torch": "2.15.0", "device": "cuda", "devices": [device]}
    print(json.dumps({**record, "all_reduce": {"gpus": 2, "value": 210.0}, "problems": []}))


def mode() -> dict[str, Any]:
    counts = {"steps_applied": 50, "steps_skipped": 0, "parameters_changed": True, "seconds": 1.0}
    return {**counts, "loss_first": 1.4, "loss_last": 0.7, "peak_memory_mib": 600}


def smoke() -> None:
    device = {"device": "cuda:0", "name": GPU["name"], "amp_dtype": "bfloat16", "speed_ratio": 2.2}
    record = {"schema": 1, "torch": "2.15.0", "cuda": "13.2", "problems": [], "parallel": None}
    print(json.dumps({**record, "devices": [{**device, "fp32": mode(), "amp": mode()}]}))


def precisions() -> None:
    tell(**{name: {"record": mode(), "faults": [], "slow_because": ""} for name in ("fp32", "tf32", "fp16", "bf16")})


def burn_in() -> None:
    counts = {"products": 5000, "memory_bytes": 10**12, "faults": 1}
    device = {"device": "cuda:0", "name": GPU["name"], "pci_id": "0000:18:00.0", "counts": counts, "left_out": {}}
    series = {"copy_gb_s": [[10.0, 2500.0], [20.0, 2490.0]]}
    faults = ["cuda:0, 12 s after the start: 1 bytes are not 0xaa as they were moved"]
    print(json.dumps({"schema": 1, "problems": [], "devices": [{**device, "series": series, "faults": faults}]}))


def groups() -> None:
    steps = [
        {"step": "all-reduce", "wrong": "", "seconds": 0.1},
        {"step": "all-reduce in a CUDA graph", "wrong": "RuntimeError: not permitted", "seconds": 0.2},
    ]
    found = {"world": 1, "class": "ProcessGroupNCCL2", "steps": steps}
    tell(**{"as PyTorch chooses, 1": found, "TORCH_DIST_USE_NCCL2=0, 1": {"failed": "a process ended with -11: "}})


def tables() -> None:
    figures = {"images_per_s": 1000.0, "ratio": 1.1, "spread": 0.02, "memory_fraction": 0.1, "allocated_fraction": 0.05}
    reported = {"epoch_min": 40, "memory_percent": 40}
    batch = [{"batch_size": size, **figures, "note": "", "not_run": "", "reported": reported} for size in (32, 64, 128)]
    row = {"name": "fp32", "gpus": 1, **figures, "note": "", "not_run": "", "stable": True}
    tell(image_size=64, rounds=3, trial=False, fp32=batch, fp16=batch, precision=[row])


def phases() -> None:
    line = {"allocated_mib": 100, "reserved_mib": 120, "peak_mib": 110, "fraction": 0.1}
    tell(**{"64 px, batch 128, auto": {"precision": "bf16", "phases": {"networks": line, "update": line}}})


def profile() -> None:
    costliest = [{"name": "sm90_xmma_fprop", "share": 0.4, "calls": 20}]
    tell(**{"64 px, eager": {"step_ms": 4.0, "busy_ms": 1.0, "kernels": 410, "costliest": costliest}})


def worker() -> None:
    found = {"to the device, GB/s": 54.0, "back, GB/s": 53.0, "training images/s": 30000.0}
    if "--once" in sys.argv:
        print("rate 30000.0")
        return
    tell(cpus=2, threads=2)
    for number, _line in enumerate(sys.stdin):
        tell(**{name: value * (1 + 0.0001 * (number % 3)) for name, value in found.items()})


PLAYED = {
    "evidence_about.py": about,
    "gan_trainer.compiling": compilers,
    "gpu_bench.py": bench,
    "gan_trainer.performance": performance,
    "gan_trainer.smoke": smoke,
    "evidence_precisions.py": precisions,
    "burn_in.py": burn_in,
    "evidence_process_group.py": groups,
    "evidence_tables.py": tables,
    "evidence_phases.py": phases,
    "evidence_profile.py": profile,
    "evidence_worker.py": worker,
}


def fail(fault: str) -> None:
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "raise":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if fault == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    if fault == "ignore":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if fault == "orphan":
        deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(3600)"
        subprocess.Popen([sys.executable, "-c", deaf, MARK], start_new_session=True)
    time.sleep(3600)


def main() -> None:
    name = sys.argv[2] if sys.argv[1] == "-m" else Path(sys.argv[1]).name
    if name == "gpu-plan":
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    fault = json.loads(os.environ.get("MADE_UP", "{}")).get(name)
    if fault:
        fail(fault)
    PLAYED[name]()


if __name__ == "__main__":
    main()
