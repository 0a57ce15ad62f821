"""Write docs/faults.md from the recorded results in tests/faults (`make docs`).

`--record SUITE ...` first takes the fault table's results from the last runs of these suites (faults, world, unit,
trainer), which tests/run.py has left in .fleet/results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import fault_table.page
import fault_table.results
import interrupt.page
from interrupt.cli import commit

REPOSITORY = Path(__file__).resolve().parents[2]


def record(suites: list[str]) -> None:
    reports = [REPOSITORY / ".fleet/results" / f"{suite}.xml" for suite in suites]
    missing = [str(report) for report in reports if not report.exists()]
    if missing:
        sys.exit(f"{', '.join(missing)} is missing; run the suite first: `python tests/run.py {suites[0]}`")
    found = fault_table.results.found_in(reports, commit())
    fault_table.results.write({**fault_table.results.read(), **found})


def text() -> str:
    """The page as it has to be now."""
    return fault_table.page.text(fault_table.results.read()) + interrupt.page.text()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[2:])
    (REPOSITORY / "docs/faults.md").write_text(text())
