"""Framework layer: the Python environment."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

VENV = "/opt/gpuwright/venvs/current"


def test_python3_of_the_system_is_untouched(host: Host) -> None:
    owner = host.run("rpm -qf /usr/bin/python3").stdout
    assert "python3.11" not in owner


def test_current_is_a_complete_environment(host: Host, wish: dict) -> None:
    target = host.file(VENV).linked_to
    assert target.startswith("/opt/gpuwright/venvs/")
    stamp = json.loads(host.file(f"{target}/gpuwright.json").content_string)
    assert stamp["pytorch"]["version"] == wish["framework_pytorch_version"]


def test_training_user_can_import_the_framework(as_trainer, wish: dict) -> None:
    done = as_trainer(f"cd / && {VENV}/bin/python -c 'import torch, numpy, PIL; print(torch.__version__)'")
    assert done.rc == 0, done.stderr
    assert done.stdout.split("+")[0].strip() == wish["framework_pytorch_version"]


def test_packages_agree(host: Host) -> None:
    with host.sudo():
        assert host.run(f"{VENV}/bin/python -m pip check").rc == 0


def test_nobody_but_root_may_write_below_opt_gpuwright(host: Host) -> None:
    with host.sudo():
        assert host.check_output("find /opt/gpuwright /usr/local/lib/gpuwright -not -user root") == ""
        assert host.check_output("find /opt/gpuwright /usr/local/lib/gpuwright -not -type l -perm /022") == ""


def test_training_user_cannot_write_into_it(as_trainer) -> None:
    assert as_trainer(f"touch {VENV}/bin/intruder").rc != 0


@pytest.mark.el8_alternative
def test_no_old_environment_is_kept(host: Host) -> None:
    with host.sudo():
        folders = host.check_output("find /opt/gpuwright/venvs -mindepth 1 -maxdepth 1 -type d").splitlines()
    assert len(folders) == 1
