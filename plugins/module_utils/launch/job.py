# SPDX-License-Identifier: Apache-2.0
"""gpu-job, which the services gpu-job@NAME and train-gan@NAME run: a command, one process for each of its GPUs.

It locks the GPUs that the service names, so that no two services share one by accident, and becomes gpu-run, or
torchrun with a gpu-run for each process. The kernel releases the locks when the last of these processes has ended.
"""

import fcntl
import os
import shlex
import sys
from typing import List, Mapping, NamedTuple, Optional, Tuple

from ..host.files import below
from ..host.topology import Gpu, find_all_gpus, reachable_gpus
from .gpu_choice import demanded_gpus
from .launcher import EXIT_REFUSED, start
from .runtime_policy import LaunchError

# sysexits.h EX_TEMPFAIL: a GPU is in use now, and systemd tries the service again.
EXIT_IN_USE = 75
GPU_RUN = "/usr/local/bin/gpu-run"
# The services create it, with RuntimeDirectory=.
LOCKS = "/run/gpuwright-jobs"
ONE_HOST = "--standalone"
# What torchrun does with a request to end, where its release knows these settings: it passes SIGUSR1 on, too, by which
# Slurm announces the end of a job, and waits a little less than the services do (TimeoutStopSec=120) before it kills
# its processes, whose checkpoint may take longer than its own 30 s. Options in GPU_JOB_TORCHRUN count more.
# Sources: torch/distributed/run.py (PET_ names the options), torch/distributed/launcher/api.py.
OF_TORCHRUN = {
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "110",
    "PET_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1",
}
EACH_GPU, SINGLE = "each-gpu", "one"
ALL, NONE = "all", "none"
YES, NO = "yes", "no"
PREFIX = "GPU_JOB_"
RANKS = PREFIX + "RANKS"
USAGE = f"""usage: gpu-job [--explain] [-- command [argument ...]]

Run a command as the service of this name does; docs/jobs.md says how. It is set by variables of the environment:
  GPU_JOB_COMMAND    the command, where none is given; quoted as for a shell, but no shell reads it
  GPU_JOB_GPUS       all (default), none, or numbers in PCI order and UUIDs: 0,1
  GPU_JOB_PROCESSES  each-gpu (default: by torchrun, where there are several) or one
  GPU_JOB_SHARE      no (default) or yes: other services that say yes may have the same GPUs
  GPU_JOB_TORCHRUN   options of torchrun (default: {ONE_HOST})
  GPU_JOB_CHECK      a command that runs before torchrun (which ends with 1, whatever its processes end with):
                     unless this command ends with 0, the job is not started and ends with its status
  GPU_JOB_NAME       the name shown to others who find a GPU in use
"""


class Job(NamedTuple):
    """What to run. `gpus` is "all", "none" or a value for gpu-run --gpus; `torchrun` are its options."""

    name: str
    command: List[str]
    gpus: str
    processes: str
    share: bool
    torchrun: List[str]
    check: List[str]


class Taken(NamedTuple):
    """A GPU, or a slice of one, that somebody else has locked: its name, and who has it."""

    device: str
    holder: str


def read_job(environ: Mapping[str, str], command: List[str]) -> Job:
    """The job that the environment describes; LaunchError, one sentence, if it cannot be understood."""
    words = command or _words(environ, "COMMAND")
    if not words:
        raise LaunchError(f"no command: set {PREFIX}COMMAND, in /etc/gpuwright/jobs/NAME.env for gpu-job@NAME")
    return Job(
        name=environ.get(PREFIX + "NAME", "") or "gpu-job",
        command=words,
        gpus=environ.get(PREFIX + "GPUS", "").replace(" ", "") or _visible(environ),
        processes=_one_of(environ, "PROCESSES", (EACH_GPU, SINGLE)),
        share=_one_of(environ, "SHARE", (NO, YES)) == YES,
        torchrun=_words(environ, "TORCHRUN") or [ONE_HOST],
        check=_words(environ, "CHECK"),
    )


def _visible(environ: Mapping[str, str]) -> str:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves visible; if it is empty or begins with -1, it hides every GPU."""
    if "CUDA_VISIBLE_DEVICES" not in environ:
        return ALL
    value = environ["CUDA_VISIBLE_DEVICES"].replace(" ", "")
    return NONE if value.partition(",")[0] in ("", "-1") else value


def _words(environ: Mapping[str, str], name: str) -> List[str]:
    text = environ.get(PREFIX + name, "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise LaunchError(f"{PREFIX}{name}={text}: {error}; quote it as for a shell") from None


def _one_of(environ: Mapping[str, str], name: str, choices: Tuple[str, ...]) -> str:
    """A setting with one of `choices`, the first of which is the default."""
    value = environ.get(PREFIX + name, "") or choices[0]
    if value not in choices:
        raise LaunchError(f"{PREFIX}{name}={value}: choose from {', '.join(choices)}")
    return value


def chosen_gpus(job: Job, root: str = "/") -> List[Gpu]:
    """The GPUs of the job, in the job's order; LaunchError if one does not exist."""
    there = reachable_gpus(find_all_gpus(root), root)
    if job.gpus == NONE:
        return []
    if job.gpus == ALL:
        return there
    try:
        return demanded_gpus(job.gpus, there, there)
    except LaunchError as error:
        raise LaunchError(str(error).replace("--gpus ", PREFIX + "GPUS=", 1)) from None


