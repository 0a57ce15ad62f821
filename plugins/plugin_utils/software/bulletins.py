# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's bulletins about its drivers: bulletins.yml beside this file, and a file of the same form of the operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from .advisory import AdvisoryError, Row

OWN = Path(__file__).with_name("bulletins.yml")


def read(path: Path = OWN) -> list[dict[str, Any]]:
    """The bulletins of a file; AdvisoryError if it has another form."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))["bulletins"]
        for bulletin in found:
            assert_form(bulletin)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError, InvalidVersion) as error:
        raise AdvisoryError(
            f"{path}: {error}; expected a list `bulletins`, each with id, source and branches: {{branch: {{fixed, "
            f"severity, cves}}}}, as {OWN.name} of the toolkit has it. Correct the file [advisories.bulletins]"
        ) from error
    return list(found)


def assert_form(bulletin: Mapping[str, Any]) -> None:
    """KeyError, ValueError or InvalidVersion if a bulletin lacks something."""
    if not str(bulletin["source"]).startswith("https://") or not bulletin["id"]:
        raise ValueError(f"bulletin {bulletin['id']} has no source")
    for branch, row in bulletin["branches"].items():
        if str(Version(row["fixed"]).major) != str(branch) or not row["severity"] or not isinstance(row["cves"], list):
            raise ValueError(f"bulletin {bulletin['id']}, branch {branch}: another form")


def rows(version: str, bulletins: Iterable[Mapping[str, Any]], where: str) -> list[Row]:
    """The bulletins whose fix this driver does not have. `version`: such as 580.95.05; InvalidVersion if it is none."""
    ours, found = Version(version), []
    for bulletin in bulletins:
        row = bulletin["branches"].get(str(ours.major))
        if row and ours < Version(row["fixed"]):
            ids = [f"NVIDIA-{bulletin['id']}", *row["cves"]]
            found.append(Row("NVIDIA driver", version, bulletin["source"], ids, row["severity"], row["fixed"], where))
    return found


def is_known(version: str, bulletins: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any bulletin names the branch: of another one, nothing is known."""
    return any(str(Version(version).major) in bulletin["branches"] for bulletin in bulletins)
