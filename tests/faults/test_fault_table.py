"""The fault table on a bare host of the fleet: each fault is named, changes nothing, and a plain rerun goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fault_table.controller import ROWS as CONTROLLER
from fault_table.host import ROWS as HOST
from fault_table.made import Table
from fault_table.row import PREFLIGHT, Row


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    made = Table(tmp_path_factory.mktemp("table"))
    yield made
    made.away()


@pytest.mark.parametrize("row", [*CONTROLLER, *HOST], ids=lambda row: row.name)
def test_a_fault_is_named_and_a_plain_rerun_goes_on(table: Table, row: Row) -> None:
    sound = table.state()
    with table.harmed(row):
        before = table.state() if row.harm else sound
        done = table.run(row)
        after = table.state()
    assert done.rc == row.status, done.output
    assert [words for words in row.says if words not in done.text] == [], done.output
    assert not row.id or f"[{row.id}]" in done.text, done.output
    assert table.differences(before, after) == []
    again = table.plain(PREFLIGHT)
    assert again.rc == 0, again.output
    assert table.differences(sound, table.state()) == []


def test_the_host_that_met_all_of_them_reaches_pass_and_stays(table: Table) -> None:
    done = table.plain(("site.yml",))
    assert done.rc == 0, done.output
    again = table.plain(("site.yml",))
    assert again.rc == 0 and again.changed == 0, again.output
