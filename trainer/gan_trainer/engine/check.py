# SPDX-License-Identifier: Apache-2.0
"""--check: whether a training could start, without one: configuration, data, task, networks and run folder."""

from __future__ import annotations

from pathlib import Path

import torch

from ..config import Config, ConfigError, impossible_on_gpus
from ..data import census
from ..precision import choose_precision
from ..runs.drift import as_begun, check_drift
from ..runs.folder import try_folder
from ..tasks import make_task
from ..tasks.task import build_checked
from .train import check_parts, choose_device, newest_state


def check(config: Config, resume: str, processes: int) -> list[str]:
    """What the data contain, one line each; raises the UserError that training in `processes` here would."""
    device = choose_device(config.device)
    on_gpu = device.type == "cuda"
    faults = impossible_on_gpus(config, processes) if on_gpu else []
    if faults:
        raise ConfigError("\n".join(faults))
    choose_precision(config.precision, torch.cuda.get_device_capability(device) if on_gpu else None)
    lines, content = census.take(config)
    if not config.auto_batch:
        check_parts(config, processes)
    elif not on_gpu:
        raise ConfigError("auto_batch: true needs a GPU, and there is none; allowed here: false")
    build_checked(make_task(config))
    try_folder(Path(config.run_dir))
    state, _passed_over = newest_state(Path(config.run_dir), resume)
    if state:
        config = as_begun(state["config"], config)
        check_drift(state["config"], config, resume == "changed", state.get("census"), content)
    return lines
