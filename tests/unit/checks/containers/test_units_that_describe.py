"""Which form of the GPUs' description the units write for which engine, and that there is one writer."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from gpuwright.checks.containers.engine import PROGRAMS, accept_groups
from healthy_files import put_program
from host_tree import HostTree
from jinja2 import Environment, StrictUndefined
from text_parts import part_of

ROLE = Path(__file__).resolve().parents[4] / "roles/system_containers"
VARIABLES = yaml.safe_load((ROLE / "vars/main.yml").read_text())
FLAG = "NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS=no-additional-gids-for-device-nodes"


def rendered(name: str, groups: bool) -> str:
    """A template of the role."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    values = {
        **VARIABLES,
        "ansible_managed": "managed",
        "__system_containers_engines": {"additional_groups": groups},
    }
    return environment.from_string((ROLE / "templates" / name).read_text()).render(values)


@pytest.mark.parametrize(
    ("engines", "groups"),
    [
        ({"podman": "podman version 4.3.1"}, False),
        ({"podman": "podman version 4.9.4-rhel"}, False),
        ({"podman": "podman version 5.0.3"}, False),
        ({"podman": "podman version 5.1.0-rc1"}, True),
        ({"podman": "podman version 5.10.0"}, True),
        ({"podman": "podman version 10.0.0"}, True),
        ({"docker": "Docker version 20.10.24+dfsg1, build 297e128"}, True),
        ({"docker": "Docker version 25.0.3, build 297e128"}, False),
        ({"docker": "Docker version 26.0.2, build 3c863ff"}, False),
        ({"docker": "Docker version 26.1.0, build 9714adc"}, True),
        ({"docker": "Docker version 29.0.1, build eedd969"}, True),
        # Both read the same file.
        ({"docker": "Docker version 29.0.1, build eedd969", "podman": "podman version 4.9.3"}, False),
        ({"docker": "Docker version 29.0.1, build eedd969", "podman": "podman version 5.4.2"}, True),
        # Not there yet in check mode, and an answer that nobody understands.
        ({}, False),
        ({"podman": "podman"}, False),
    ],
)
def test_only_engines_that_know_groups_get_them(tmp_path, engines, groups):
    host = HostTree(tmp_path / "node")
    for engine, told in engines.items():
        put_program(host, PROGRAMS[engine], f"echo {shlex.quote(told)}")
    assert accept_groups(host.root) is groups


def test_the_toolkits_own_unit_gets_a_setting_only_where_it_needs_one():
    entries = yaml.safe_load((ROLE / "tasks/cdi.yml").read_text())[-1]["gpuwright.node.files"]["entries"]
    state = next(entry["state"] for entry in entries if entry["path"].endswith("/gpuwright.conf"))
    for groups, wanted in ((True, "absent"), (False, "file")):
        known = {"__system_containers_engines": {"additional_groups": groups}}
        assert Templar(loader=DataLoader(), variables=known).template(state) == wanted


def test_both_writers_write_the_same_form():
    for name in ("gpuwright-cdi.service.j2", "nvidia-cdi-refresh.conf.j2"):
        assert f"\nEnvironment={FLAG}\n" in rendered(name, False)
    assert FLAG not in rendered("gpuwright-cdi.service.j2", True)


def test_what_people_have_set_counts_more_and_is_not_ours():
    text = rendered("gpuwright-cdi.service.j2", False)
    # systemd.exec(5): settings of EnvironmentFile= override those of Environment=.
    assert "\nEnvironmentFile=-/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env\n" in text
    assert "EnvironmentFile" not in re.sub(r"(?m)^#.*", "", rendered("nvidia-cdi-refresh.conf.j2", False))
    assert "path: /etc/nvidia-container-toolkit" not in "".join(file.read_text() for file in ROLE.glob("tasks/*.yml"))


START = "systemctl --no-block start nvidia-cdi-refresh.service\n"
WRITE = "nvidia-ctk cdi generate --output={}/nvidia.yaml\n"


@pytest.mark.parametrize(
    ("enabled", "there", "settings", "called"),
    [
        (True, True, {}, START),
        (True, True, {"NVIDIA_CTK_CDI_OUTPUT_FILE_PATH": "{}/nvidia.yaml"}, START),
        # The boot: nothing would be there when the checks look.
        (True, False, {}, WRITE),
        (True, True, {"NVIDIA_CTK_CDI_OUTPUT_FILE_PATH": "/etc/cdi/nvidia.yaml"}, WRITE),
        (False, True, {}, WRITE),
        (False, False, {}, WRITE),
    ],
)
def test_there_is_one_writer(tmp_path, enabled, there, settings, called):
    script = f'echo "$(basename $0) $*" >> {tmp_path}/called\n'
    for name, first in (
        ("systemctl", f'[ "$2" = is-enabled ] && exit {0 if enabled else 1}; '),
        ("nvidia-ctk", f"touch {tmp_path}/nvidia.yaml; chmod 600 {tmp_path}/nvidia.yaml; "),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{first}{script}")
        (tmp_path / name).chmod(0o755)
    if there:
        (tmp_path / "nvidia.yaml").write_text("cdiVersion: 0.5.0\n")
    text = rendered("gpuwright-cdi.service.j2", True)
    line = part_of(r"^ExecStart=/bin/sh -c '(.*)'$", text, re.MULTILINE).replace("$$", "$")
    line = line.replace("/usr/bin/nvidia-ctk", "nvidia-ctk")
    assert "\nEnvironment=SPEC=/var/run/cdi/nvidia.yaml\n" in text
    own = {name: value.format(tmp_path) for name, value in settings.items()}
    own.update(PATH=f"{tmp_path}:/usr/bin:/bin", SPEC=f"{tmp_path}/nvidia.yaml")
    subprocess.run(["/bin/sh", "-c", line], env=own, check=True)
    assert (tmp_path / "called").read_text() == called.format(tmp_path)
    # nvidia-ctk up to 1.13 writes it for root alone; rootless podman reads it, too.
    assert called == START or (tmp_path / "nvidia.yaml").stat().st_mode & 0o777 == 0o644