def command_line(job: Job, gpus: List[Gpu]) -> List[str]:
    """The command line: gpu-run and the command, or torchrun with a gpu-run for each process.

    If options for torchrun are set, there are ranks on several hosts, so torchrun is then used even for one GPU.
    """
    launcher = [GPU_RUN]
    if job.gpus != ALL and gpus:
        launcher += ["--gpus", job.gpus]
    if not _below_torchrun(job, gpus):
        return [*launcher, "--", *job.command]
    ranks = ["torchrun", *job.torchrun, f"--nproc-per-node={len(gpus)}", "--no-python", GPU_RUN, "--"]
    return [*launcher, "--", *ranks, *job.command]


def _below_torchrun(job: Job, gpus: List[Gpu]) -> bool:
    several = len(gpus) > 1 or (gpus and job.torchrun != [ONE_HOST])
    return bool(several) and job.processes != SINGLE


def checked(job: Job, gpus: List[Gpu], environ: Mapping[str, str]) -> int:
    """Exit status of the job's check, which is given the number of processes; 0 without a check or without torchrun."""
    if not job.check or not _below_torchrun(job, gpus):
        return 0
    # Imported here: most starts do not need it.
    import subprocess

    try:
        code = subprocess.call(job.check, env={**environ, RANKS: str(len(gpus))})
    except OSError as error:
        raise LaunchError(f"{PREFIX}CHECK={job.check[0]} cannot be run: {error.strerror}") from None
    return code if code >= 0 else 128 - code


def take(job: Job, gpus: List[Gpu], root: str = "/") -> Optional[Taken]:
    """Lock every GPU for as long as this process, and what it becomes, lives; returns the first that somebody else has.

    Each slice of a GPU is locked separately, and the GPU itself is shared by those who lock its slices. Raises
    LaunchError if there is no folder for the locks.
    """
    for device, alone in _devices(job, gpus):
        path = os.path.join(below(root, LOCKS), device.replace("/", "_"))
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o660)
        except OSError as error:
            raise LaunchError(f"{path} cannot be opened ({error.strerror}): the GPUs cannot be taken") from None
        try:
            fcntl.flock(handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return Taken(device, os.read(handle, 200).decode("utf-8", "replace").strip() or "another service")
        os.ftruncate(handle, 0)
        os.pwrite(handle, job.name.encode("utf-8", "replace"), 0)
        # Inherited through exec by the command itself or torchrun: it lives as long as the job.
        os.set_inheritable(handle, True)
    return None


def _devices(job: Job, gpus: List[Gpu]) -> List[Tuple[str, bool]]:
    """(name of the lock, whether it is exclusive), in an order that is the same for all."""
    words = job.gpus.split(",") if "MIG-" in job.gpus else []
    found = {gpu.pci_id: not job.share for gpu in gpus}
    for place, word in enumerate(words):
        if word.startswith("MIG-"):
            found[gpus[place].pci_id] = False
            found[word] = not job.share
    return sorted(found.items())


def main(arguments: List[str], environ: Mapping[str, str] = os.environ, root: str = "/", ignored: int = 0) -> int:
    """The program: returns an exit code, or does not return because it has become the job."""
    explain = arguments[:1] == ["--explain"]
    rest = arguments[1:] if explain else arguments
    if rest[:1] in (["--help"], ["-h"]):
        sys.stdout.write(USAGE)
        return 0
    if rest and rest[0] != "--":
        return _refuse(f"{rest[0]!r} is not an option; the command goes after --, see gpu-job --help")
    try:
        job = read_job(environ, rest[1:])
        gpus = chosen_gpus(job, root)
        line = command_line(job, gpus)
        if explain:
            print(" ".join(map(shlex.quote, line)))
            return 0
        code = checked(job, gpus, environ)
        if code:
            _say(f"the check ended with {code}, nothing is started: {' '.join(map(shlex.quote, job.check))}")
            return code
        taken = take(job, gpus, root)
    except LaunchError as error:
        return _refuse(str(error))
    if taken:
        _say(f"{taken.device} is in use by {taken.holder}; GPU_JOB_GPUS chooses others, GPU_JOB_SHARE=yes shares")
        return EXIT_IN_USE
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if job.gpus == NONE else {}
    patience = OF_TORCHRUN if _below_torchrun(job, gpus) else {}
    return start(line, {**patience, **environ, **hidden}, root, ignored)


def _say(message: str) -> None:
    sys.stderr.write(f"gpu-job: {' '.join(message.splitlines())}\n")
    # exec would drop what is still in the buffer.
    sys.stderr.flush()


def _refuse(message: str) -> int:
    _say(message)
    return EXIT_REFUSED
