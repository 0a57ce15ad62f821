# SPDX-License-Identifier: Apache-2.0
"""Cards and systems as people write them: "8xH100", "H100 SXM", "alma 8.10", "debian 12.8"."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.gpu.cards import BY_ID, card_of
from ansible_collections.gpuwright.node.plugins.module_utils.gpu.device_table import PLATFORMS
from ansible_collections.gpuwright.node.plugins.module_utils.gpu.devices import (
    NAMES,
    describe_device,
    find_devices,
    without_maker,
)
from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key

from .unknown import slips

MOST_HINTS = 3
# Requests for cards that are not in servers of this kind; the first match gives the answer.
NOT_PLANNED = (
    (
        r"\b(amd|ati|radeon|instinct|firepro|mi[0-9]{2,3}[a-z]?)\b",
        "is an AMD card: this plan is only for NVIDIA's GPUs",
    ),
    (
        r"\b(intel|arc|gaudi ?[0-9]?|ponte vecchio|data center gpu (max|flex)|iris|xeon)\b",
        "is made by Intel: this plan is only for NVIDIA's GPUs",
    ),
    (
        r"\b(jetson|orin|xavier|tegra|drive agx|agx thor)\b",
        "is a Jetson module: its driver and CUDA come with JetPack, and there is nothing for this plan to choose",
    ),
    (
        r"\b(gb10|dgx spark)\b",
        "is a desktop computer made by NVIDIA with DGX OS on aarch64: its driver and CUDA come with that system",
    ),
    (
        r"\bmig\b|\b[1-7]g\.[0-9]+gb\b",
        "is a slice of a card (MIG): driver and CUDA are those of the whole card, so ask for that",
    ),
    (
        r"-[0-9]+(-[0-9]+)?[abcq]$|\bvgpu\b",
        "is a virtual GPU: its guest driver must match the release of the hypervisor's vGPU manager, and comes from "
        "NVIDIA's licensing portal and not from the repositories that this plan is for",
    ),
)
# Words for how a card is built in or sold, and their equivalents in its nvidia-smi name.
SPELLINGS = {"sxm": "hbm3", "sxm5": "hbm3", "pci": "pcie"}
FILLERS = ("gpu", "gpus", "card", "graphics", "accelerator")
# Makers' words in names of cards: a slip in one of them is not what tells cards apart.
MAKERS_WORDS = ("nvidia", "tesla", "quadro", "geforce")
SERIES = {"rtx", "gtx", "gt", *MAKERS_WORDS}
# Servers by name: boards with NVSwitches, and their cards.
BOARDS = {name.lower(): (count, card) for row in PLATFORMS for name, count, card in row.boards}
BOARD = re.compile(r"\b(dgx|hgx|nvl72)\b", re.IGNORECASE)
MEMORY = re.compile(r"^([0-9]{1,3})gi?b?$")
SYSTEMS = (
    (("red hat", "redhat", "rhel"), "rhel"),
    (("alma",), "almalinux"),
    (("rocky",), "rocky"),
    (("debian",), "debian"),
    (("ubuntu",), "ubuntu"),
)


def split_cards(text: str) -> list[tuple[int, str]]:
    """`[(count, name)]` of "2x T4, RTX 4090", "8xH100", "H100 x8"; an empty text is a host without GPUs."""
    found = []
    for part in (part.strip() for part in text.split(",")):
        before = re.match(r"([0-9]{1,2}) ?[xX*\u00d7] ?(?=[A-Za-z]|10[dD][eE]:)(.+)$", part)
        after = re.match(r"(.+?) ?[xX*\u00d7] ?([0-9]{1,2})$", part)
        # "RTX 4090" and "GTX 10" do not end with a count, which needs a space before the x, or a digit.
        if before:
            found.append((int(before.group(1)), before.group(2)))
        elif after and re.search(r"[0-9a-zA-Z] [xX*\u00d7] ?[0-9]+$|[0-9][xX*\u00d7][0-9]+$", part):
            found.append((int(after.group(2)), after.group(1)))
        elif part:
            found.append((1, part))
    return [_cards_of_board(count, name) or (count, name) for count, name in found]


def _cards_of_board(count: int, name: str) -> tuple[int, str] | None:
    """The cards of a server that is asked for by its own name. ValueError for one that no row of platforms.yml has.

    A board's name with a card's details ("HGX H100 80GB HBM3") names the card.
    """
    # As NVIDIA sells them: "HGX H100 8-GPU".
    plain = re.sub(r" 8[- ]gpus?$", "", " ".join(name.lower().split()))
    if plain in BOARDS:
        if count > 1:
            raise ValueError(f"{count}x {name!r}: a plan is for one host, so ask for one {name}")
        return BOARDS[plain]
    if BOARD.search(plain) and not find_devices(name) and not re.search(r"spark|display", plain):
        known = ", ".join(dict.fromkeys(title for row in PLATFORMS for title, _count, _card in row.boards))
        raise ValueError(f"No card or board {name!r} is known. Boards: {known}. Or write its cards by number and name.")
    return None


def board_twin(name: str, device_id: str) -> str:
    """A card of that name which is on a board with NVSwitches, if the one that was taken for it is not; "" for none.

    "H100" is an H100 PCIe, NVL or SXM, and eight of the last need a fabric manager; one card is named just so.
    """
    if card_of(device_id=device_id).nvlink == "board":
        return ""
    near = [key for key in _with_words(name) if card_of(device_id=key).nvlink == "board"]
    if not near:
        return ""
    return " or ".join((NAMES[near[0]], *card_of(device_id=near[0]).names))


def find_card(name: str) -> str:
    """The PCI id of a card. Raises ValueError with a sentence if the name means none, or cards of different kinds.

    Part of a name is enough if all cards with it have the same abilities; of those, the one with the newest first
    driver is used, since a plan for that one fits all.
    """
    # Of one name on several chips, the card that had it first: later ones are rare.
    name = name.replace("_", " ")
    apart = " ".join(_apart(name.lower().split()))
    exact = sorted(find_devices(name) or find_devices(apart), key=_begun)
    if exact and (
        ":" in name
        or name.strip().lower() in NAMES
        or any(_is_full(text, key) for key in exact for text in (name, apart))
    ):
        return exact[0]
    for pattern, answer in NOT_PLANNED:
        if re.search(pattern, name.strip(), re.IGNORECASE) and not exact:
            raise ValueError(f"{name!r} {answer}.")
    near = _with_words(name)
    # Nobody leaves that word out who means such a card.
    near = [key for key in near if "Laptop" not in NAMES[key]] or near
    kinds = {describe_device(key)[1:] for key in near}
    if len(kinds) > 1:
        known = sorted({NAMES[key] for key in near})
        titles = ", ".join(f"{title} ({describe_device(_id_of(title, near)).architecture})" for title in known)
        raise ValueError(f"{name!r} could be {titles}. Write the whole name, or a PCI id (`lspci -nn -d 10de:`).")
    if exact:
        return exact[0]
    if near:
        # "4080" alone is the RTX 4080, not its Super, Ti or D.
        whole = [key for key in near if set(without_maker(NAMES[key]).split()) - SERIES == set(apart.split()) - SERIES]
        near = whole or near
        return (min if len({NAMES[key] for key in near}) == 1 else max)(near, key=_begun)
    raise ValueError(_unknown(name))


def _is_full(name: str, device_id: str) -> bool:
    """Whether a name is complete except for "NVIDIA ", so that no other card can be meant."""
    plain = " ".join(name.lower().split())
    spelled = [title.lower() for card in BY_ID[device_id] for title in (card.name,) + card.names]
    return plain in spelled or "nvidia " + plain in spelled


def _with_words(name: str) -> list[str]:
    """Ids of the cards whose names have all these words, in the first way of reading them that finds any."""
    # A size that was written with a blank, "80 GB", is one word, as in the names.
    words = re.sub(r"\b([0-9]+) +gb\b", r"\1gb", without_maker(name)).split()
    words = [word for word in words if word not in FILLERS]
    spelled = [SPELLINGS.get(word, word) for word in words]
    bare = [word for word in words if not re.match(r"(sxm|pcie?|hbm|hgx|dgx)[0-9]?[a-z]?$", word)]
    apart = [word for word in _apart(words) if word not in MAKERS_WORDS]
    ways = [(words, False), (spelled, False), (words, True), (bare, False), (apart, False), (apart, True)]
    for wanted, begins in ways:
        found = [key for key in sorted(NAMES) if _has_words(key, wanted, begins)]
        if found:
            return found
    return _of_memory(apart)


def _apart(words: Sequence[str]) -> list[str]:
    """Words that were written together: rtx4090, gtx1080ti, 3090ti, teslav100, v100sxm2, h100nvl."""
    text = re.sub(r"\b(nvidia|geforce|quadro|tesla)\B", r"\1 ", " ".join(words))
    text = re.sub(r"\b(rtx|gtx|gt|titan)(?=[a-z]?[0-9]{3}|(?:v|rtx|xp|x|z)\b)", r"\1 ", text)
    text = re.sub(r"(?<=[0-9])(sxm[0-9]?|pcie|nvl)", r" \1", text)
    text = re.sub(r"\b([0-9]{4})s\b", r"\1 super", text)
    return re.sub(r"([0-9]{3,4}|ti)(ti|super|d|sff|gen)(?=super|\b)", r"\1 \2 ", text).split()


def _of_memory(words: Sequence[str]) -> list[str]:
    """Ids of the cards that have all words but the size of their memory, which may be of that size: "L4 24GB"."""
    sizes = [int(match.group(1)) for match in map(MEMORY.match, words) if match]
    rest = [word for word in words if not MEMORY.match(word) and word != "gb"]
    if len(sizes) != 1 or len(rest) == len(words):
        return []
    near = [key for key in sorted(NAMES) if _has_words(key, rest, False)]
    # A card that is sold with several sizes has none in its row.
    near = [key for key in near if card_of(device_id=key).memory_gib in (sizes[0], None)]
    # As much memory of another kind is another product: the H100 NVL has 94 GB, and a board whose name is "H100", too.
    if len({card_of(device_id=key).memory_kind for key in near}) > 1:
        return near
    whole = find_devices(" ".join(rest))
    return [key for key in near if key in whole] or near


def _has_words(device_id: str, words: Sequence[str], begins: bool) -> bool:
    """`begins`: a word may lack letters at its end, K20 for K20Xm; never a digit, A4 for A40."""
    if not re.search("[0-9]", " ".join(words)):
        return False
    for card in BY_ID[device_id]:
        for title in (card.name,) + card.names:
            has = without_maker(title).split()
            if all(any(_is_word(own, word, begins) for own in has) for word in words):
                return True
    return False


def _is_word(own: str, word: str, begins: bool) -> bool:
    ending = "[0-9]$" if word == "sxm" else "[a-z]+$"
    # A number alone is not the beginning of a word: "40" is not "40gb".
    begins = begins and re.search("[a-z]", word) is not None
    return own == word or (begins and re.match(re.escape(word) + ending, own) is not None)


def _id_of(title: str, ids: Sequence[str]) -> str:
    return next(key for key in ids if NAMES[key] == title)


def _begun(device_id: str) -> tuple[int, ...]:
    first = card_of(device_id=device_id).first_driver
    return version_key(first) if first else ()


def _unknown(name: str) -> str:
    plain = {without_maker(known): known for known in NAMES.values()}
    for known in sorted(NAMES.values()):
        for word in without_maker(known).split():
            if re.search(r"[0-9]{2}", word) and not word.endswith("gb"):
                plain.setdefault(word, known)
    words = _apart(without_maker(name).split())
    asked = [word for word in words if not difflib.get_close_matches(word, MAKERS_WORDS, 1, 0.75)]
    if len(asked) < len(words) and (meant := _with_words(" ".join(asked))):
        return f"No card {name!r} is known. Did you mean {NAMES[meant[0]]}?"
    close = difflib.get_close_matches(" ".join(asked), sorted(plain), len(plain), 0.5)
    close.sort(key=lambda known: slips("".join(asked), known.replace(" ", "")))
    near = list(dict.fromkeys(plain[match] for match in close))[:MOST_HINTS]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"No card {name!r} is known.{hint} A PCI id such as 10de:1db4 also works (`lspci -nn -d 10de:`)."


def newest_release(releases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The release that is updated the longest, as far as that is known; if several are equal, the first."""
    return max(releases, key=lambda row: (row["verified"], row["eol"]))


