# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that survive a crash at any moment: a file is complete under its name or it is not there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch

from .errors import UserError
from .safe_files import replacing


class CheckpointError(UserError):
    """A run cannot be resumed; the text says from where and what to do."""


def list_checkpoints(folder: Path) -> list[Path]:
    """Newest first."""
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)


def save_checkpoint(folder: Path, step: int, state: dict[str, Any], keep: int) -> Path:
    """Write `state`, then delete all but the newest `keep` checkpoints; an OSError leaves the older ones whole."""
    path = folder / f"checkpoint-{step:010d}.pt"
    with replacing(path) as file:
        torch.save(state, file)
    sync_folder(folder)
    for old in list_checkpoints(folder)[keep:]:
        old.unlink()
    return path


def sync_folder(folder: Path) -> None:
    """The new name itself must reach the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The newest readable state, on the CPU; None without any checkpoint, CheckpointError when none can be read."""
    candidates = list_checkpoints(folder)
    for path in candidates:
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        # A damaged file may raise anything.
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            print(f"train-gan: {path} cannot be read: {reason[0]}; trying the one before", file=sys.stderr, flush=True)
    if candidates:
        raise CheckpointError(f"{folder}: no checkpoint of {len(candidates)} can be read; move them away to start anew")
    return None
