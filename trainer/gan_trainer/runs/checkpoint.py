# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that survive a crash at any moment: a file either exists complete under its name, or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import torch

from ..errors import UserError
from ..safe_files import replacing


class CheckpointError(UserError):
    """A run cannot be resumed; the text says from where and what to do."""


def list_checkpoints(folder: Path) -> list[Path]:
    """Newest first."""
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)


def save_checkpoint(folder: Path, step: int, state: dict[str, Any], keep: int) -> Path:
    """Write `state`, then delete all but the newest `keep` checkpoints; an error leaves the older ones intact."""
    path = folder / f"checkpoint-{step:010d}.pt"
    try:
        with replacing(path) as file:
            torch.save(state, file)
    # torch reports a failed write as its own RuntimeError.
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__
        reason = getattr(cause, "strerror", None) or str(error).splitlines()[0]
        raise CheckpointError(describe_full(folder, reason, step)) from error
    sync_folder(folder)
    for old in list_checkpoints(folder)[keep:]:
        old.unlink()
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
    whole = list_checkpoints(folder)
    size = whole[0].stat().st_size if whole else 0
    what = "its files cannot be written" if step is None else f"the checkpoint of step {step} cannot be written"
    needs = f", a checkpoint takes {size >> 20} MiB" if size else ""
    kept = "nothing was saved before"
    if whole:
        kept = f"{whole[0].name} is complete, and the same command resumes from there"
    free = shutil.disk_usage(folder).free >> 20
    return f"run_dir: {folder}: {what}: {reason}; {free} MiB free{needs}. Free some space; {kept}"


def sync_folder(folder: Path) -> None:
    """The new name itself must reach the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_sums(path: Path) -> None:
    """torch.save writes a ZIP archive whose CRC-32 sums torch.load does not check; ValueError for changed bytes."""
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged:
        raise ValueError(f"its part {damaged} has changed since it was written (CRC-32)")


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The newest readable state, on the CPU; None if there is no checkpoint, CheckpointError if none can be read."""
    candidates = list_checkpoints(folder)
    for path in candidates:
        try:
            check_sums(path)
            return torch.load(path, map_location="cpu", weights_only=True)
        # A damaged file may raise anything.
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            print(f"train-gan: {path} cannot be read: {reason[0]}; trying the one before", file=sys.stderr, flush=True)
    if candidates:
        raise CheckpointError(f"{folder}: no checkpoint of {len(candidates)} can be read; move them away to start over")
    return None