def find_system(text: str, releases: Sequence[dict[str, Any]] = ()) -> dict[str, str]:
    """`{id, version}` as os-release spells them. Raises ValueError with a sentence.

    text      "rhel 8.8", "alma 8.10", "Debian 12.8", "el8"; "" is the newest of `releases` (rows of os_releases)
    """
    if not text.strip() and releases:
        row = newest_release(releases)
        return {"id": row["id"], "version": row["version"]}
    plain = re.sub(r"\(.*\)|\blts\b|\bgnu/", " ", text.lower()).strip()
    # As NVIDIA's repositories are called.
    plain = re.sub(r"^(ubuntu) ?([0-9]{2})([0-9]{2})$", r"\1 \2.\3", plain)
    codes = {row["codename"]: row for row in releases if row.get("codename")}
    named = [codes[word] for word in re.findall("[a-z]+", text.lower()) if word in codes]
    if named and not re.search("[0-9]", plain):
        return {"id": named[0]["id"], "version": named[0]["version"]}
    match = re.match(r"([a-z][a-z ._-]*?)[ _-]*(?:linux)?[ _-]*([0-9]+(?:\.[0-9]+)*)[a-z ]*$", plain)
    if not match:
        raise ValueError(f'{text!r} is not a system: write its id and version in quotes, such as "rhel 8.8"')
    word, version = match.groups()
    name = (
        "rhel"
        if word == "el"
        else next((known for begins, known in SYSTEMS if word.startswith(begins)), re.sub("[^a-z]", "", word))
    )
    parts = version.split(".")
    if name == "debian":
        # Its point releases count as one release except for their date.
        version = parts[0]
    elif name == "ubuntu":
        version = ".".join(parts[:2])
    elif len(parts) == 1:
        own = [row["version"] for row in releases if row["id"] == name]
        minors = [each for each in own if each.startswith(version + ".")]
        # A row for all of it has the date of its newest release.
        version = max(minors, key=version_key) if minors and version not in own else version
    return {"id": name, "version": version}


def machine_of(cards: Sequence[str], machine: str) -> str:
    """The processor of a host with these cards (PCI ids). ValueError if a card is soldered beside a different one."""
    own = sorted({(card_of(device_id=device_id).machine, NAMES.get(device_id, device_id)) for device_id in cards})
    bound = [(wanted, name) for wanted, name in own if wanted]
    for wanted, name in bound:
        if machine and machine != wanted:
            raise ValueError(f"{name} is soldered beside a processor of {wanted}: there is none on {machine}.")
    return bound[0][0] if bound else machine or "x86_64"
