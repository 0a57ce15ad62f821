"""make bench-runtime: what starting a training through gpu-run costs and gives, beside the alternatives, in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from arms import AGAIN, BARE, REPOSITORY, Arm, allocators, install_gpu_run, launchers, library_paths, oldest_python
from measure import Failed, compare, cost_verdict, interleave, run, start_of, verdict
from page import with_measured, write_page
from trainer_kinds import CACHE, trainer_python

RESULTS = REPOSITORY / "docs" / "benchmarks"
GOMP = "GOMP_CPU_AFFINITY"
OLDEST = "gpu-run, Python 3.6"
# What a start through gpu-run may cost beyond a bare one, on one core of a small machine.
MOST_START_MS = 40
SPEED_METRICS = [
    *((f"images/s, {workers} workers", True) for workers in (1, 2, 4)),
    *((f"CPU ms per image, {workers} workers", False) for workers in (1, 2, 4)),
    ("training images/s", True),
]


def machine(python: str) -> dict:
    """What a reader needs to judge the figures; no names of hosts or folders."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = next(
        (line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")), "?"
    )
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 2**20
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
    code = "import json, platform, torch\n"
    code += "print(json.dumps([platform.python_version(), torch.__version__, torch.cuda.is_available()]))"
    version, torch, cuda = json.loads(subprocess.check_output([python, "-c", code], text=True).splitlines()[-1])
    load = os.getloadavg()[0]
    return {
        "CPU": model,
        "CPUs": os.cpu_count(),
        "NUMA nodes": nodes,
        "memory GiB": memory,
        "kernel": platform.release(),
        "virtual machine": "hypervisor" in cpuinfo,
        "load when it began": round(load, 1),
        "Python": version,
        "PyTorch": torch,
        "C library": " ".join(platform.libc_ver()),
        "packages": package_versions(),
        "CUDA": cuda,
    }


def package_versions() -> dict[str, str]:
    """Versions of the packages that are compared, as far as dpkg or rpm can tell."""
    names = ["libjemalloc2", "libtcmalloc-minimal4", "numactl", "jemalloc", "gperftools-libs"]
    tool = ["dpkg-query", "-W", "-f", "${Package} ${Version}\n"]
    if not shutil.which("dpkg-query"):
        tool = ["rpm", "-q", "--qf", "%{NAME} %{VERSION}\n"]
    done = subprocess.run([*tool, *names], capture_output=True, text=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if len(line.split(" ")) == 2)


def start_cost(arms: list[Arm], python: str, rounds: int, scratch: Path) -> list[dict]:
    """Milliseconds to start `true`, and to start Python; the launchers that are Python modules cannot start `true`."""
    true = shutil.which("true") or "/bin/true"
    cpu = str(max(os.sched_getaffinity(0)))
    plain = [arm for arm in arms if not arm.is_python and arm.name != GOMP]
    if oldest_python():
        plain.append(Arm(OLDEST, [str(install_gpu_run(scratch, oldest_python())), "--"]))

    def once_true(arm: Arm) -> dict:
        return start_of(["taskset", "-c", cpu, *arm.prefix, true], arm.full_environment())

    def once_python(arm: Arm) -> dict:
        start = time.perf_counter()
        run(arm, python, "nothing")
        return {"ms": 1000 * (time.perf_counter() - start)}

    label, script = "start of `true` on one core", "start of a Python script"
    starts = interleave(plain, 10 * rounds, once_true, label)
    scripts = interleave([arm for arm in arms if arm.name != GOMP], rounds, once_python, script)
    return [
        _start_table(label + ", CPU time", starts, "CPU ms"),
        _start_table(label, starts, "ms"),
        _start_table(script, scripts, "ms"),
    ]


def _start_table(label: str, rounds: list[dict], metric: str) -> dict:
    """The comparison, with the median of what each arm adds to the bare one of its own round."""
    table = compare(rounds, metric, False)
    for name, row in table["arms"].items():
        row["added"] = statistics.median(values[name][metric] - values[BARE][metric] for values in rounds)
    return {"label": label, "rounds": rounds, **table}


def speeds(arms: list[Arm], python: str, options: argparse.Namespace, folder: str) -> list[dict]:
    """DataLoader and training under every launcher and allocator."""
    words = ["speed", "--folder", folder, "--images", str(options.images), "--steps", str(options.steps)]
    results = interleave(arms, options.rounds, lambda arm: run(arm, python, *words), "DataLoader and training")
    return [{"label": metric, "rounds": results, **compare(results, metric, up)} for metric, up in SPEED_METRICS]


def churn(arms: list[Arm], python: str, seconds: float) -> dict:
    """Memory growth under each allocator, one after the other."""
    table = {}
    for arm in arms:
        table[arm.name] = run(arm, python, "churn", "--seconds", str(seconds), timeout=seconds + 120)
        print(f"churn: {arm.name} done", file=sys.stderr, flush=True)
    return {"seconds": seconds, "arms": table}


