"""A host on which somebody works: nothing ends or disturbs a real job, and every layer says who it was left for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import HOST, PLAY_SECONDS, REPOSITORY, on_host, play

pytestmark = pytest.mark.usefixtures("finished_host")
VENVS = "/opt/gpuwright/venvs"
UNIT = "busy-training.service"
# A training as people start it: torch is mapped, other modules are imported much later, and a card is held open.
JOB = """
import os, sys, time, torch
card = open("/dev/nvidia0")
open("/srv/gan/runs/busy.up", "w").write(torch.__file__)
while not os.path.exists("/srv/gan/runs/busy.go"):
    time.sleep(0.2)
import gan_trainer.performance, numpy.polynomial, torch.distributed, tqdm.auto
modules = (gan_trainer.performance, numpy.polynomial, torch.distributed, tqdm.auto)
found = [os.path.realpath(module.__file__) for module in modules]
open("/srv/gan/runs/busy.done", "w").write(" ".join(found))
while True:
    time.sleep(1)
"""
STAMP = f"{VENVS}/current/gan_trainer.digest"
PACKAGE = f"{VENVS}/current/lib/python3*/site-packages/gan_trainer/__init__.py"
LOCK = REPOSITORY / "roles/framework_pytorch/files/locks/py3.11-torch2.13.0-cpu.txt"
SHORT: dict[str, Any] = {"gpuwright_busy": "wait", "gpuwright_busy_wait_seconds": 10}


class Job:
    """The real job on the host; `environment` is the folder that it began with."""

    def __init__(self, python: str) -> None:
        on_host("rm -f /srv/gan/runs/busy.*; cat > /srv/gan/runs/busy.py <<'END'\n" + JOB + "\nEND")
        # The containers' control group opens no device to anybody, so the card is a file of that name in its own view.
        card = "touch /srv/gan/runs/busy.card; chmod 666 /srv/gan/runs/busy.card; systemd-run --quiet --collect"
        on_host(
            f"{card} --property=BindPaths=/srv/gan/runs/busy.card:/dev/nvidia0 --unit={UNIT} --uid=trainer"
            f" {python} /srv/gan/runs/busy.py"
        )
        for _ in range(120):
            if on_host("cat /srv/gan/runs/busy.up", check=False):
                break
            time.sleep(1)
        self.environment = on_host("readlink -f $(cat /srv/gan/runs/busy.up)").split("/lib/")[0]
        self.pid = on_host(f"systemctl show --property=MainPID --value {UNIT}")

    def lives(self) -> bool:
        return on_host(f"systemctl show --property=MainPID --value {UNIT}") == self.pid != "0"

    def imports_its_own(self) -> bool:
        """Lets it import what it has not imported yet; whether all of that came from its own environment."""
        on_host("touch /srv/gan/runs/busy.go")
        for _ in range(60):
            found = on_host("cat /srv/gan/runs/busy.done", check=False).split()
            if found:
                return all(path.startswith(self.environment + "/") for path in found) and self.lives()
            time.sleep(1)
        return False

    def end(self) -> None:
        on_host(f"systemctl stop {UNIT}; rm -f /srv/gan/runs/busy.*", check=False)


def ends_once_a_run_waits(job: Job) -> None:
    """However long a run takes until it looks: the job ends when it has said that it waits for it."""
    log = REPOSITORY / ".fleet/faults/ansible.log"
    begin, deadline = log.stat().st_size, time.monotonic() + PLAY_SECONDS
    while time.monotonic() < deadline and b"in use by " not in log.read_bytes()[begin:]:
        time.sleep(1)
    job.end()


@pytest.fixture
def job() -> Iterator[Callable[..., Job]]:
    begun: list[Job] = []

    def begin(python: str = f"{VENVS}/current/bin/python") -> Job:
        begun.append(Job(python))
        return begun[-1]

    yield begin
    for one in begun:
        one.end()


def of_the_package() -> str:
    """What tells whether the trainer's files were replaced."""
    return on_host(f"stat -c '%i %Y' {PACKAGE}; sha256sum < {STAMP}")


def test_an_unchanged_run_neither_waits_nor_leaves_it_out(job: Callable[..., Job]) -> None:
    working = job()
    begun = time.monotonic()
    done = play("site.yml", gpuwright_busy="wait", gpuwright_busy_wait_seconds=3000)
    assert (done.rc, done.changed) == (0, 0), done.output
    assert "is in use" not in done.text and time.monotonic() - begun < 600
    assert working.lives()


