# SPDX-License-Identifier: Apache-2.0
"""gpu-run --check [PID]: how running ranks are placed, and what is wrong with it."""

import json
import sys
from typing import Any, Dict, List, Optional, Tuple

from ...host.bounded import run_bounded
from ...host.files import to_int
from ...host.processes import why_hidden
from ...host.terminal import escape_output
from ..runtime_policy import LaunchError, load_policy, pci_address
from .processes import as_rank, read_ranks
from .rule import findings

NVIDIA_SMI = ["nvidia-smi", "--query-compute-apps=pid,gpu_bus_id", "--format=csv,noheader"]
NVIDIA_SMI_SECONDS = 10
FINE, WRONG, UNCLEAR = 0, 1, 2


def check(pid: Optional[int], as_json: bool, root: str = "/") -> int:
    """Report on stdout; 0 if nothing is wrong, 1 if something is, 2 if that could not be determined.

    Raises LaunchError for a process that does not exist.
    """
    cards, problem = computing()
    corrected = {pci_address(name): node for name, node in load_policy(root)["gpu_nodes"].items()}
    try:
        rows = read_ranks(cards, root, pid, corrected)
    except OSError as error:
        raise LaunchError(f"--check: {error}")
    wrong = findings([as_rank(row) for row in rows])
    unclear = sorted({value["unreadable"] for row in rows for value in row.values() if isinstance(value, dict)})
    unclear += [text for text in (problem, why_hidden(root) if pid is None else "") if text]
    escape_output()
    if as_json:
        print(json.dumps({"schema": 1, "ranks": rows, "findings": wrong, "unclear": unclear}, indent=2, sort_keys=True))
    else:
        for line in _lines(rows, wrong, unclear):
            print(line)
    sys.stdout.flush()
    return WRONG if wrong else UNCLEAR if unclear else FINE


def computing() -> Tuple[Dict[int, List[str]], str]:
    """({pid: PCI addresses of the GPUs on which it computes}, why that is not known or "")."""
    done = run_bounded(NVIDIA_SMI, NVIDIA_SMI_SECONDS)
    if done.missing:
        return {}, "there is no nvidia-smi: which GPU a process uses is not known"
    if done.rc != 0:
        said = done.problem or (done.stdout.strip() or done.stderr.strip() or "nothing").splitlines()[0]
        return {}, f"nvidia-smi --query-compute-apps says {said}: which GPU a process uses is not known"
    found = {}  # type: Dict[int, List[str]]
    for line in filter(None, map(str.strip, done.stdout.splitlines())):
        pid, _, address = line.partition(",")
        number, card = to_int(pid.strip()), pci_address(address.strip())
        if number is None or not card:
            return {}, f"nvidia-smi --query-compute-apps answers {line!r}, expected a pid and a PCI address"
        if card not in found.setdefault(number, []):
            found[number].append(card)
    return found, ""


def _lines(rows: List[Dict[str, Any]], wrong: List[str], unclear: List[str]) -> List[str]:
    def shown(value: Any) -> str:
        return "?" if isinstance(value, dict) else ",".join(value) or "-" if isinstance(value, list) else str(value)

    titles = ["pid", "name", "cpus", "threads", "cards", "memory_mib", "far_mib"]
    table = [titles] + [[shown(row[title]) for title in titles] for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(titles))]
    lines = ["  ".join(word.ljust(widths[place]) for place, word in enumerate(line)).rstrip() for line in table]
    lines = lines if rows else ["no rank is running, and nothing computes on a GPU"]
    lines += [f"wrong: {text}" for text in wrong] + [f"not known: {text}" for text in unclear]
    return lines if wrong or unclear or not rows else [*lines, "nothing is wrong"]
