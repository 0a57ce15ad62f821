"""gpu-job: which GPUs a service gets, what is executed for them, and that nobody else gets them meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MODULE_UTILS, REPOSITORY
from gpu_run_machines import a5, dgx1
from gpuwright.launch import job as jobs
from gpuwright.launch.runtime_policy import LaunchError

UUID = "GPU-00000000-0000-0000-0000-00000000000"
TRAIN = ["train.py", "--data", "a b"]
# The program, with another folder for "/", and a gpu-run that prints what it was given and then waits.
PROGRAM = """
import sys
sys.path.insert(0, {library!r})
from gpuwright.launch import job
job.GPU_RUN = {gpu_run!r}
sys.exit(job.main(sys.argv[1:], root={root!r}))
"""


@pytest.fixture
def dgx(tmp_path: Path) -> Path:
    return dgx1(tmp_path / "root")


def line(root: Path, **variables: str) -> list[str]:
    """What is executed for TRAIN with these variables."""
    job = jobs.read_job({f"GPU_JOB_{name}": value for name, value in variables.items()}, TRAIN)
    return jobs.command_line(job, jobs.chosen_gpus(job, str(root)))


def test_one_gpu_is_one_process_below_gpu_run(tmp_path: Path) -> None:
    assert line(a5(tmp_path)) == [jobs.GPU_RUN, "--", *TRAIN]


def test_several_gpus_are_a_process_each_below_torchrun(dgx: Path) -> None:
    ranks = ["--no-python", jobs.GPU_RUN, "--", *TRAIN]
    assert line(dgx) == [jobs.GPU_RUN, "--", "torchrun", "--standalone", "--nproc-per-node=8", *ranks]
    first = [jobs.GPU_RUN, "--gpus", "2,3", "--", "torchrun", "--standalone", "--nproc-per-node=2"]
    assert line(dgx, GPUS="2, 3") == [*first, *ranks]


def test_one_process_may_have_several_gpus(dgx: Path) -> None:
    assert line(dgx, PROCESSES="one", GPUS="0,1") == [jobs.GPU_RUN, "--gpus", "0,1", "--", *TRAIN]


def test_several_hosts_need_torchrun_for_one_gpu_too(dgx: Path) -> None:
    found = line(dgx, GPUS="0", TORCHRUN="--nnodes=2 --rdzv-endpoint=a5-01:29500 --rdzv-id='two words'")
    options = ["--nnodes=2", "--rdzv-endpoint=a5-01:29500", "--rdzv-id=two words"]
    assert found[3:8] == ["--", "torchrun", *options]
    assert "--standalone" not in found and "--nproc-per-node=1" in found


def test_without_a_gpu_it_is_one_process(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert line(tmp_path) == line(tmp_path, GPUS="none") == [jobs.GPU_RUN, "--", *TRAIN]


@pytest.mark.parametrize("hidden", ["", " ", "-1", "-1,0"])
def test_who_hides_every_gpu_from_cuda_gets_none(dgx: Path, hidden: str) -> None:
    job = jobs.read_job({"CUDA_VISIBLE_DEVICES": hidden}, TRAIN)
    assert jobs.chosen_gpus(job, str(dgx)) == []
    assert jobs.command_line(job, []) == [jobs.GPU_RUN, "--", *TRAIN]


def test_what_the_environment_already_chose_counts(dgx: Path) -> None:
    job = jobs.read_job({"CUDA_VISIBLE_DEVICES": "5"}, TRAIN)
    assert [gpu.index for gpu in jobs.chosen_gpus(job, str(dgx))] == [5]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"GPUS": "8"}, "GPU_JOB_GPUS=8: there is no GPU 8; this host shows GPUs 0 to 7"),
        ({"GPUS": "0,0"}, "a GPU is named twice"),
        ({"GPUS": "first"}, "expected GPU numbers such as 0 or 0,1, or UUIDs"),
        ({"GPUS": UUID}, "names none of this host's GPUs"),
        ({"PROCESSES": "two"}, "GPU_JOB_PROCESSES=two: choose from each-gpu, one"),
        ({"SHARE": "maybe"}, "GPU_JOB_SHARE=maybe: choose from no, yes"),
        ({"TORCHRUN": "--rdzv-id='x"}, "No closing quotation; quote it as for a shell"),
    ],
)
def test_what_cannot_be_understood_is_one_sentence(dgx: Path, variables: dict, words: str) -> None:
    with pytest.raises(LaunchError) as refused:
        line(dgx, **variables)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_a_service_without_a_command_is_told_where_it_belongs() -> None:
    with pytest.raises(LaunchError, match="GPU_JOB_COMMAND, in /etc/gpuwright/jobs/NAME.env"):
        jobs.read_job({}, [])


class Service:
    """gpu-job as a process of its own."""

    def __init__(self, folder: Path, python: str, **variables: str) -> None:
        code = PROGRAM.format(library=str(MODULE_UTILS), gpu_run=str(folder / "gpu-run"), root=str(folder / "root"))
        environment = {"PATH": os.environ["PATH"]} | {f"GPU_JOB_{key}": value for key, value in variables.items()}
        words = [python, "-B", "-I", "-c", code, "--", "train"]
        self.process = subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def started(self) -> bool:
        """Whether it has become the job; else it has ended."""
        assert self.process.stdout is not None
        return bool(self.process.stdout.readline())

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors


@pytest.fixture
def service(dgx: Path, tmp_path: Path, node_python: str) -> Iterator[object]:
    (dgx / "run/gpuwright-jobs").mkdir(parents=True)
    fake = tmp_path / "gpu-run"
    fake.write_text('#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES" "$@"\nexec sleep 60\n')
    fake.chmod(0o755)
    running: list[Service] = []

    def start(**variables: str) -> Service:
        running.append(Service(tmp_path, node_python, **variables))
        return running[-1]

    yield start
    for one in running:
        one.process.kill()
        one.process.communicate()


def test_two_services_never_share_a_gpu_unasked(service) -> None:
    first = service(NAME="gpu-job@faces", GPUS="0,1")
    assert first.started()
    second = service(NAME="gpu-job@trees", GPUS="1,2")
    assert not second.started()
    code, errors = second.end()
    assert code == jobs.EXIT_IN_USE
    assert "0000:07:00.0 is in use by gpu-job@faces" in errors and errors.count("\n") == 1
    assert service(NAME="gpu-job@birds", GPUS="2,3").started()
    # All GPUs are more than what is left.
    assert not service(NAME="train-gan@all").started()


def test_what_one_had_is_free_when_it_has_ended_however(service) -> None:
    first = service(NAME="a", GPUS="0")
    assert first.started()
    first.process.kill()
    first.process.wait(30)
    deadline = time.monotonic() + 10
    while not (again := service(NAME="b", GPUS="0").started()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert again


def test_those_that_say_so_share_among_themselves_alone(service) -> None:
    assert service(NAME="a", GPUS="0", SHARE="yes").started()
    assert service(NAME="b", GPUS="0", SHARE="yes").started()
    alone = service(NAME="c", GPUS="0")
    assert not alone.started() and "is in use by" in alone.end()[1]


def test_slices_of_one_gpu_are_taken_each_by_itself(dgx: Path) -> None:
    (dgx / "run/gpuwright-jobs").mkdir(parents=True)
    gpus = jobs.chosen_gpus(jobs.read_job({"GPU_JOB_GPUS": "0"}, TRAIN), str(dgx))
    card = gpus[0].uuid
    assert card
    one, other = (
        jobs.read_job({"GPU_JOB_GPUS": f"MIG-{card}/{instance}/0", "GPU_JOB_NAME": f"job-{instance}"}, TRAIN)
        for instance in (1, 2)
    )
    assert jobs.chosen_gpus(one, str(dgx)) == gpus
    assert jobs.take(one, gpus, str(dgx)) is None and jobs.take(other, gpus, str(dgx)) is None
    assert jobs.take(one, gpus, str(dgx)) == jobs.Taken(f"MIG-{card}/1/0", "job-1")
    whole = jobs.read_job({"GPU_JOB_GPUS": "0"}, TRAIN)
    taken = jobs.take(whole, gpus, str(dgx))
    assert taken is not None and taken.device == gpus[0].pci_id


def test_none_hides_every_gpu(service) -> None:
    started = service(NAME="cpu", GPUS="none")
    assert started.process.stdout.readline() == " -- train\n"


def test_explain_prints_the_line_and_takes_nothing(dgx: Path, capsys: pytest.CaptureFixture) -> None:
    assert jobs.main(["--explain", "--", *TRAIN], {"GPU_JOB_GPUS": "0"}, str(dgx)) == 0
    assert capsys.readouterr().out == "/usr/local/bin/gpu-run --gpus 0 -- train.py --data 'a b'\n"


CHECK = """sh -c 'echo "$GPU_JOB_RANKS ranks"; exit {code}'"""


def test_a_check_that_fails_is_the_end_of_the_job(service) -> None:
    """torchrun would end with 1, and systemd would try again for ever."""
    refused = service(NAME="a", GPUS="0,1", CHECK=CHECK.format(code=2))
    assert refused.process.stdout.read() == "2 ranks\n"
    code, errors = refused.end()
    assert code == 2 and "the check ended with 2, nothing is started" in errors
    # Nothing was taken for it.
    assert service(NAME="b", GPUS="0,1").started()


def test_a_check_that_is_content_lets_the_job_start(service) -> None:
    started = service(NAME="a", GPUS="0,1", CHECK=CHECK.format(code=0))
    assert [started.process.stdout.readline() for _ in range(2)][0] == "2 ranks\n"
    assert started.process.poll() is None


def test_one_process_tells_its_own_end_and_is_not_checked(service) -> None:
    assert service(NAME="a", GPUS="0", CHECK=CHECK.format(code=2)).started()


def test_a_check_that_is_not_there_is_a_refusal(dgx: Path, capsys: pytest.CaptureFixture) -> None:
    assert jobs.main(["--", "train"], {"GPU_JOB_CHECK": "/no/such/check"}, str(dgx)) == jobs.EXIT_REFUSED
    assert "GPU_JOB_CHECK=/no/such/check cannot be run: No such file" in capsys.readouterr().err


def test_without_the_folder_of_the_locks_nothing_starts(dgx: Path, capsys: pytest.CaptureFixture) -> None:
    assert jobs.main(["--", "train"], {}, str(dgx)) == jobs.EXIT_REFUSED
    assert "/run/gpuwright-jobs/" in capsys.readouterr().err


def test_what_is_no_option_is_refused(capsys: pytest.CaptureFixture) -> None:
    assert jobs.main(["--gpus", "0"]) == jobs.EXIT_REFUSED
    assert "--help" in capsys.readouterr().err
    assert jobs.main(["--help"]) == 0 and "GPU_JOB_SHARE" in capsys.readouterr().out


def test_the_script_starts_the_program(node_python: str, tmp_path: Path) -> None:
    text = (REPOSITORY / "roles/system_runtime/files/gpu-job").read_text()
    text = text.replace("/usr/local/lib/gpuwright", str(MODULE_UTILS)).replace(
        "/usr/libexec/platform-python", node_python
    )
    script = tmp_path / "gpu-job"
    script.write_text(text)
    done = subprocess.run(["sh", script, "--help"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, jobs.USAGE, "")


def test_torchrun_is_told_to_wait_as_long_as_the_service_and_to_pass_on_what_slurm_sends(service) -> None:
    """torchrun kills after 30 s of its own what may still save, and dies of SIGUSR1 before its processes hear of it."""
    unit = (MODULE_UTILS.parents[1] / "roles/model_trainer/templates/gpu-job@.service.j2").read_text()
    limit = int(unit.partition("\nTimeoutStopSec=")[2].split()[0])
    assert limit - 20 <= int(jobs.OF_TORCHRUN["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) < limit
    several = service(NAME="a", GPUS="0,1")
    assert several.started()
    environment = Path(f"/proc/{several.process.pid}/environ").read_text().split("\0")
    assert {f"{name}={value}" for name, value in jobs.OF_TORCHRUN.items()} <= set(environment)
    assert "SIGUSR1" in jobs.OF_TORCHRUN["PET_SIGNALS_TO_HANDLE"].split(",")
    one = service(NAME="b", GPUS="2")
    assert one.started() and "PET_SIGNALS" not in Path(f"/proc/{one.process.pid}/environ").read_text()
