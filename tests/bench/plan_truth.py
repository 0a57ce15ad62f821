"""What tools answer in real situations, beside an answer key: `make bench-plan-truth` (docs/benchmarks/plan-truth.md).

Each situation is a card, the driver that is there, and a system. Asked is which index of PyTorch to install from,
and, of nvidia-detect, which driver package. uv is asked by its own program, with the driver that it would find: what
it answers is read from the address that it asks for, so that no index has to answer. Tools are pinned and outside CI.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "collections")]
PLAN = "ansible_collections.gpuwright.node.plugins.plugin_utils.plan"
imagined_host = importlib.import_module(f"{PLAN}.question").imagined_host
solve = importlib.import_module(f"{PLAN}.solve").solve
matrices = importlib.import_module(f"{PLAN}.matrix")
MATRIX = matrices.read_matrix(matrices.SHIPPED)
KEY = REPOSITORY / "tests/bench/plan_truth/key.txt"
OUT = REPOSITORY / "docs/benchmarks"
UV, DETECT = "0.13.9", "550.163.01-2"
SECONDS = 60
# Asked for and not asked here: what an index or a program said, in words.
NOT_ASKED = {
    "torch-check 0.1.4": "the index that pip is configured for does not have it",
    "torch-cuda-compat 0.3.0": "the index that pip is configured for does not have it",
    "env-doctor 0.3.5": "its installation did not end within ten minutes on the machine of this run",
}

TEXT = """\
# What tools answer in real situations

Written by `make bench-plan-truth`; do not edit. Each situation is a card, the driver that is there and a system; the
answer key with its sources is [key.txt](../../tests/bench/plan_truth/key.txt), {situations} situations. Asked is from
which index the newest PyTorch computes on the card (gpuwright and uv), or which of Debian's driver packages drives it
(nvidia-detect, on Debian 13). gpuwright names a release, too. Right answers out of those that were asked:

```
{bars}
```

Not asked: {others}.

| card | driver | system | gpuwright | uv | nvidia-detect | works |
|---|---|---|---|---|---|---|"""


def situations() -> list[dict[str, Any]]:
    names = ("card", "id", "driver", "system", "torch", "debian", "source")
    found = []
    for line in KEY.read_text().splitlines():
        if not line.startswith("#"):
            row: dict[str, Any] = dict(zip(names, (part.strip() for part in line.split("|")), strict=True))
            found.append(row)
    return found


def of_gpuwright(row: dict[str, Any]) -> tuple[str, str]:
    """The index of the plan for the driver that is there, "pypi:cu130" included, or "none"; and its source package."""
    host = imagined_host("10de:" + row["id"], row["system"], releases=MATRIX["os_releases"])
    branch = {"driver_branch": row["driver"][:3]}
    # Where a system has no toolkit for the card, wheels are still asked for; and without its driver, what it would get.
    for pins in (branch, {**branch, "cuda": "none"}, {}):
        answer = solve(MATRIX, host, pins)
        if "conflicts" not in answer:
            torch = answer["pytorch"]
            return f"{torch['build']} {torch['version']}", " ".join(answer["driver"]["packages"])
    return "none", "none"


def of_uv(program: str, row: dict[str, Any], folder: Path) -> str:
    (folder / "r.in").write_text("torch\n")
    words = [program, "pip", "compile", "--torch-backend=auto", "--no-config", "--no-cache", str(folder / "r.in")]
    environment = {
        **os.environ,
        "UV_CUDA_DRIVER_VERSION": row["driver"],
        "UV_HTTP_RETRIES": "0",
        "UV_HTTP_TIMEOUT": "5",
    }
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "no answer"
    found = re.search(r"whl/([a-z0-9]+)", done.stdout + done.stderr)
    return found.group(1) if found else "no answer"


def of_detect(program: str, row: dict[str, Any]) -> str:
    """Names of packages, or "none". The script's lists lie beside it, in a folder unpacked from the package."""
    text = Path(program).read_text().replace("/usr/share/nvidia", str(Path(program).parents[1] / "share/nvidia"))
    done = subprocess.run(["bash", "-s", "--", row["id"]], input=text, capture_output=True, text=True, check=False)
    found = re.findall(r"^\s+(nvidia-[a-z0-9-]*driver)\s*$", done.stdout, re.MULTILINE)
    return " ".join(dict.fromkeys(found)) or "none"


