"""Rows of test_checks_sad_paths: waivers that cannot be followed, cards that fail repeatedly."""

from __future__ import annotations

from gpuwright.verdict.check import PASS, SKIP, UNKNOWN, WARN

NOW = "2026-01-31T10:00:00Z"
MOMENT = {"time": NOW, "boot_id": "now", "uptime_s": 1000.0}
UUID = "GPU-00000000-1111-2222-3333-000000000001"
DAMAGED = {"unreadable": "/var/lib/gpuwright/x.json is damaged: Expecting value"}


def entry(check_id: str = "gpu.sram", **changes: object) -> dict:
    """An acknowledgement as the file holds it."""
    whole = {
        "id": check_id,
        "user": "alice",
        "uid": 1000,
        "when": "2026-01-30T10:00:00Z",
        "until": "2026-02-06T10:00:00Z",
        "reason": "a new card is ordered",
        "boot_id": "now",
        "uptime_s": 500.0,
        "message": "0000:3b:00.0: 5 uncorrected errors",
        "remedy": "replace",
        "value": 5,
        "expected": 4,
        "unit": "errors",
        "cards": ["0000:3b:00"],
        "last_s": None,
        "count": None,
    }
    assert set(changes) <= set(whole)
    return {**whole, **changes}


def struck(*times: str, **changes: object) -> dict:
    """A card with a failure in a boot at each of these times."""
    boots = [{"boot_id": f"boot {place}", "time": time, "ids": ["gpu.sram"]} for place, time in enumerate(times)]
    whole = {
        "serial": "",
        "uuid": UUID,
        "name": "Tesla V100-PCIE-16GB",
        "pci_id": "0000:3b:00",
        "first": times[0],
        "last": times[-1],
        "boots_total": len(times),
        "boots": boots,
        "counts": {"gpu.sram": len(times)},
        "message": "gpu.sram: 0000:3b:00.0: 5 uncorrected errors",
    }
    return {**whole, **changes}


def kept(*cards: dict, **changes: object) -> dict[tuple, object]:
    readings: dict[tuple, object] = {("strikes",): {"cards": list(cards), "slots": {}}, ("moment",): dict(MOMENT)}
    for name, value in changes.items():
        readings[("nvidia_smi", "gpus", 0, name)] = value
    return readings


# The oldest is exactly thirty days old.
THREE = ("2026-01-01T10:00:00Z", "2026-01-15T10:00:00Z", "2026-01-31T09:00:00Z")
FOREIGN = struck(*THREE, uuid="GPU-ffffffff-1111-2222-3333-000000000009")
VALID, STRIKES = "waivers.valid", "gpu.strikes"
OTHER = {"serial": "999", "uuid": "GPU-other"}
ROWS: list[tuple] = [
    (VALID, {("acknowledgements",): [entry()]}, {}, PASS, "1 acknowledgements kept, 0 checks switched off"),
    (VALID, {}, {"skip_checks": {"host.cpu_governor": "set by the firmware"}}, PASS, "1 checks switched off"),
    (VALID, {("acknowledgements",): DAMAGED}, {}, WARN, "no acknowledgement counts: /var/lib/gpuwright/x.json is"),
    (VALID, {("acknowledgements",): [{**entry(), "until": "soon"}]}, {}, WARN, "has until 'soon'"),
    (VALID, {("acknowledgements",): [entry(), entry()]}, {}, WARN, "acknowledged twice"),
    (
        VALID,
        {("acknowledgements",): [entry("gpu.count"), entry()]},
        {},
        WARN,
        "gpu.count cannot be acknowledged: it detects a lost GPU",
    ),
    (VALID, {("acknowledgements",): "none"}, {}, UNKNOWN, "is not a list"),
    (VALID, {("acknowledgements",): {"unreadable": 5}}, {}, UNKNOWN, "acknowledgements: 5"),
    (VALID, {}, {"skip_checks": {"gpu.cuont": "typo"}}, WARN, "gpu.cuont: there is no such check"),
    (
        VALID,
        {},
        {"skip_checks": {"driver.version": "hide"}},
        WARN,
        "driver.version: it cannot be switched off: one of its findings is that there is no module",
    ),
    (VALID, {}, {"skip_checks": {"gpu.sram": " "}}, WARN, "gpu.sram: it has no reason"),
    (VALID, {}, {"skip_checks": {"gpu.sram": 5}}, WARN, "gpu.sram: it has no reason"),
    (VALID, {}, {"skip_checks": {"gpu.sram": "x" * 201}}, WARN, "longer than 200"),
    (VALID, {}, {"skip_checks": {"gpu.sram": "x" * 200}}, PASS, "1 checks switched off"),
    (VALID, {}, {"skip_checks": {"gpu.sram": "a\x1b[2Jb"}}, WARN, "not one line"),
    (VALID, {}, {"skip_checks": ["gpu.sram"]}, UNKNOWN, "skip_checks is not a record"),
    (STRIKES, kept(struck(*THREE)), {}, WARN, "0000:3b:00) failed in 3 boots of the last 30 days, in 3 boots alto"),
    (STRIKES, kept(struck(*THREE, counts={"gpu.sram": 2, "kernel.xid:48": 1})), {}, WARN, "(2), kernel.xid:48 (1)"),
    (STRIKES, kept(struck("2026-01-01T09:59:59Z", *THREE[1:])), {}, PASS, "no card failed in 3 boots"),
    (STRIKES, kept(struck(*THREE[1:])), {}, PASS, "no card failed in 3 boots of the last 30 days"),
    (STRIKES, kept(struck("soon", *THREE[1:])), {}, WARN, "failed in 3 boots"),
    (STRIKES, kept(struck("2027-01-01T09:59:59Z", *THREE[1:])), {}, WARN, "failed in 3 boots"),
    (STRIKES, kept(FOREIGN), {}, PASS, "no card failed"),
    (STRIKES, kept(FOREIGN, uuid="unknown"), {}, WARN, "GPU-ffffffff-1111-2222-3333-000000000009 (Tesla"),
    (STRIKES, {**kept(FOREIGN), ("nvidia_smi", "gpus"): []}, {}, WARN, "failed in 3 boots"),
    (STRIKES, kept(struck(*THREE, serial="123"), serial="123", uuid="GPU-new"), {}, WARN, "serial 123 (Tesla V100"),
    (STRIKES, kept(struck(*THREE, serial="123"), **OTHER), {}, PASS, "no card failed in 3 boots"),
    (STRIKES, {**kept(struck(*THREE)), ("moment",): {"unreadable": "no clock"}}, {}, UNKNOWN, "no clock"),
    (STRIKES, {("strikes",): DAMAGED}, {}, WARN, "strikes are not counted: /var/lib/gpuwright/x.json is damaged"),
    (STRIKES, {("strikes",): {"cards": 5, "slots": {}}}, {}, WARN, "strikes are not counted: cards are 5"),
    (STRIKES, {("strikes",): None}, {}, WARN, "strikes are not counted: expected cards and slots"),
    (STRIKES, {}, {"gpu_count": 0}, SKIP, "expects no GPU"),
]
