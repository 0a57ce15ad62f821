# SPDX-License-Identifier: Apache-2.0
"""The report of a node in the folder of reports. It loads nothing of the page, since every verification comes here."""

from __future__ import annotations

import shutil
from pathlib import Path

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import write_text

PREVIOUS = "previous"
FOLDER_MODE = 0o755


def keep_report(folder: Path, name: str, text: str) -> Path:
    """Write the report's text as the file `name` of the folder, and move the one before it into `previous`. OSError."""
    for place in (folder, folder / PREVIOUS):
        if not place.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            # With an umask of 000 on the controller, everybody could write the files that the page is made from.
            place.chmod(FOLDER_MODE)
    file = folder / name
    if file.is_file():
        shutil.copyfile(file, folder / PREVIOUS / name)
        (folder / PREVIOUS / name).chmod(0o644)
    write_text(str(file), text)
    return file
