# SPDX-License-Identifier: Apache-2.0
"""How GPUs and hosts are connected: NVLink, the path between two GPUs, InfiniBand; null means that there is none."""

import re
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from ..gpu.cards import card_of, has_nvlink, is_wired
from ..gpu.nvidia_smi.values import clean
from ..host.bounded import run_bounded
from ..host.files import exists, names_in, read_int, read_text
from ..host.in_child import examine_at_once
from ..host.patterns import lazily
from .attempt import attempt

SECONDS = 30
# What nvidia-smi says about cards without links that are up; not a failure, whatever its exit status.
NO_LINKS = lazily(r"all links are inActive|does not have or support Nvlink", re.IGNORECASE)
CARD = lazily(r"GPU ([0-9]+): (.+?)(?: \(UUID: [^)]*\))?(?:\s+(?:Device does not|NVML: ).*)?$")
LINK = lazily(r"\s+Link ([0-9]+): (?:([0-9.]+) GB/s|<inactive>)$")
ERRORS = lazily(r"\s+Link ([0-9]+): ([A-Za-z ]+) Errors: ([0-9]+)$")
ANSI = lazily(r"\x1b\[[0-9;]*m")
# nvidia-smi's words for the path between two GPUs, the shortest first; X is the card itself.
WAYS = lazily(r"NV[0-9]+|PIX|PXB|PHB|NODE|SYS|X")
INFINIBAND = "/sys/class/infiniband"
# What the kernel shows of a port, it asks the adapter for: one that hangs holds up whoever reads.
SECONDS_OF_PORT = 3.0


def ask(arguments: Sequence[str], mig: bool = False) -> str:
    """What nvidia-smi says; OSError if it fails. With `mig`, an answer that names a card is accepted even then."""
    done = run_bounded(["nvidia-smi", *arguments], SECONDS)
    if mig and done.rc is not None and done.stdout.startswith("GPU "):
        return done.stdout
    if done.rc != 0 and not (done.rc and NO_LINKS.search(done.stdout)):
        words = " ".join(done.stdout.split())[:200]
        raise OSError(done.problem or f"nvidia-smi {' '.join(arguments)} ended with {done.rc}: {words}")
    return done.stdout


def read_nvlink(gpus: Sequence[Mapping[str, Any]], mig: Collection[int] = ()) -> Optional[List[Dict[str, Any]]]:
    """`[{index, name, wired, links, active, errors: {kind: number}}]` of cards with connectors; null if there are none.

    `gpus` are those of the probe, which names them before a driver can be asked. `mig` are the indexes of the cards in
    MIG mode, about which nvidia-smi may only say that it does not know: they have `mig`, its words or "".
    """
    # Cards without connectors are not queried: some releases of nvidia-smi fail for them.
    if not [gpu for gpu in gpus if has_nvlink(card_of(gpu["name"], gpu.get("device_id", "")))]:
        return None
    cards = parse_links(ask(["nvlink", "-s"], bool(mig)), mig)
    errors = parse_errors(ask(["nvlink", "-e"], bool(mig)), mig)
    for card in cards:
        card["errors"] = errors.get(card["index"], {})
    return cards


def parse_links(text: str, mig: Collection[int] = ()) -> List[Dict[str, Any]]:
    """The cards of `nvidia-smi nvlink -s`; ValueError for an unknown line, unless the card is in MIG mode."""
    cards: List[Dict[str, Any]] = []
    for line in text.splitlines():
        link, card = LINK.match(line), CARD.match(line)
        if card:
            name = card.group(2)
            cards.append({"index": int(card.group(1)), "name": name, "links": 0, "active": 0})
            cards[-1]["wired"] = is_wired(card_of(name))
            if cards[-1]["index"] in mig:
                cards[-1]["mig"] = ""
        elif link and cards:
            cards[-1]["links"] += 1
            cards[-1]["active"] += bool(link.group(2) and float(link.group(2)) > 0)
        elif line.strip() and cards and "mig" in cards[-1]:
            cards[-1]["mig"] = cards[-1]["mig"] or clean(line)
        elif line.strip() and "inactive" not in line.lower():
            raise ValueError(f"nvidia-smi nvlink -s says {line.strip()[:200]!r}")
    return cards


