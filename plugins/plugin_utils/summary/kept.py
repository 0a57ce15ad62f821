# SPDX-License-Identifier: Apache-2.0
"""What a run leaves to read: where the reports are, and the table of hosts if it was too long for the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ansible import constants as C

NAME = "gpuwright-last-run.txt"


def report_lines(paths: Sequence[str], page: str) -> list[str]:
    """The lines that name one report, or the folders of several, and the page; `page` is "" if none was made."""
    folders = sorted({str(Path(path).parent) for path in paths})
    lines = [f"Report: {paths[0]}"] if len(paths) == 1 else [f"Reports: {folder}" for folder in folders]
    return lines + ([f"Page: {page}"] if page else [])


def write(rows: Iterable[Iterable[str]]) -> str:
    """Write a file that only the user can read; returns its path, or "" if it cannot be written."""
    path = Path(C.config.get_config_value("ANSIBLE_HOME")).expanduser() / NAME
    text = "".join("  ".join(part for part in row if part).rstrip() + "\n" for row in rows)
    try:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
    except OSError:
        return ""
    return str(path)
