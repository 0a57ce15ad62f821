"""The table of guards, guards.yml, as rows; what a page promises, sentence by sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("guards.yml")
PAGE = "docs/security.md"
TUNING = "plugins/module_utils/tuning/file_texts.py"
EXPOSURE = "tests/unit/roles/test_unit_exposure.py::test_the_sandbox_is_what_is_promised"


class Guard(NamedTuple):
    """One guard: `remove` stands in `file` exactly once, and `test` fails with `instead` in its place."""

    page: str
    promise: str
    file: str
    remove: str
    instead: str
    test: str

    @property
    def name(self) -> str:
        words = " ".join(re.findall(r"\w+", self.remove))[:40]
        return f"{Path(self.file).name}: {words}"

    def without(self, text: str) -> str:
        """The content of its file without the guard."""
        assert text.count(self.remove) == 1, f"{self.file} has {text.count(self.remove)} times {self.remove!r}"
        return text.replace(self.remove, self.instead)


def guards() -> list[Guard]:
    return [
        Guard(
            row.get("page", PAGE), row["promise"], each["file"], each["remove"], each.get("instead", ""), each["test"]
        )
        for row in yaml.safe_load(TABLE.read_text())
        for each in row["guards"]
    ]


def settings() -> list[Guard]:
    """A guard for each line of a service's file that gives a setting of the page's table."""
    rows = re.findall(r"^\| `(\w+)=.*` \| .* \|$", (REPOSITORY / PAGE).read_text(), flags=re.M)
    line = re.compile(rf"^(?:{'|'.join(sorted(set(rows)))})=.*$", flags=re.M)
    files = [*sorted(REPOSITORY.glob("roles/*/templates/*.service.j2")), REPOSITORY / TUNING]
    return [
        Guard(PAGE, setting, str(file.relative_to(REPOSITORY)), f"\n{setting}\n", "\n", f"{EXPOSURE}[{name}]")
        for file in files
        for name in ["gpuwright-tuning.service" if file.suffix == ".py" else file.name.removesuffix(".j2")]
        for setting in line.findall(file.read_text())
    ]


def statements(page: str) -> Iterator[str]:
    """The sentences of a page and the rows of its tables, each as one line; headings and code are none."""
    text = re.sub(r"```.*?```", "", page, flags=re.S)
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if lines and lines[0].startswith("|"):
            yield from lines[2:]
        elif lines:
            yield from re.split(r"(?<=[.:])\s+(?=[A-Z`])", " ".join(lines))
