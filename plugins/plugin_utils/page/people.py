# SPDX-License-Identifier: Apache-2.0
"""Answers for people who do not know checks by their ids: what is wrong, since when, who must act, what still works."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.checks.all import CHECKS
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import FAIL, PASS, SKIP

from .values import look

QUESTIONS = {check.id: check.question for check in CHECKS}


def question(names: list[str]) -> str:
    """The question of the first of these checks; "" for a check of another release."""
    return QUESTIONS.get(names[0], "") if names else ""


def since(name: str, report: dict, before: dict | None) -> str:
    """When a finding first appeared, as far as two reports show."""
    known = before.get("checks") if isinstance(before, dict) else None
    if before is None or not isinstance(known, list):
        return f"seen at {report['time']}"
    then = next((check.get("status") for check in known if isinstance(check, dict) and check.get("id") == name), SKIP)
    if then in (PASS, SKIP):
        return f"new since {before.get('time')}"
    return f"since {before.get('time')} or longer"


def usable(report: dict | None) -> str:
    """How many GPUs can be used of how many there should be, for example "3 of 4"; "?" for unknown.

    A card is usable if the driver shows it, it is not lost, and no FAIL names its address.
    """
    wanted = look(report, "expectations", "gpu_count")
    if not isinstance(wanted, int):
        return "?"
    checks = (report or {}).get("checks", [])
    if look(report, "readings", "nvidia_smi", "reachable") is not True:
        silent = [check for check in checks if check.get("id") == "driver.reachable"]
        known = silent and silent[0]["status"] == FAIL or wanted == 0
        return f"{0 if known else '?'} of {wanted}"
    cards = look(report, "readings", "nvidia_smi", "gpus")
    failed = [check for check in checks if check["status"] == FAIL]
    return f"{sum(is_usable(card, failed) for card in cards if isinstance(card, dict))} of {wanted}"


def is_usable(card: dict[str, Any], failed: list[dict[str, Any]]) -> bool:
    address = str(card.get("pci_id")).rpartition(".")[0]
    return card.get("lost") is False and bool(address) and not any(is_about(check, address) for check in failed)


def is_about(check: dict[str, Any], address: str) -> bool:
    """Whether a finding is about the card of this address; a report of an earlier release says so in its words only."""
    return address in (check["items"] if "items" in check else check["message"])
