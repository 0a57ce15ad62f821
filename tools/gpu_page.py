"""Write docs/benchmarks/gpu.md from gpu.json beside it, which a run on a GPU has left; "not yet" while there is none.

With the evidence.json of a run (tests/gpu/evidence) as its argument it first makes gpu.json and the plots from it. It
refuses a run without a GPU, or one that was stopped: the page is about a GPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests" / "gpu"))
from gpu_evidence.page import kept, page  # type: ignore[import-not-found]
from gpu_evidence.results import plots  # type: ignore[import-not-found]

FOLDER = REPOSITORY / "docs/benchmarks"


def take(file: Path, folder: Path) -> str:
    """Keep the results of a run; why they are refused, "" if they are not."""
    try:
        results = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        return f"{file}: {error}; expected the evidence.json of tests/gpu/evidence"
    if not isinstance(results, dict) or results.get("kind") != "gpu-evidence" or results.get("schema") != 1:
        return f"{file}: expected the evidence.json of tests/gpu/evidence"
    if results["trial"] or results["stopped"]:
        why = "was made without a GPU" if results["trial"] else f"was stopped by {results['stopped']}"
        return f"{file}: this run {why}; expected one on a GPU that ran to its end"
    for old in folder.glob("gpu-*.svg"):
        old.unlink()
    shown = kept(results)
    (folder / "gpu.json").write_text(json.dumps(shown) + "\n")
    for name, text in plots(shown).items():
        (folder / name).write_text(text)
    return ""


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    if arguments:
        refused = take(Path(arguments[0]), folder)
        if refused:
            print(f"gpu_page: {refused} [evidence.take]", file=sys.stderr)
            return 2
    file = folder / "gpu.json"
    (folder / "gpu.md").write_text(page(json.loads(file.read_text()) if file.exists() else None))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
