"""dnf killed in the middle of a change of the driver: the same command again ends as if nothing had happened.

dkms strikes from within the transaction: while the new module is built, the old packages are all there; when the old
module is removed, some of them are gone. It kills the scriptlet alone, as when memory runs out, or the transaction too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import on_host, play

pytestmark = pytest.mark.usefixtures("finished_host")
DKMS = "/usr/sbin/dkms"
STRIKES = """#!/bin/sh
if [ "$1" = {word} ]; then
    kill -KILL {whom}
    exit 1
fi
exec {dkms}.real "$@"
"""
SCRIPTLET, TRANSACTION = "$PPID", "$(ps -o ppid= -p $PPID) $PPID"
TWICE = "rpm -qa '*nvidia*' --qf '%{NAME}\\n' | sort | uniq --repeated"
VERSIONS = "rpm -qa 'kmod-nvidia*' 'libnvidia*' 'nvidia-*' --qf '%{VERSION}\\n' | sort --unique"
MODULE = "modinfo --field version --set-version $(uname -r) nvidia; ls /var/lib/dkms/nvidia | grep -v ^kernel-"


@pytest.fixture(autouse=True)
def dkms_put_back() -> Iterator[None]:
    yield
    on_host(f"test ! -e {DKMS}.real || mv {DKMS}.real {DKMS}")


@pytest.mark.parametrize(
    ("version", "word", "whom"),
    [
        ("580.82.07", "remove", TRANSACTION),
        ("580.95.05", "build", TRANSACTION),
        # dnf goes on without the package, and reports it.
        ("580.82.07", "remove", SCRIPTLET),
    ],
    ids=["removal", "build", "scriptlet"],
)
def test_a_plain_rerun_finishes_the_change(version: str, word: str, whom: str) -> None:
    asked = {"system_driver_version": version, "system_reboot_policy": "allowed"}
    strikes = STRIKES.format(word=word, whom=whom, dkms=DKMS)
    on_host(f"mv {DKMS} {DKMS}.real; cat > {DKMS} <<'END'\n{strikes}END\nchmod 755 {DKMS}")
    killed = play("playbooks/system.yml", **asked)
    on_host(f"mv {DKMS}.real {DKMS}")
    assert killed.rc != 0 and on_host(TWICE), killed.output
    again = play("playbooks/system.yml", **asked)
    assert again.rc == 0, again.output
    assert on_host(TWICE) == "" and on_host(VERSIONS) == version, on_host(VERSIONS)
    assert on_host(MODULE).split() == [version, version], on_host(MODULE)
    assert play("playbooks/system.yml", **asked).changed == 0
