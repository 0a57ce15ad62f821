"""The releases of ansible-core that the toolkit claims to work with."""

from __future__ import annotations

import sys

# What all of them need. PyPI has the newest of each minor release, as of 2026-11-28.
BESIDE = ("jinja2==3.1.6", "markupsafe==3.0.4", "pyyaml==6.0.4", "cryptography==50.0.2", "packaging==26.4")
RELEASES = {
    "2.16": "2.16.19",
    "2.17": "2.17.14",
    "2.18": "2.18.19",
    "2.19": "2.19.14",
    "2.20": "2.20.10",
    "2.21": "2.21.5",
}
# The one that `make venv` installs, with which the others are compared, and the last that manages EL 8.
PINNED = "2.16"
# The versions of Python in which each release runs on a controller, best first.
PYTHONS = {
    **dict.fromkeys(("2.16", "2.17"), ("3.12", "3.11", "3.10")),
    **dict.fromkeys(("2.18", "2.19"), ("3.12", "3.13", "3.11")),
    **dict.fromkeys(("2.20", "2.21"), ("3.12", "3.13")),
}


def chosen(asked: str) -> list[str]:
    """Minor releases to test: `asked` for ("2.19", or several with commas), or all. SystemExit for an unknown one."""
    names = [name.strip() for name in asked.split(",") if name.strip()] or list(RELEASES)
    if unknown := [name for name in names if name not in RELEASES]:
        sys.exit(f"CORE={asked}: {', '.join(unknown)} is none of {', '.join(RELEASES)}. Leave CORE out for all.")
    return names
