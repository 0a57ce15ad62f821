# SPDX-License-Identifier: Apache-2.0
"""On a CPU, a run that is meant for a GPU takes days: how long, and settings with which pictures come in minutes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from ..config import Config, contradictions
from .elapsed import Elapsed, duration

# Seconds of steps from which the time left is told, and what may be left without a remark.
MEASURED, SHORT = 10.0, 900.0
# Some 200 small pictures can be made out after 300 steps, which take a minute or two of 2 cores.
QUICK: dict[str, Any] = {"image_size": 32, "channels": 16, "batch_size": 16, "steps": 600, "sample_every": 100}


class Outlook:
    """For the first rank of a run on a CPU."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.elapsed: Elapsed | None = None
        self.told = False

    def after(self, step: int) -> str:
        """A line once enough steps are measured, if much is left; else "". The first step, which is not like the
        others, is left out."""
        if self.elapsed is None:
            self.elapsed = Elapsed(step, self.config.steps)
        pace = self.elapsed.pace(step)
        if self.told or pace is None or pace * (step - self.elapsed.first) < MEASURED:
            return ""
        self.told = True
        left = pace * (self.config.steps - step)
        if left < SHORT:
            return ""
        line = f"on this CPU, the {self.config.steps - step} steps to come take about {duration(left)}"
        settings = quick_settings(self.config)
        return f"{line}; to see pictures within minutes: {settings}" if settings else line


def quick_settings(config: Config) -> str:
    """As words of a command line, what makes this run a short one in a folder of its own; "" if nothing does."""
    smaller = {key: value for key, value in QUICK.items() if getattr(config, key) > value}
    if not smaller or config.burn_in_steps >= QUICK["steps"] or contradictions(replace(config, **smaller)):
        return ""
    words = [f"run_dir={config.run_dir.rstrip('/')}-quick", *(f"{key}={value}" for key, value in smaller.items())]
    return shlex.join(words)
