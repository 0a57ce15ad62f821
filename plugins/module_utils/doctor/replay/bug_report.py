# SPDX-License-Identifier: Apache-2.0
"""The sections of an nvidia-bug-report.log, so that each one is judged or named as not judged.

NVIDIA's nvidia-bug-report.sh writes a ruler of underscores, an empty line, and then "*** FILE", or the command whose
output follows.
"""

import re
from typing import Callable, List, Tuple

BEGIN = re.compile(r"Start of NVIDIA bug report log file")
RULER = re.compile(r"^_{20,}\s*$", re.M)
# What a section says if there was nothing to collect.
NOTHING = re.compile(r"(?:does not exist|is not readable|not found|Skipping\b.*|command not available)", re.IGNORECASE)
LONGEST_TITLE = 80
MOST_NAMED = 100


def is_report(text: str) -> bool:
    return BEGIN.search(text[:4096]) is not None


def sections(text: str) -> List[Tuple[str, str]]:
    """(title, content) of each section with content, in order."""
    found = []
    for part in RULER.split(text)[1:]:
        title, _newline, body = part.strip("\n").partition("\n")
        title = title.strip()
        if title.startswith("*** "):
            title = title[4:]
            lines = body.split("\n")
            body = "\n".join(line for line in lines if not line.startswith("*** ls:"))
        if body.strip() and not NOTHING.search(title) and not NOTHING.fullmatch(body.strip()):
            found.append((title[:LONGEST_TITLE], body))
    return found


def words(text: str, judges: Callable[[str], bool]) -> List[str]:
    """What is said of the sections; `judges` whether something in a section's content is judged."""
    found = [(title, body) for title, body in sections(text) if not BEGIN.search(title)]
    judged = [title for title, body in found if judges(body)]
    rest = [title for title, _body in found if title not in judged]
    said = [f"a bug report with {len(found)} sections, judged: {', '.join(judged) or 'none'}"]
    if rest:
        more = f" and {len(rest) - MOST_NAMED} more" if len(rest) > MOST_NAMED else ""
        said.append(f"not judged: {', '.join(rest[:MOST_NAMED])}{more}")
    return said
