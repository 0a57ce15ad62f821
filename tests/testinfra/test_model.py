"""Model layer: user, trainer, service, and that it really trains."""

from __future__ import annotations

import json
import time

import pytest
from testinfra.host import Host

TRAIN_GAN = "/opt/gpuwright/venvs/current/bin/train-gan"


def test_trainer_user_has_no_password_no_shell_no_sudo(host: Host, trainer: str) -> None:
    user = host.user(trainer)
    assert user.shell in ("/sbin/nologin", "/usr/sbin/nologin")
    with host.sudo():
        assert host.check_output("getent shadow %s", trainer).split(":")[1].startswith(("!", "*"))
        assert "not allowed" in host.run("sudo -n -l -U %s", trainer).stdout


def test_dry_run_prints_the_resolved_configuration(as_trainer, wish: dict) -> None:
    name = next(iter(wish.get("model_trainer_configs", {"default": {}})))
    done = as_trainer(f"cd / && {TRAIN_GAN} --config /etc/gpuwright/train-gan/{name}.yml --dry-run")
    assert done.rc == 0, done.stderr
    assert f"{wish.get('model_trainer_runs_dir', '/srv/gan/runs')}/{name}" in done.stdout


def test_folders_belong_to_the_trainer(host: Host, trainer: str, wish: dict) -> None:
    for folder in (
        wish.get("model_trainer_data_dir", "/srv/gan/data"),
        wish.get("model_trainer_runs_dir", "/srv/gan/runs"),
    ):
        file = host.file(folder)
        assert (file.user, file.group) == (trainer, wish.get("model_trainer_group", "trainer"))
        assert file.mode == 0o2770


@pytest.mark.el8
def test_the_service_trains_and_leaves_a_checkpoint(host: Host) -> None:
    """The unit itself, in its sandbox, with a configuration small enough for a CPU."""
    small = {"image_size": 32, "channels": 8, "batch_size": 4, "steps": 2, "device": "cpu"}
    # JSON is YAML, and one line is easily handed to a shell.
    configuration = json.dumps({"run_dir": "/srv/gan/runs/rehearsal", **small})
    with host.sudo():
        host.check_output("echo %s > /etc/gpuwright/train-gan/rehearsal.yml", configuration)
        try:
            host.check_output("systemctl start train-gan@rehearsal")
            for _ in range(90):
                state = host.run("systemctl is-active train-gan@rehearsal").stdout.strip()
                if state in ("inactive", "failed"):
                    break
                time.sleep(1)
            journal = host.run("journalctl -u train-gan@rehearsal --no-pager -n 30").stdout
            assert state == "inactive", journal
            assert host.check_output("ls /srv/gan/runs/rehearsal/stats.jsonl")
            assert host.check_output("find /srv/gan/runs/rehearsal -name '*.pt'")
        finally:
            host.run("systemctl stop train-gan@rehearsal")
            host.run("rm -rf /srv/gan/runs/rehearsal /etc/gpuwright/train-gan/rehearsal.yml")


def test_the_service_is_sandboxed(host: Host) -> None:
    unit = host.file("/etc/systemd/system/train-gan@.service").content_string
    assert "ProtectSystem=strict" in unit
    assert "NoNewPrivileges" not in [line.split("=")[0] for line in unit.splitlines()]
