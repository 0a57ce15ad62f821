"""Every role has a README that says what its argument specs say, and one that can be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import REPOSITORY
from module_files import load_file

pages = load_file("tools/roles.py")
ROLES = sorted(path for path in (REPOSITORY / "roles").iterdir() if path.is_dir())


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_page_is_that_of_the_specs(role: Path) -> None:
    assert (role / "README.md").read_text() == pages.page(role), "run: make docs"


def test_an_internal_role_names_who_may_call_it() -> None:
    for name in pages.INTERNAL:
        assert pages.callers(name), name
        assert "Internal: for " in (REPOSITORY / "roles" / name / "README.md").read_text()
