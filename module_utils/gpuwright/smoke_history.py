# SPDX-License-Identifier: Apache-2.0
"""The smoke test of the last verification, for a check of the node that starts no GPU work of its own."""

from .evidence import Evidence, Unreadable
from .report import age_seconds, read_json


def loaded_driver(readings):
    if readings.absent("probe", "nvidia", "loaded"):
        return "none"
    return readings.version("probe", "nvidia", "loaded", "version")


def installed_pytorch(readings):
    return readings.text("venv", "versions", "torch")


# What must not have changed since a test whose result is still to count.
SAME_AS_THEN = (("the loaded driver", loaded_driver), ("PyTorch", installed_pytorch))


def last_smoke(path, readings, now):
    """The smoke test in the report at `path` with `age_s` added, or `{"unreadable": "why"}`.

    It counts no more when the driver or PyTorch is another than in that report. `now` is in the report's format.
    """
    try:
        report = read_json(path)
        smoke = report.get("smoke")
        if not isinstance(smoke, dict):
            return {"unreadable": "the last verification ran no smoke test"}
        changed = what_changed(report.get("readings"), readings)
        if changed:
            return {"unreadable": "{} is another than at the last smoke test".format(changed)}
        return dict(smoke, age_s=age_seconds(str(report.get("time")), now))
    except FileNotFoundError:
        return {"unreadable": "this node has not been verified yet ({} is missing)".format(path)}
    except (OSError, ValueError) as error:
        return {"unreadable": "the report of the last verification: {}".format(error)}


def what_changed(then, now):
    """The first of SAME_AS_THEN that differs or cannot be read; "" when all are the same."""
    for words, read in SAME_AS_THEN:
        try:
            if read(Evidence(then, "then")) != read(Evidence(now, "now")):
                return words
        except Unreadable:
            return words
    return ""
