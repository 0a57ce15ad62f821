# SPDX-License-Identifier: Apache-2.0
"""A program's output, which accepts any text and passes on nothing that a terminal would obey.

Under the C locale, Python 3.6 only has ASCII and would end with an error.
"""

import io
import sys
from typing import Any

from .written.told import kept_lines


def escape_output() -> None:
    """From now on print() writes a character that the terminal's encoding lacks as its number, such as \\ufffd."""
    stream = sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    elif hasattr(stream, "detach") and getattr(stream, "errors", None) not in (None, "backslashreplace"):
        # In Python 3.6, the stream can only be replaced.
        encoding, by_line = stream.encoding, bool(stream.line_buffering)
        sys.stdout = io.TextIOWrapper(stream.detach(), encoding, "backslashreplace", line_buffering=by_line)
    for each in (sys.stdout, sys.stderr):
        _pass_only_text(each)


def _pass_only_text(stream: Any) -> None:
    """Names and messages of others are in what programs print; the last door is the stream itself."""
    plain = stream.write
    if getattr(stream, "only_text", False):
        return

    def write(text: str) -> int:
        return int(plain(text if text.isprintable() else kept_lines(text)))

    stream.write, stream.only_text = write, True


def print_utf8(text: str) -> None:
    """Write text for programs, which expect UTF-8 whatever the locale; incomplete characters become "?"."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(text)
    else:
        binary.write(text.encode("utf-8", "replace"))
        binary.flush()
