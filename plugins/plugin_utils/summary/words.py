# SPDX-License-Identifier: Apache-2.0
"""Text for a terminal: masked, folded, wrapped, and never cut if its end is needed."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import printable as on_one_line
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import without_secrets

if TYPE_CHECKING:
    from ansible.playbook.play import Play

DEFAULT_WIDTH = 80
NARROWEST = 30


def width() -> int:
    """Columns of the terminal (or of COLUMNS); 80 if the output goes into a pipe or a file."""
    return max(NARROWEST, shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns)


def printable(text: object) -> str:
    """One line without control characters, which could repaint the terminal, and without secrets."""
    return " ".join(on_one_line(without_secrets(str(text))).split())


def shorten(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: max(0, columns - 2)].rstrip() + ".."


def wrapped(text: str, columns: int, first: str = "", rest: str | None = None) -> list[str]:
    """Lines of at most `columns`; only a single word that is longer, such as an address, stays whole."""
    return textwrap.wrap(
        text,
        columns,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"


# In which the plays of a layer say which one it is; the role preflight reads it.
LAYER = "preflight_layer"


def layer_of(play: Play) -> str:
    """The layer of a play, as its playbook and tag are called; "" for a play of no layer."""
    return printable(play.get_vars().get(LAYER) or "")


def heading_of(play: Play) -> str:
    """What a play is called in a line about it: its layer, or else its name."""
    return layer_of(play) or printable(play.get_name()).lower()


def counted(words: Iterable[str]) -> dict[str, int]:
    """How often each occurs, in the order of first occurrence."""
    return dict(Counter(words))


def name_some(names: list[str], columns: int) -> str:
    """As many names as fit, then how many more there are."""
    for shown in range(len(names), 0, -1):
        rest = len(names) - shown
        text = ", ".join(names[:shown]) + (f" and {rest} more" if rest else "")
        if len(text) <= columns:
            return text
    return f"{len(names)} hosts"


def fold_names(names: Iterable[str]) -> list[str]:
    """Names in order, three or more that count up as one: ["a5-01", "a5-02", "a5-03", "b"] -> ["a5-01..a5-03", "b"]."""
    runs: list[list[str]] = []
    for name in sorted(names, key=natural):
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    folded = []
    for run in runs:
        folded += [f"{run[0]}..{run[-1]}"] if len(run) > 2 else run
    return folded


def natural(name: str) -> list[tuple[int, int | str]]:
    """Key that sorts node-9 before node-10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"([0-9]+)", name)]


def _follows(before: str, name: str) -> bool:
    """Whether `name` is `before` with its last differing number one higher."""
    old, new = re.split(r"([0-9]+)", before), re.split(r"([0-9]+)", name)
    if len(old) != len(new):
        return False
    differing = [index for index, part in enumerate(old) if part != new[index]]
    if len(differing) != 1 or differing[0] % 2 == 0:
        return False
    one, two = old[differing[0]], new[differing[0]]
    return int(two) == int(one) + 1 and (len(one) == len(two) or one[0] != "0" != two[0])
