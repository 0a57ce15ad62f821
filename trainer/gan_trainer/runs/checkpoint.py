# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that survive a crash at any moment: a file either exists complete under its name, or not at all."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any, Collection

import torch

from ..errors import UserError
from ..safe_files import replacing, sync_folder
from .numbered import NumberedFiles

CHECKPOINTS = NumberedFiles("checkpoint-", ".pt")


class CheckpointError(UserError):
    """A run cannot be resumed; the text says from where and what to do."""


def list_checkpoints(folder: Path) -> list[Path]:
    """Those that a run has written, newest first; nobody else's files, whatever they are called."""
    return [path for _step, path in CHECKPOINTS.there(folder)]


def save_checkpoint(
    folder: Path, step: int, state: dict[str, Any], keep: int, passed_over: Collection[Path] = ()
) -> Path:
    """Write `state`, then delete all but the newest `keep` checkpoints up to `step`.

    Those in `passed_over` could not be read: they stay, and none counts as one that is kept. An error leaves the older
    ones intact.
    """
    path = folder / CHECKPOINTS.name(step)
    try:
        with replacing(path) as file:
            torch.save(state, file)
    # torch reports a failed write as its own RuntimeError.
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__
        reason = getattr(cause, "strerror", None) or str(error).splitlines()[0]
        raise CheckpointError(describe_full(folder, reason, step)) from error
    sync_folder(folder)
    # One of a later step is not from this stretch of training, so it may not push out one that is.
    ours = [old for number, old in CHECKPOINTS.there(folder) if number <= step and old not in passed_over]
    for old in ours[keep:]:
        old.unlink(missing_ok=True)
    return path


def save_best(path: Path, state: dict[str, Any]) -> None:
    """Replace the generator that is kept beside the checkpoints; OSError if it cannot be written."""
    try:
        with replacing(path) as file:
            torch.save(state, file)
    except RuntimeError as error:
        raise OSError(str(error).splitlines()[0]) from error


def describe_full(folder: Path, reason: str, step: int | None = None) -> str:
    """Why nothing more can be written to a run folder, how much room there is, and from where the run will continue."""
    whole = next((path for at, path in CHECKPOINTS.there(folder) if is_whole(path, at)), None)
    size = whole.stat().st_size if whole else 0
    what = "its files cannot be written" if step is None else f"the checkpoint of step {step} cannot be written"
    needs = f", a checkpoint takes {size >> 20} MiB" if size else ""
    kept = "nothing was saved before"
    if whole:
        kept = f"{whole.name} is complete, and the same command resumes from there"
    free = shutil.disk_usage(folder).free >> 20
    return f"run_dir: {folder}: {what}: {reason}; {free} MiB free{needs}. Free some space; {kept}"


def check_sums(path: Path) -> None:
    """torch.save writes a ZIP archive whose CRC-32 sums torch.load does not check; ValueError for changed bytes."""
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged:
        raise ValueError(f"its part {damaged} has changed since it was written (CRC-32)")


def is_whole(path: Path, step: int) -> bool:
    try:
        read_state(path, step)
    # A damaged file may raise anything.
    except Exception:
        return False
    return True


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The newest readable state, on the CPU; None if there is no checkpoint, CheckpointError if none can be read."""
    return load_newest(folder)[0]


def load_newest(folder: Path) -> tuple[dict[str, Any] | None, set[Path]]:
    """As `load_checkpoint`, and the newer ones that cannot be read: a line says why, and nothing happens to them."""
    passed_over: set[Path] = set()
    for step, path in CHECKPOINTS.there(folder):
        try:
            return read_state(path, step), passed_over
        # A damaged file may raise anything.
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            print(f"train-gan: {path} cannot be read: {reason[0]}; trying the one before", file=sys.stderr, flush=True)
            passed_over.add(path)
    if passed_over:
        raise CheckpointError(
            f"{folder}: no checkpoint of {len(passed_over)} can be read; move them away to start over"
        )
    return None, passed_over


def read_state(path: Path, step: int) -> dict[str, Any]:
    """The state of `step`; any exception if the file is damaged, or was copied there from another step."""
    check_sums(path)
    state = torch.load(path, map_location="cpu", weights_only=True)
    held = state.get("step") if isinstance(state, dict) else None
    if held != step:
        what = "no state of a run" if held is None else f"step {held}"
        raise ValueError(f"its name is that of step {step}, and it holds {what}")
    return state
