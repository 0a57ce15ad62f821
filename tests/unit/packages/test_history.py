"""Who typed a command is read from the histories of dnf and apt; a program has no command line."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from gpuwright.packages.history import APT_HISTORY, HISTORY, installed_by_hand

APT = """
Start-Date: 2026-01-05  10:00:00
Commandline: /usr/bin/apt-get -y -o Dpkg::Options::=--force-confdef install dkms
Install: dkms:amd64 (3.0.10-8), gcc-12:amd64 (12.2.0-14, automatic)
End-Date: 2026-01-05  10:00:09

Start-Date: 2026-01-05  11:00:00
Commandline: apt install htop
Requested-By: alice (1001)
Install: htop:amd64 (3.2.2-2), libnl-3-200:amd64 (3.7.0-0.2, automatic)
End-Date: 2026-01-05  11:00:02

Start-Date: 2026-01-05  12:00:00
Commandline: apt purge htop
Purge: htop:amd64 (3.2.2-2)
End-Date: 2026-01-05  12:00:02
"""


def test_of_dnf_those_count_that_a_command_installed(tmp_path: Path) -> None:
    file = tmp_path / HISTORY[1:]
    file.parent.mkdir(parents=True)
    database = sqlite3.connect(file)
    # The columns that are read, of dnf's own tables (libdnf, transformer).
    database.executescript(
        """CREATE TABLE trans (id INTEGER, cmdline TEXT); CREATE TABLE rpm (item_id INTEGER, name TEXT, arch TEXT);
        CREATE TABLE trans_item (trans_id INTEGER, item_id INTEGER, action INTEGER);
        INSERT INTO trans VALUES (1, ''), (2, 'install htop'), (3, 'remove nano');
        INSERT INTO rpm VALUES (1, 'dkms', 'noarch'), (2, 'htop', 'x86_64'), (3, 'nano', 'x86_64');
        INSERT INTO trans_item VALUES (1, 1, 1), (2, 2, 1), (3, 3, 8);"""
    )
    database.commit()
    database.close()
    assert installed_by_hand("redhat", str(tmp_path)) == {"htop.x86_64"}


def test_of_apt_those_count_whose_command_is_not_ansibles(tmp_path: Path) -> None:
    file = tmp_path / APT_HISTORY[1:]
    file.parent.mkdir(parents=True)
    file.write_text(APT)
    assert installed_by_hand("debian", str(tmp_path)) == {"htop:amd64", "libnl-3-200:amd64"}


def test_without_a_history_nothing_is_known(tmp_path: Path) -> None:
    assert installed_by_hand("redhat", str(tmp_path)) == installed_by_hand("debian", str(tmp_path)) == set()
