"""Which form of the GPUs' description the units write for which engine, and that there is one writer."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from jinja2 import Environment, StrictUndefined
from text_parts import part_of

ROLE = Path(__file__).resolve().parents[3] / "roles/system_containers"
VARIABLES = yaml.safe_load((ROLE / "vars/main.yml").read_text())
FLAG = "NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS=no-additional-gids-for-device-nodes"


def rendered(name: str, without_groups: bool) -> str:
    """A template of the role."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    values = {**VARIABLES, "ansible_managed": "managed", "__system_containers_without_groups": without_groups}
    return environment.from_string((ROLE / "templates" / name).read_text()).render(values)


@pytest.mark.parametrize(
    ("engine", "told", "without"),
    [
        ("podman", {"stdout": "podman version 4.3.1"}, True),
        ("podman", {"stdout": "podman version 4.9.4-rhel"}, True),
        ("podman", {"stdout": "podman version 5.0.3"}, True),
        ("podman", {"stdout": "podman version 5.1.0-rc1"}, False),
        ("podman", {"stdout": "podman version 5.10.0"}, False),
        ("podman", {"stdout": "podman version 10.0.0"}, False),
        ("docker", {"stdout": "Docker version 20.10.24+dfsg1, build 297e128"}, True),
        ("docker", {"stdout": "Docker version 26.0.2, build 3c863ff"}, True),
        ("docker", {"stdout": "Docker version 26.1.0, build 9714adc"}, False),
        ("docker", {"stdout": "Docker version 29.0.1, build eedd969"}, False),
        # Not there yet in check mode, and an answer that nobody understands.
        ("podman", {"rc": 2, "msg": "No such file or directory"}, True),
        ("podman", {"stdout": "podman"}, True),
    ],
)
def test_only_an_engine_that_knows_groups_gets_them(engine, told, without):
    known = {**VARIABLES, "system_containers_engine": engine, "__system_containers_told": told}
    found = Templar(loader=DataLoader(), variables=known).template(VARIABLES["__system_containers_without_groups"])
    assert found is without


@pytest.mark.parametrize("name", ["gpuwright-cdi.service.j2", "nvidia-cdi-refresh.conf.j2"])
def test_both_writers_write_the_same_form(name):
    assert f"\nEnvironment={FLAG}\n" in rendered(name, True)
    assert FLAG not in rendered(name, False)


def test_what_people_have_set_counts_more_and_is_not_ours():
    text = rendered("gpuwright-cdi.service.j2", True)
    # systemd.exec(5): settings of EnvironmentFile= override those of Environment=.
    assert "\nEnvironmentFile=-/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env\n" in text
    assert "EnvironmentFile" not in re.sub(r"(?m)^#.*", "", rendered("nvidia-cdi-refresh.conf.j2", True))
    assert "path: /etc/nvidia-container-toolkit" not in "".join(file.read_text() for file in ROLE.glob("tasks/*.yml"))


@pytest.mark.parametrize(
    ("enabled", "called"),
    [
        (0, "systemctl --no-block start nvidia-cdi-refresh.service\n"),
        (1, "nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml\n"),
    ],
)
def test_there_is_one_writer(tmp_path, enabled, called):
    for name, first in (("systemctl", f'[ "$2" = is-enabled ] && exit {enabled}; '), ("nvidia-ctk", "")):
        (tmp_path / name).write_text(f'#!/bin/sh\n{first}echo "{name} $*" >> {tmp_path}/called\n')
        (tmp_path / name).chmod(0o755)
    line = part_of(r"^ExecStart=/bin/sh -c '(.*)'$", rendered("gpuwright-cdi.service.j2", False), re.MULTILINE)
    line = line.replace("/usr/bin/nvidia-ctk", "nvidia-ctk")
    subprocess.run(["/bin/sh", "-c", line], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    assert (tmp_path / "called").read_text() == called
