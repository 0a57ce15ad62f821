# SPDX-License-Identifier: Apache-2.0
"""Files that a run numbers by its steps; a file that people put beside them is none of these."""

from __future__ import annotations

import re
from pathlib import Path


class NumberedFiles:
    """`prefix`, the step in at least ten digits, `suffix`."""

    def __init__(self, prefix: str, suffix: str) -> None:
        self.prefix, self.suffix = prefix, suffix
        self.pattern = re.compile(f"{re.escape(prefix)}([0-9]{{10,}}){re.escape(suffix)}")

    def name(self, step: int) -> str:
        return f"{self.prefix}{step:010d}{self.suffix}"

    def there(self, folder: Path) -> list[tuple[int, Path]]:
        """(step, file) of those in `folder`, highest step first: regular files under exactly the names of `name`."""
        found = []
        for path in folder.glob(f"{self.prefix}*{self.suffix}"):
            match = self.pattern.fullmatch(path.name)
            if match and path.name == self.name(int(match[1])) and path.is_file() and not path.is_symlink():
                found.append((int(match[1]), path))
        return sorted(found, reverse=True)

    def others(self, folder: Path) -> list[Path]:
        """What has a similar name in `folder` and is none of them."""
        ours = {path for _step, path in self.there(folder)}
        return sorted(path for path in folder.glob(f"{self.prefix}*") if path not in ours)
