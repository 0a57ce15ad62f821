"""Count how many broken fields of nvidia-smi's answers each check notices (`make checks-tried`, about 8 minutes).

Writes the part `fields` of docs/checks-tried.json, from which docs/checks.md is made. The part `recorded`, about
answers and logs that others have published, is maintained by hand: `make test-corpus` prints what a person must judge.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
TRIED = REPOSITORY / "docs/checks-tried.json"
sys.path[:0] = [str(REPOSITORY / folder) for folder in ("tests/node_library", "tests/deep", "collections")]
sys.path[1:1] = map(str, (REPOSITORY / "tests/unit").glob("**"))
lane = importlib.import_module("test_field_mutation")


def count(cases: list[tuple[Any, ...]]) -> dict[str, Any]:
    """The totals over all answers; a mutant counts for the first of the checks that must notice it."""
    fields, mutants, unnoticed = 0, 0, 0
    of_check: Counter[str] = Counter()
    for model, driver, mig in cases:
        tried = list(lane.broken(model, driver, mig))
        fields += len({path for path, *_rest in tried})
        mutants += len(tried)
        unnoticed += sum(not noticed for *_rest, noticed in tried)
        of_check.update(names[0] for _path, _value, names, _noticed in tried)
        print(f"{model.name} {driver}: {len(tried)} mutants", flush=True)
    sums = {"answers": len(cases), "fields": fields, "mutants": mutants, "unnoticed": unnoticed}
    return {**sums, "mutants_of_check": dict(sorted(of_check.items()))}


if __name__ == "__main__":
    kept = json.loads(TRIED.read_text())
    TRIED.write_text(json.dumps({**kept, "fields": count(lane.BROKEN)}, indent=2) + "\n")
