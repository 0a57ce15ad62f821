"""The results of a run: kept in memory, masked, and written anew after each part, each file whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from . import places
from .drawing import svg
from .goals import judged
from .page import page, results_name

places.use_library()
JSON, PAGE = "evidence.json", "evidence.md"


class Results:
    """`found` is the record; `problem` says why it could not be written last time, "" if it was."""

    def __init__(self, folder: Path, minutes: float) -> None:
        self.folder, self.begin = folder, time.monotonic()
        self.problem = ""
        self.masker: Any = None
        self.found: dict[str, Any] = {
            "schema": 1,
            "kind": "gpu-evidence",
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commit": commit(),
            "minutes": minutes,
            "took": 0.0,
            "trial": True,
            "stopped": "",
            "problems": [],
            "parts": [],
            "goals": [],
        }

    def part(self, name: str) -> dict[str, Any]:
        """What a part has found, {} if it found nothing."""
        return next((part["found"] for part in self.found["parts"] if part["name"] == name and part["found"]), {})

    def masked(self) -> dict[str, Any]:
        """The record with names, addresses and serial numbers of this machine replaced, as in a bundle."""
        from gpuwright.doctor.bundle.masking_known import known_masker

        if self.masker is None:
            self.masker = known_masker("/", {})
        text = json.dumps(self.found, default=str)
        self.masker.learn_from(text)
        value: dict[str, Any] = self.masker.value(json.loads(text))
        return value

    def write(self) -> None:
        """JSON, page and plots. That they cannot be written is kept for the next time: the results stay in memory."""
        from gpuwright.host.whole_file import write_whole

        self.found["took"] = round(time.monotonic() - self.begin, 1)
        self.found["goals"] = judged(self.found)
        try:
            shown = self.masked()
            write_whole(str(self.folder / JSON), (json.dumps(shown, indent=1) + "\n").encode())
            write_whole(str(self.folder / PAGE), page(shown).encode())
            for name, text in plots(shown).items():
                write_whole(str(self.folder / name), text.encode())
            self.problem = ""
        except OSError as error:
            self.problem = f"{self.folder}: {error.strerror or error}"

    def last_way_out(self) -> str:
        """What is printed where nothing can be written: the short form of the results."""
        rows = [{key: part[key] for key in ("name", "status", "why", "seconds")} for part in self.masked()["parts"]]
        return json.dumps({"parts": rows, "goals": self.masked()["goals"]}, indent=1)


def plots(results: dict[str, Any]) -> dict[str, str]:
    """{file: picture}."""
    return {
        results_name(part["name"], plot["title"]): svg(plot)
        for part in results["parts"]
        for plot in (part.get("found") or {}).get("bars", [])
        if plot["rows"]
    }


def commit() -> str:
    """Of the checkout; "unknown" in a copy without git."""
    try:
        done = subprocess.run(
            ["git", "-C", str(places.REPOSITORY), "describe", "--always", "--dirty", "--abbrev=8"],
            capture_output=True,
            text=True,
            timeout=10,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"
