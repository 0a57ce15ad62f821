# SPDX-License-Identifier: Apache-2.0
"""What is not by the toolkit's runs: what changed since the last one, and drop-ins of units that none of them wrote.

A run in check mode says what it would change of a node; this says of what somebody else has changed it.
"""

import re
from typing import Any, Callable, Dict, Iterator, List, Set

from ..host.files import names_in
from ..host.os_family import read_family
from ..tuning.file_texts import DROP_IN
from .ledger import KINDS, LEDGER, load
from .look import look

Look = Callable[..., Dict[str, Any]]
# Where systemd looks for drop-ins of units: made by hand, by `systemctl set-property`, and either until the next boot.
FOLDERS = tuple(f"{top}/systemd/{folder}" for top in ("/etc", "/run") for folder in ("system", "system.control"))
# Units that nobody is to extend, and those whose documentation says how a site extends them with a drop-in.
OWN_NAME = DROP_IN.rpartition("/")[2]
CLOSED = re.compile(r"((gpuwright-[^/]*|nvidia-persistenced)\.(service|timer|path))\.d")
OPEN = re.compile(r"((train-gan|gpu-job)@[^/]*\.service)\.d")


def changed_since(root: str = "/", look: Look = look) -> Dict[str, Any]:
    """`{not_ours, closed, open}`: names that others have changed, and drop-ins of units by their paths.

    OSError, `ledger.Damaged`. Of a node without a ledger nothing is known to be changed.
    """
    ledger = load(LEDGER, root) or {}
    # While a run is open, or was killed, what has changed may be its own.
    then = ledger.get("after")
    names: Set[str] = {key.partition(" ")[2] for key in ledger.get("foreign", ())}
    if then:
        now = look(read_family(root), root, then)
        for kind in KINDS:
            names |= {name for name in {*then[kind], *now[kind]} if then[kind].get(name) != now[kind].get(name)}
    ours = (ledger.get("ours") or {}).get("files", {})
    # What others put there during a run stands among what is ours; the toolkit writes drop-ins of one name alone.
    others = [path for path in drop_ins(root) if path not in ours or path.rpartition("/")[2] != OWN_NAME]
    return {
        "not_ours": sorted(names),
        "closed": _units(CLOSED, others),
        "open": _units(OPEN, others),
    }


def drop_ins(root: str) -> Iterator[str]:
    """Paths of all drop-ins of units, as systemd has them."""
    for folder in FOLDERS:
        for unit in names_in(root, folder):
            if unit.endswith(".d"):
                names = names_in(root, f"{folder}/{unit}")
                yield from (f"{folder}/{unit}/{name}" for name in names if name.endswith(".conf"))


def _units(pattern: Any, paths: List[str]) -> Dict[str, str]:
    found = {path: pattern.fullmatch(path.split("/")[-2]) for path in paths}
    return {path: match.group(1) for path, match in found.items() if match}