def test_another_trainer_waits_for_the_job(job: Callable[..., Job]) -> None:
    working = job()
    on_host(f"echo another >> {STAMP}")
    before = of_the_package()
    left = play("playbooks/model.yml")
    assert left.rc != 0 and f"{HOST} is in use, so this run did not install another version of the trainer" in left.text
    assert f"{UNIT} (python" in left.text and f"pid {working.pid}, trainer, since 20" in left.text
    waited = play("playbooks/model.yml", **SHORT)
    assert waited.rc != 0 and "(still after 10 s)" in waited.text
    forced = play("playbooks/model.yml", gpuwright_busy="force")
    assert forced.rc == 0 and "did not install another version" in forced.text, forced.output
    assert of_the_package() == before and working.imports_its_own()
    # It ends while a run waits for it, and that run goes on.
    ending = threading.Thread(target=ends_once_a_run_waits, args=(working,))
    ending.start()
    done = play("playbooks/model.yml", gpuwright_busy="wait", gpuwright_busy_wait_seconds=600)
    ending.join()
    assert done.rc == 0 and done.changed > 0 and "in use by " in done.text, done.output
    assert of_the_package() != before
    assert play("playbooks/model.yml").changed == 0


def test_another_environment_is_built_beside_and_switched_when_nobody_works(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    # The same packages: an environment without torch is refused before anybody could switch to it.
    lock = tmp_path / "another.txt"
    lock.write_text(LOCK.read_text() + "# another plan\n")
    wish: dict[str, Any] = {"framework_pytorch_lock_file": str(lock), "framework_pytorch_keep": 0}
    working = job()
    first = working.environment
    left = play("playbooks/framework.yml", **wish)
    assert left.rc != 0 and f"{HOST} is in use, so this run did not switch to the environment" in left.text, left.output
    # `current` is a link to the one that the job has.
    there = on_host(f"ls -d {VENVS}/*/gpuwright.json").split()
    built = [path for path in there if first not in path and "/current/" not in path]
    assert len(built) == 1 and on_host(f"readlink -f {VENVS}/current") == first
    # Called by the link, it would import the other environment's modules: not with force either.
    forced = play("playbooks/framework.yml", **wish, gpuwright_busy="force")
    assert forced.rc == 0 and "did not switch" in forced.text, forced.output
    assert on_host(f"readlink -f {VENVS}/current") == first and working.imports_its_own()
    working.end()
    # Called by its environment's own path, as the service is, it keeps its files when told to switch.
    working = job(f"{first}/bin/python")
    told = play("playbooks/framework.yml", **wish, gpuwright_busy="force")
    assert told.rc == 0 and on_host(f"readlink -f {VENVS}/current") == str(Path(built[0]).parent), told.output
    assert f"{first} stays until a later run: {UNIT}" in told.text and working.imports_its_own()
    working.end()
    back = play("playbooks/framework.yml", framework_pytorch_keep=0)
    assert back.rc == 0 and on_host(f"readlink -f {VENVS}/current") == first, back.output
    assert sorted(on_host(f"ls {VENVS}").split()) == sorted(["current", Path(first).name])
    assert play("playbooks/framework.yml", framework_pytorch_keep=0).changed == 0


def test_a_new_driver_and_a_reboot_wait_for_the_job(job: Callable[..., Job]) -> None:
    working = job()
    wish: dict[str, Any] = {
        "system_driver_branch": "570",
        "system_driver_allow_stream_switch": True,
        "system_reboot_policy": "allowed",
    }
    packages, boot = on_host("rpm -qa | sort"), on_host("cat /proc/sys/kernel/random/boot_id")
    left = play("playbooks/system.yml", "--tags", "system_driver", **wish)
    assert left.rc != 0 and f"pid {working.pid}, trainer, since 20" in left.text, left.output
    waited = play("playbooks/system.yml", "--tags", "system_driver", **wish, **SHORT)
    assert waited.rc != 0, waited.output
    assert f"{HOST} is in use, so this run did not replace the driver (still after 10 s)" in waited.text
    forced = play("playbooks/system.yml", "--tags", "system_driver", **wish, gpuwright_busy="force")
    assert forced.rc == 0 and "did not replace the driver" in forced.text, forced.output
    assert on_host("rpm -qa | sort") == packages and on_host("cat /proc/sys/kernel/random/boot_id") == boot
    assert working.imports_its_own()


def test_settings_do_not_change_under_the_job(job: Callable[..., Job]) -> None:
    limits = "/etc/security/limits.d/95-gpuwright.conf"
    working = job()
    # A file for the next login disturbs nobody.
    on_host(f"echo '# changed' >> {limits}")
    done = play("playbooks/system.yml", "--tags", "system_tuning")
    assert done.rc == 0 and done.changed == 1, done.output
    on_host("systemctl stop irqbalance.service")
    if on_host("systemctl is-active irqbalance.service", check=False) == "inactive":
        left = play("playbooks/system.yml", "--tags", "system_tuning", system_tuning_values={}, system_tuning_leave=[])
        assert working.lives(), left.output


def test_the_cards_are_not_tried_while_somebody_uses_them(job: Callable[..., Job]) -> None:
    working = job()
    done = play("playbooks/verify.yml", verify_smoke_device="cuda")
    assert "the smoke test was not run, since the GPUs were in use" in on_host("cat /var/lib/gpuwright/report.json")
    assert "FAIL smoke" not in done.text and "UNKNOWN smoke" not in done.text, done.output
    assert working.lives()
    working.end()
    assert play("playbooks/verify.yml").rc == 0
