# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's bulletins about its drivers: the matrix's table `bulletins`, and a file of the same form of the operator."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from packaging.version import InvalidVersion, Version

from .advisory import AdvisoryError, Row

FORM = "roles/preflight/files/matrix/bulletins.yml"
Bulletin = Mapping[str, Any]


class Knowledge(NamedTuple):
    """What is known, and of when.

    as_of       the newest day of which the publisher's list was read to its end
    limit_days  older knowledge calls nothing free of known vulnerabilities
    """

    bulletins: tuple[Bulletin, ...]
    as_of: datetime.date
    limit_days: int

    def with_file(self, path: Path) -> Knowledge:
        """Together with an operator's file; its `as_of`, if it has one, is the day on which the operator looked.

        A bulletin in it without a date is taken to be of that day.
        """
        content = _content(path)
        found = datetime.date.fromisoformat(str(content["as_of"])) if content.get("as_of") else self.as_of
        bulletins = self.bulletins + tuple({"date": found.isoformat(), **one} for one in content["bulletins"])
        return self._replace(bulletins=bulletins, as_of=max(found, self.as_of))

    def age(self, today: datetime.date) -> int:
        """Days; 0 on a controller whose clock is behind."""
        return max(0, (today - self.as_of).days)

    def told(self, today: datetime.date) -> str:
        """How old it is: it stands with every answer."""
        newest = self.recent()[0]
        return (
            f"NVIDIA's driver bulletins as of {self.as_of}, {self.age(today)} days old; "
            f"the newest is {newest['id']} of {newest['date']}"
        )

    def recent(self) -> list[Bulletin]:
        """The newest bulletin, and then those that are not older than it by more than the limit."""
        ordered = sorted(self.bulletins, key=lambda one: str(one["date"]), reverse=True)
        first = datetime.date.fromisoformat(str(ordered[0]["date"])) - datetime.timedelta(self.limit_days)
        return [one for one in ordered if str(one["date"]) >= first.isoformat()]

    def unknown(self, version: str, today: datetime.date) -> str:
        """Why a driver without a row is not free of known vulnerabilities, as a sentence; "" if it is."""
        branch = str(Version(version).major)
        if self.age(today) > self.limit_days:
            return (
                f"NVIDIA driver {version}: what is known here is {self.age(today)} days old (limit {self.limit_days}); "
                f"{renew()}"
            )
        recent = self.recent()
        if any(branch in one["branches"] for one in recent):
            return ""
        text = f"NVIDIA driver {version}: no bulletin since {recent[-1]['date']} names branch {branch}"
        if all(int(branch) > int(known) for one in recent for known in one["branches"]):
            return f"{text}, which is newer than all that they name; {renew()}"
        said = next((one for one in recent if one.get("advice")), None)
        return text + (f". Bulletin {said['id']} says: {said['advice']} ({said['source']})" if said else "")


def renew() -> str:
    return (
        "a newer release of the toolkit has newer bulletins, playbooks/knowledge.yml writes them for "
        "preflight_knowledge, and advisories_bulletins takes a file of your own"
    )


def _content(path: Path) -> dict[str, Any]:
    """A file's content, with `bulletins`; AdvisoryError if it has another form."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for bulletin in content["bulletins"]:
            # A branch that YAML reads as a number is the same branch.
            bulletin["branches"] = {str(branch): row for branch, row in bulletin["branches"].items()}
            assert_form(bulletin)
        as_of = content.get("as_of")
        # A day to come would keep old knowledge from ever being called old; time zones differ by one day.
        if as_of and datetime.date.fromisoformat(str(as_of)) > datetime.date.today() + datetime.timedelta(1):
            raise ValueError(f"as_of {as_of} is a day to come")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError, InvalidVersion) as error:
        raise AdvisoryError(
            f"{path}: {error}; expected a list `bulletins`, each with id, date, source and branches: {{branch: "
            f"{{fixed, severity, cves}}}}, as {FORM} of the toolkit has it. Correct the file [advisories.bulletins]"
        ) from error
    return dict(content)


def of(matrix: Mapping[str, Any]) -> Knowledge:
    """What a matrix knows."""
    day = matrix["tables"]["bulletins"]
    return Knowledge(tuple(matrix["bulletins"]), datetime.date.fromisoformat(day["as_of"]), int(day["limit_days"]))


def assert_form(bulletin: Bulletin) -> None:
    """KeyError, ValueError or InvalidVersion if a bulletin lacks something."""
    if not str(bulletin["source"]).startswith("https://") or not bulletin["id"]:
        raise ValueError(f"bulletin {bulletin['id']} has no source")
    if bulletin.get("date"):
        datetime.date.fromisoformat(str(bulletin["date"]))
    for branch, row in bulletin["branches"].items():
        if str(Version(row["fixed"]).major) != branch or not row["severity"] or not isinstance(row["cves"], list):
            raise ValueError(f"bulletin {bulletin['id']}, branch {branch}: another form")


def rows(version: str, bulletins: Iterable[Bulletin], where: str) -> list[Row]:
    """The bulletins whose fix this driver does not have. `version`: such as 580.95.05; InvalidVersion if it is none."""
    ours, found = Version(version), []
    for bulletin in bulletins:
        row = bulletin["branches"].get(str(ours.major))
        if row and ours < Version(row["fixed"]):
            ids = [f"NVIDIA-{bulletin['id']}", *row["cves"]]
            found.append(Row("NVIDIA driver", version, bulletin["source"], ids, row["severity"], row["fixed"], where))
    return found


def fixed_versions(bulletins: Iterable[Bulletin]) -> set[str]:
    """Releases that a bulletin names as the first without its vulnerabilities: they exist."""
    return {str(row["fixed"]) for bulletin in bulletins for row in bulletin["branches"].values()}
