#!/usr/bin/env python3
"""The inventory that the scenario's fleet wrote, as an inventory script; before `create` there is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import yaml

# Ansible runs this file through a link in Molecule's own folder.
FLEETS = Path(__file__).resolve().parents[2] / ".fleet"


def groups(file: Path) -> dict:
    """The groups of a YAML inventory in the form that inventory scripts print."""
    known = yaml.safe_load(file.read_text()) if file.exists() else {}
    answer: dict = {"_meta": {"hostvars": {}}}
    for name, group in known.items():
        answer[name] = {"hosts": sorted(group["hosts"]), "vars": group["vars"]}
        answer["_meta"]["hostvars"].update(group["hosts"])
    return answer


if __name__ == "__main__":
    print(json.dumps(groups(FLEETS / os.environ["MOLECULE_SCENARIO_NAME"] / "inventory.yml")))