def parse_errors(text: str, mig: Collection[int] = ()) -> Dict[int, Dict[str, int]]:
    """`{card: {kind: number}}` of `nvidia-smi nvlink -e`, summed over the links."""
    found: Dict[Any, Dict[str, int]] = {}
    card, lenient = None, False
    for line in text.splitlines():
        head, error = CARD.match(line), ERRORS.match(line)
        if head:
            card = found.setdefault(int(head.group(1)), {})
            lenient = int(head.group(1)) in mig
        elif error and card is not None:
            kind = error.group(2).strip().lower()
            card[kind] = card.get(kind, 0) + int(error.group(3))
        elif re.match(r"\s+Link [0-9]+: .*Errors", line) and not lenient:
            raise ValueError(f"nvidia-smi nvlink -e says {line.strip()[:200]!r}")
    return found


def read_ways(gpus: Sequence[Any]) -> Optional[List[List[str]]]:
    """The matrix of `nvidia-smi topo -m` as rows of words, one row for each GPU; null for fewer than two GPUs."""
    if len(gpus) < 2:
        return None
    return parse_ways(ask(["topo", "-m"]))


def parse_ways(text: str) -> List[List[str]]:
    """The paths among the GPUs; ValueError if the matrix is not square or has an unknown word."""
    lines = [ANSI.sub("", line) for line in text.splitlines()]
    head = next((line for line in lines if "GPU0" in line.split()), "")
    columns = [index for index, word in enumerate(head.split()) if re.match(r"GPU[0-9]+$", word)]
    rows = []
    for line in lines:
        words = line.split()
        if words and re.match(r"GPU[0-9]+$", words[0]) and line is not head:
            rows.append([words[index + 1] for index in columns if index + 1 < len(words)])
    strange = sorted({word for row in rows for word in row if not WAYS.fullmatch(word)})
    if not rows or strange or any(len(row) != len(rows) for row in rows):
        raise ValueError(f"the matrix of nvidia-smi topo -m cannot be parsed {' '.join(strange)}".strip())
    return rows


def _lacks_node(root: str, adapter: str) -> bool:
    """Whether programs cannot open the adapter, as the device node of its verbs is missing."""
    verbs = "/sys/class/infiniband_verbs"
    names = [name for name in names_in(root, verbs) if read_text(root, f"{verbs}/{name}/ibdev") == adapter]
    return not names or not all(exists(root, f"/dev/infiniband/{name}") for name in names)


def port_names(root: str) -> List[Tuple[str, str]]:
    """(adapter, number) of each RDMA port."""
    return [
        (adapter, number)
        for adapter in names_in(root, INFINIBAND)
        for number in names_in(root, f"{INFINIBAND}/{adapter}/ports")
    ]


def silent_port(name: str, answer: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """The record of a port that could not be looked at; `answer` is None if nothing came in time."""
    return dict(answer or {"unreadable": f"{name} does not answer within {SECONDS_OF_PORT:g} s"}, name=name)


def read_infiniband(root: str) -> Any:
    """`[{name, state, physical, rate, layer, link_downed, recovered, firmware, usable}]` of each RDMA port.

    usable  programs can open the adapter; null in place of the list if there is no adapter

    A port that does not answer, as that of an adapter that hangs, is `{name, unreadable}`.
    """
    if not names_in(root, INFINIBAND):
        return None
    ports = port_names(root)
    answers = examine_at_once(lambda port: attempt(_look_at_port, root, *port), ports, SECONDS_OF_PORT)
    found = []
    for at, (adapter, number) in enumerate(ports):
        answer = answers[at]
        name = f"{adapter} port {number}"
        found.append(silent_port(name, answer) if answer is None or "unreadable" in answer else dict(answer, name=name))
    return found


def _look_at_port(root: str, adapter: str, number: str) -> Dict[str, Any]:
    """The record without the name."""
    port = f"{INFINIBAND}/{adapter}/ports/{number}"
    return {
        "state": _word(root, port + "/state"),
        "physical": _word(root, port + "/phys_state"),
        "rate": read_text(root, port + "/rate"),
        "layer": read_text(root, port + "/link_layer"),
        "link_downed": read_int(root, port + "/counters/link_downed"),
        "recovered": read_int(root, port + "/counters/link_error_recovery"),
        "firmware": read_text(root, f"{INFINIBAND}/{adapter}/fw_ver"),
        "usable": not _lacks_node(root, adapter),
    }


def _word(root: str, path: str) -> str:
    """The word of a line such as "4: ACTIVE", "" for any other line."""
    match = re.match(r"[0-9]+: (.+)$", read_text(root, path) or "")
    return match.group(1) if match else ""