def affinities(arms: list[Arm], python: str) -> dict[str, dict]:
    """CPUs of the main thread and of a DataLoader worker under every arm."""
    return {arm.name: run(arm, python, "affinity") for arm in arms}


def memory_bandwidth(python: str) -> dict | None:
    """GB/s from node 0 to its own memory and to node 1's; None on a machine with one node."""
    nodes = Path("/sys/devices/system/node/has_memory").read_text().strip()
    if nodes in ("", "0") or not shutil.which("numactl"):
        return None
    far = nodes.replace(",", "-").split("-")[-1]
    arms = [Arm(BARE, ["numactl", "--cpunodebind=0", "--membind=0"])]
    arms.append(Arm(AGAIN, arms[0].prefix))
    arms.append(Arm("remote", ["numactl", "--cpunodebind=0", f"--membind={far}"]))
    results = interleave(arms, 5, lambda arm: run(arm, python, "bandwidth"), "memory bandwidth")
    return compare(results, "GB/s", True)


def measure(options: argparse.Namespace, python: str, scratch: Path) -> dict:
    about = machine(python)
    gpu_run, libraries = install_gpu_run(scratch), library_paths()
    arms = launchers(python, gpu_run, about["CUDA"])
    if options.vs:
        wanted = {BARE, AGAIN, "gpu-run", *options.vs.split(",")}
        unknown = wanted - {arm.name for arm in arms}
        if unknown:
            raise Failed(f"--vs {options.vs}: no such arm here: {', '.join(sorted(unknown))}")
        arms = [arm for arm in arms if arm.name in wanted]
    loads = allocators(gpu_run, libraries)
    images = scratch / "images"
    images.mkdir()
    run(Arm("images"), python, "images", "--folder", str(images), "--images", "64")
    starts = start_cost(arms, python, options.rounds, scratch)
    rows = speeds([*arms, *loads], python, options, str(images))
    others = [arm.name for arm in arms if arm.name not in ("gpu-run", AGAIN)]
    for row in starts:
        row["verdict"] = cost_verdict("gpu-run", row["rounds"], row["metric"], MOST_START_MS)
    for row in rows:
        row["verdict"] = verdict(row, "gpu-run", others, row["rounds"])
    raw = {"speed": rows[0]["rounds"], **{row["label"]: row["rounds"] for row in starts}}
    options.raw.mkdir(parents=True, exist_ok=True)
    (options.raw / "runtime.json").write_text(json.dumps(raw, indent=1) + "\n")
    for row in [*starts, *rows]:
        del row["rounds"]
    result = {
        "schema": 1,
        "time": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": about,
        "rounds": options.rounds,
        "notes": {arm.name: arm.note for arm in arms if arm.note},
        "missing": sorted({"jemalloc", "tcmalloc"} - set(libraries)),
        "start": starts,
        "speed": rows,
        "churn": churn([Arm("malloc"), *loads], python, options.churn_seconds),
        "bandwidth": memory_bandwidth(python),
        "affinity": affinities([*arms, *loads], python),
    }
    result["machine"]["load when it ended"] = round(os.getloadavg()[0], 1)
    return result


def rounded(value: Any) -> Any:
    """Numbers to six digits: more than any median is worth, and the page shows four."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vs", metavar="A,B", help="compare gpu-run with these arms only (default: all there are)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds in which every arm runs once (default: 7)")
    parser.add_argument("--images", type=int, default=2000, help="images read for each number of workers")
    parser.add_argument("--steps", type=int, default=100, help="training steps")
    parser.add_argument("--churn-seconds", type=float, default=600, help="allocation churn for each allocator")
    parser.add_argument("--python", help="Python with torch (default: the trainer tests' own)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of runtime.json and runtime.md")
    parser.add_argument("--raw", type=Path, default=CACHE / "benchmarks", help="folder for every single value")
    options = parser.parse_args()
    if options.rounds < 3:
        parser.error("--rounds: at least 3, or there is no spread")
    python = options.python
    if python is None:
        python = str(trainer_python() or sys.exit("bench-runtime: there is no Python with torch"))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            result = measure(options, python, Path(scratch))
        except Failed as error:
            print(f"bench-runtime: {error}", file=sys.stderr)
            return 1
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "runtime.json").write_text(json.dumps(rounded(result), indent=1) + "\n")
    (options.results / "runtime.md").write_text(write_page(rounded(result)))
    if options.results == RESULTS:
        page = RESULTS.parent / "runtime.md"
        page.write_text(with_measured(page.read_text(), rounded(result)))
    print((options.results / "runtime.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
