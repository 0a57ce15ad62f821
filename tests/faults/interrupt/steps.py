"""The steps that are interrupted: a command, the snapshot that it begins from, and where in it something happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIRROR = "http://repo.fleet.test"
# Wheels over the network: with a folder on the node nothing could be missing in the middle.
FROM_INDEX = {"framework_pytorch_wheelhouse": "", "framework_pytorch_index_url": f"{MIRROR}/py/simple/"}


@dataclass(frozen=True)
class Inside:
    """A point inside a task: a process of the host is there, or a file of the host has changed."""

    name: str
    process: str = ""
    changed: str = ""


@dataclass(frozen=True)
class Step:
    """One command. `after`: the step whose finished host it begins on, "" for a bare one.

    command   of the node itself, typed over ssh, in the place of a playbook
    """

    name: str
    after: str
    playbook: str = ""
    inside: tuple[Inside, ...] = ()
    tags: str = ""
    variables: dict[str, Any] = field(default_factory=dict)
    downloads: bool = False
    command: str = ""

    def words(self) -> list[str]:
        return [f"playbooks/{self.playbook}", "-l", "gpu_nodes", *(["--tags", self.tags] if self.tags else [])]


TRANSACTION = Inside("package transaction", changed="/var/lib/rpm/rpmdb.sqlite-wal")
BUILD = Inside("DKMS build", process=r"^(/bin/sh )?(/usr/bin/)?make |/dkms ")
DRACUT = Inside("initramfs", process=r"dracut")

STEPS = (
    Step(
        "kernel headers", "", "system.yml", (TRANSACTION,), tags="system_kernel", downloads=True
    ),
    Step(
        "driver", "kernel headers", "system.yml", (TRANSACTION, BUILD, DRACUT),
        tags="system_driver", downloads=True,
    ),
    Step("CUDA", "driver", "system.yml", (TRANSACTION,), tags="system_cuda", downloads=True),
    # Without tags, as most people start it: one transaction brings both.
    Step(
        "driver with CUDA", "kernel headers", "system.yml",
        (BUILD, DRACUT), downloads=True,
    ),
    Step(
        "launcher and training user", "CUDA", "system.yml", (TRANSACTION,),
        tags="system_runtime,system_training", downloads=True,
    ),
    Step("tuning", "launcher and training user", "system.yml", tags="system_tuning"),
    Step("monitoring", "tuning", "system.yml", tags="system_monitor"),
    Step(
        "environment", "monitoring", "framework.yml",
        (
            Inside("venv", process=r"-m venv|ensurepip"), Inside("pip install", process=r"pip\S* install .*lock"),
            Inside("compilation", process=r"-m compileall .*/venvs/"),
        ),
        variables=FROM_INDEX, downloads=True,
    ),
    Step(
        "trainer", "environment", "model.yml", (Inside("pip install", process=r"pip\S* install"),),
        variables=FROM_INDEX,
    ),
    Step(
        "verification", "trainer", "verify.yml",
        (Inside("smoke test", process=r"smoke"),),
    ),
    # Another stream of the driver's module, and back: what works is removed each time.
    Step(
        "older driver", "verification", "system.yml", (TRANSACTION, BUILD),
        tags="system_driver", downloads=True,
        variables={
            "system_driver_branch": "570", "system_driver_allow_stream_switch": True,
            "system_driver_allow_downgrade": True, "system_reboot_policy": "allowed",
        },
    ),
    Step(
        "newer driver", "older driver", "system.yml", (TRANSACTION, BUILD),
        tags="system_driver", downloads=True,
        variables={
            "system_driver_branch": "580", "system_driver_allow_stream_switch": True, "system_reboot_policy": "allowed",
        },
    ),
    Step(
        "another toolkit", "verification", "system.yml", (TRANSACTION,), tags="system_cuda",
        variables={"system_cuda_version": "12.8"}, downloads=True,
    ),
    Step(
        "tuning taken back", "verification", "system.yml", tags="system_tuning",
        variables={"system_tuning_state": "absent"},
    ),
    Step(
        "monitoring taken back", "verification", "system.yml", tags="system_monitor",
        variables={"system_monitor_state": "absent"},
    ),
    Step(
        "containers", "verification", "system.yml", (TRANSACTION,), tags="system_containers",
        variables={"system_containers_engine": "podman"}, downloads=True,
    ),
    Step(
        "containers taken back", "containers", "system.yml", (TRANSACTION,),
        tags="system_containers",
        variables={"system_containers_engine": "podman", "system_containers_state": "absent"},
    ),
    Step(
        "calibration", "verification", inside=(Inside("rounds", process=r"gpu-run --calibrate"),),
        command="sudo gpu-run --calibrate --user trainer --rounds 6 -- sh -c 'sleep 0.2'",
    ),
    Step(
        "training", "verification", inside=(Inside("checkpoints", changed="/srv/gan/runs/cut/stats.jsonl"),),
        command="sudo -u trainer gpu-run -- /opt/gpuwright/venvs/current/bin/train-gan --config /dev/null "
        "run_dir=/srv/gan/runs/cut device=cpu steps=300 checkpoint_every=20 image_size=32 batch_size=8 channels=4 "
        "synthetic_images=64 num_workers=0",
    ),
    # Another driver, from another address: the old repository has to stay until the new one has answered.
    Step(
        "another mirror", "driver", "system.yml", tags="system_driver",
        variables={
            "system_driver_repository_url": f"{MIRROR}/./cuda-rhel8-x86_64",
            "system_driver_branch": "570", "system_driver_allow_stream_switch": True,
            "system_driver_allow_downgrade": True, "system_reboot_policy": "allowed",
        },
        downloads=True,
    ),
)  # fmt: skip
BY_NAME = {step.name: step for step in STEPS}


def chain(step: Step) -> list[Step]:
    """The step and all that its host has gone through before, first of all the one on a bare host."""
    return [*(chain(BY_NAME[step.after]) if step.after else []), step]
