"""docs/playbooks.md has a line for every playbook that a person starts, with a page to each."""

from __future__ import annotations

import re

from conftest import REPOSITORY

PAGE = REPOSITORY / "docs/playbooks.md"
PLAYBOOKS = {path.stem: path.read_text() for path in (REPOSITORY / "playbooks").glob("*.yml")}
# Started by a person and part of site.yml, too.
LAYERS = {"preflight", "system", "framework", "model", "site", "verify", "rollout"}


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_playbook_that_a_person_starts_has_one_line() -> None:
    imported = {name for text in PLAYBOOKS.values() for name in re.findall(r"import_playbook: (\w+)\.yml", text)}
    listed = [re.sub(r"`(\w+?)(\.yml)?`.*", r"\1", row[0]) for row in rows()]
    assert sorted(listed) == sorted(set(PLAYBOOKS) - (imported - LAYERS))


def test_every_line_is_complete_and_leads_to_a_page() -> None:
    for row in rows():
        assert len(row) == 5 and all(row), row
        targets = re.findall(r"\]\(([^)]+)\)", row[4])
        assert targets and all((PAGE.parent / target).is_file() for target in targets), row