def right_torch(row: dict[str, Any], answer: str) -> bool:
    build, _space, version = answer.partition(" ")
    wanted = row["torch"].split()
    if build in wanted:
        return True
    # A release that is not the newest of its index: cu128 up to 2.10 has 7.0, cu117 of 2.0 has 3.7 and newer.
    volta = row["card"].startswith(("V100", "TITAN V"))
    if volta and build == "cu128" and version and tuple(map(int, version.split("."))) < (2, 11):
        return int(row["driver"][:3]) >= 525
    if version == "2.0.1" and build == "cu117":
        return not row["card"].startswith(("H", "B", "RTX 5", "L4", "RTX 4"))
    return wanted == ["-"] and answer == "none"


def main() -> None:
    uv, detect = os.environ.get("UV", ""), os.environ.get("NVIDIA_DETECT", "")
    rows = situations()
    table, score = [], {name: [0, 0] for name in ("gpuwright", f"uv {UV}", f"nvidia-detect {DETECT}")}
    with tempfile.TemporaryDirectory() as name:
        seen: dict[str, str] = {}
        for row in rows:
            ours, packages = of_gpuwright(row)
            theirs = "not asked"
            if uv:
                if row["driver"] not in seen:
                    seen[row["driver"]] = of_uv(uv, row, Path(name))
                theirs = seen[row["driver"]]
            told = of_detect(detect, row) if detect and row["debian"] else ""
            marks = {"gpuwright": right_torch(row, ours)}
            if uv and theirs != "no answer":
                marks[f"uv {UV}"] = theirs in row["torch"].split()
            if told:
                wanted = row["debian"].split()
                marks[f"nvidia-detect {DETECT}"] = (
                    set(told.split()) <= set(wanted) if wanted != ["-"] else told == "none"
                )
            for tool, good in marks.items():
                score[tool][0] += good
                score[tool][1] += 1
            table.append({**row, "gpuwright": ours, "uv": theirs, "detect": told, "marks": marks})
            print(row["card"], row["driver"], row["system"], ours, theirs, told, marks, flush=True)
    if not (uv and detect):
        # What was not asked would be on the page in place of what was answered.
        print("Nothing was written: UV= names uv, and NVIDIA_DETECT= the script of Debian's package.", file=sys.stderr)
        return
    write(table, score)


def page(table: list[dict[str, Any]], score: dict[str, list[int]]) -> str:
    bars = [
        f"{name:<28} {'#' * round(30 * right / most if most else 0):<30} {right} of {most}"
        for name, (right, most) in score.items()
    ]
    others = "; ".join(map(": ".join, NOT_ASKED.items()))
    lines = [TEXT.format(situations=len(table), bars="\n".join(bars), others=others)]
    for row in table:
        cells = [row["card"], row["driver"], row["system"]]
        for tool in ("gpuwright", "uv", "nvidia-detect"):
            mark = next((good for name, good in row["marks"].items() if name.startswith(tool)), None)
            text = row["detect" if tool == "nvidia-detect" else tool]
            cells.append(text if mark is None else f"{text} {'right' if mark else '**wrong**'}")
        lines.append("| " + " | ".join([*cells, row["torch"]]) + " |")
    return "\n".join(lines) + "\n"


def write(table: list[dict[str, Any]], score: dict[str, list[int]]) -> None:
    kept = ("card", "driver", "system", "torch", "gpuwright", "uv", "detect", "marks")
    rows = [{name: row[name] for name in kept} for row in table]
    (OUT / "plan-truth.json").write_text(json.dumps({"score": score, "rows": rows}, separators=(",", ":")) + "\n")
    (OUT / "plan-truth.md").write_text(page(rows, score))


if __name__ == "__main__":
    main()
