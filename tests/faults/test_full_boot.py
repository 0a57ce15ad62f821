"""The boot entries cannot be written, as on a full /boot: the scriptlet of the driver hides it, the role does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import on_host, play

pytestmark = pytest.mark.usefixtures("finished_host")
ENTRIES = "/boot/loader/entries"
BLOCKED = f"grep --files-without-match rd.driver.blacklist=nouveau {ENTRIES}/*.conf"


@pytest.fixture
def refused() -> Iterator[None]:
    """No entry blocks nouveau, and none can be changed."""
    on_host(
        "grubby --update-kernel=ALL --remove-args=rd.driver.blacklist=nouveau\n"
        f"mount --bind {ENTRIES} {ENTRIES}; mount -o remount,bind,ro {ENTRIES}"
    )
    yield
    on_host(f"mountpoint -q {ENTRIES} && umount {ENTRIES}; true")


def test_nouveau_is_blocked_by_the_rerun(refused: None) -> None:
    full = play("playbooks/system.yml")
    assert full.rc == 2, full.output
    assert {"[driver.nouveau]", "rd.driver.blacklist=nouveau", "/boot`,"} <= set(full.output.split()), full.output
    on_host(f"umount {ENTRIES}")
    again = play("playbooks/system.yml")
    assert again.rc == 0 and again.changed == 1, again.output
    assert on_host(BLOCKED, check=False) == ""
    assert play("playbooks/system.yml").changed == 0
