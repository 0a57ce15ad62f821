# SPDX-License-Identifier: Apache-2.0
"""Problems of variables whose values are structures: checks to skip, the trainer's configurations, and jobs.

It imports what the node itself reads them with, which is much: for runs in which one of them is set.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.checks.all import CHECKS
from ansible_collections.gpuwright.node.plugins.module_utils.checks.waivers.rules import problems_of_skips
from ansible_collections.gpuwright.node.plugins.module_utils.launch.job import read_job
from ansible_collections.gpuwright.node.plugins.module_utils.launch.runtime_policy import LaunchError
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.expectations import parse_mig

# The trainer's settings are known from its own files, without torch.
_TRAINER = str(Path(__file__).resolve().parents[3] / "trainer")
if _TRAINER not in sys.path:
    sys.path.append(_TRAINER)

SKIP_CHECKS = "verify_skip_checks"
EXPECTED_MIG = "verify_expected_mig"
TRAINER_CONFIGS = "model_trainer_configs"
JOBS = "model_trainer_jobs"
JOB_KEYS = ("command", "gpus", "processes", "torchrun", "share", "environment")
# Characters that a systemd instance and a file name accept unchanged.
INSTANCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def _problems_of_skips(value: Any) -> Iterator[str]:
    """Checks that cannot be switched off on the node either; there this is a warning, here it stops the run."""
    if not isinstance(value, Mapping):
        yield f'{SKIP_CHECKS}: must say for each check why, such as {{gpu.link_width: "riser with 8 lanes"}}'
        return
    ids = [check.id for check in CHECKS]
    for check_id, problem in sorted(problems_of_skips({"skip_checks": dict(value)}, CHECKS).items()):
        nearest = difflib.get_close_matches(check_id, ids, 1) if check_id not in ids else []
        yield f"{SKIP_CHECKS}: {check_id}: {problem}" + (f", did you mean {nearest[0]}?" if nearest else "")


def _problems_of_mig(value: Any) -> Iterator[str]:
    """What the node would refuse in its expectations, in its own words."""
    if not isinstance(value, Mapping):
        yield f"{EXPECTED_MIG}: must name the devices of each card, such as {{all: [3g.20gb, 3g.20gb]}}"
        return
    try:
        parse_mig({_plain(card): _plain_list(profiles) for card, profiles in value.items()})
    except ValueError as error:
        yield f"{EXPECTED_MIG}: {str(error).partition('expectations: ')[2]}"


def _problems_of_configs(value: Any) -> Iterator[str]:
    """What train-gan would refuse when the service starts, in its own words; it knows every key without torch."""
    if not isinstance(value, Mapping):
        yield f"{TRAINER_CONFIGS}: must be names with their settings, such as {{faces: {{image_size: 128}}}}"
        return
    trainer_config = importlib.import_module("gan_trainer.config")
    for name, settings in value.items():
        where = f"{TRAINER_CONFIGS}.{name}"
        if not isinstance(name, str) or not INSTANCE.fullmatch(name):
            yield f"{where}: must be a name of letters, digits, -, _ and ., for the service train-gan@NAME"
            continue
        if settings is not None and not isinstance(settings, Mapping):
            yield f"{where}: must be settings such as {{image_size: 128}}, or {{}} for none (given: {settings!r})"
            continue
        try:
            trainer_config.given_config({_plain(key): _plain(setting) for key, setting in (settings or {}).items()})
        except trainer_config.ConfigError as error:
            for line in str(error).splitlines():
                yield f"{where}: {line}"


def _problems_of_jobs(value: Any) -> Iterator[str]:
    """What gpu-job would refuse when the service starts, in its own words."""
    if not isinstance(value, Mapping):
        yield f"{JOBS}: must be names with their jobs, such as {{faces: {{command: python train.py}}}}"
        return
    for name, job in value.items():
        where = f"{JOBS}.{name}"
        if not isinstance(name, str) or not INSTANCE.fullmatch(name):
            yield f"{where}: must be a name of letters, digits, -, _ and ., for the service gpu-job@NAME"
            continue
        if not isinstance(job, Mapping) or not set(job) <= set(JOB_KEYS):
            yield f"{where}: must have lines for these alone: {', '.join(JOB_KEYS)}"
            continue
        values = job.get("environment", {})
        if not isinstance(values, Mapping) or not all(re.fullmatch(r"(?a)(?!\d)\w+", str(key)) for key in values):
            yield f"{where}.environment: must be names with their values, such as {{SEED: 1}}"
        if not isinstance(job.get("share", False), bool):
            yield f"{where}.share: must be true or false"
        texts = {f"GPU_JOB_{key.upper()}": str(job[key]) for key in JOB_KEYS[:4] if key in job}
        try:
            read_job(texts, [])
        except LaunchError as error:
            yield f"{where}: {error}"


def _plain_list(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Text as train-gan itself reads it; Ansible's own text classes fail a test for exactly str."""
    return str.__str__(value) if isinstance(value, str) else value


PROBLEMS: dict[str, Callable[[Any], Iterator[str]]] = {
    SKIP_CHECKS: _problems_of_skips,
    EXPECTED_MIG: _problems_of_mig,
    TRAINER_CONFIGS: _problems_of_configs,
    JOBS: _problems_of_jobs,
}
