"""Servers to install: the reference machine with every release, and what can be different about one."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.kickstart import answers, render
from conftest import REPOSITORY

INSTALLERS = yaml.safe_load((REPOSITORY / "roles/kickstart/files/installers.yml").read_text())["installers"]
DEFAULTS = yaml.safe_load((REPOSITORY / "roles/kickstart/defaults/main.yml").read_text())
SYSTEMS = yaml.safe_load((REPOSITORY / "roles/preflight/files/matrix/systems.yml").read_text())
RELEASES = [f"{row['id']} {row['version']}" for row in SYSTEMS["os_releases"]]
DISK = "/dev/disk/by-id/nvme-INTEL_SSDPEKNW010T8_BTNH0123456789A"
# What `openssl passwd -6 -salt saltsalt secret` prints.
HASH = "$6$saltsalt$bbN.ZFU6SIzZO3NqfBKLMSlKt1YD7MjZp2jHxVzB0qrMvdGMUKN9OFVTHXvMPxRIQ9LJlxGhRqhkFkQ9QcWcB/"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def key(kind: str = "ssh-ed25519", comment: str = "operator@desk") -> str:
    """A public key as ssh-keygen writes it (RFC 4253, 6.6), of no private key."""
    blob = len(kind).to_bytes(4, "big") + kind.encode() + (32).to_bytes(4, "big") + bytes(range(32))
    return f"{kind} {base64.b64encode(blob).decode()} {comment}".strip()


# Its comment has what quotes, ends or begins something in a shell, in a template or in a kickstart.
ODD_KEY = key("ssh-rsa", 'o\'brien "at" $(id) `id` {{ x }} {% y %} %end # ; &&')
# As the inventory has it, without the prefix.
A5: dict[str, Any] = {
    "distribution": "rhel",
    "release": "8.8",
    "mirror": "https://mirror.example.com/rhel8.8/BaseOS/x86_64/os/",
    "mirror_appstream": "https://mirror.example.com/rhel8.8/AppStream/x86_64/os/",
    "disk": DISK,
    "interface": "eno1",
    "admin": "admin",
    "admin_keys": [key()],
    "ntp_servers": ["ntp1.example.com", "192.0.2.123"],
}
DEBIAN = {
    **A5,
    "distribution": "debian",
    "release": "12",
    "mirror": "http://mirror.example.com/debian",
    "mirror_appstream": "",
    "mirror_security": "http://mirror.example.com/pub/debian-security",
}
SYSTEM_OF = {
    "rhel-8.8": A5,
    "rocky-8.10": {**A5, "distribution": "rocky", "release": "8.10"},
    "almalinux-9.6": {**A5, "distribution": "almalinux", "release": "9.6"},
    "rhel-10.0": {**A5, "release": "10.0"},
    "debian-12": DEBIAN,
    "debian-13": {**DEBIAN, "release": "13"},
}
STATIC = {"address": "192.0.2.10/24", "gateway": "192.0.2.1", "name_servers": ["192.0.2.53", "2001:db8::53"]}
PULL = {
    "first_boot": "pull",
    "pull_repository": "https://git.example.com/site/a%20b.git",
    "pull_commit": COMMIT,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bios": {"firmware": "bios"},
    "static": STATIC,
    "password": {"admin_password_hash": HASH},
    "keys": {"admin_keys": [ODD_KEY, key(), key(comment="")]},
    "no-scratch": {"scratch_dir": "", "swap_mib": 0},
    "options": {
        "scratch_options": "noatime,logbsize=256k",
        "timezone": "America/New_York",
        "packages": ["tmux", "g++"],
    },
    "pull": PULL,
    "distribution": {"repositories": "distribution"},
    "kernel": {"kernel": "4.18.0-477.10.1.el8_8.x86_64"},
}
# Debian 12's ansible-core cannot provision the node.
CASES = [
    (system, variant) for system in SYSTEM_OF for variant in VARIANTS if (system, variant) != ("debian-12", "pull")
]
ANACONDA_CASES = [case for case in CASES if not case[0].startswith("debian")]
DEBIAN_CASES = [case for case in CASES if case[0].startswith("debian")]


def variables(system: str = "rhel-8.8", **more: Any) -> dict[str, Any]:
    """All values of a host, with the role's defaults."""
    plain = {name.removeprefix("kickstart_"): value for name, value in DEFAULTS.items()}
    return {**plain, "host": "a5-01", "hostname": "a5-01", **SYSTEM_OF[system], **more}


def read(values: dict[str, Any]) -> answers.Answers:
    names = {"host", *(name.removeprefix("kickstart_") for name in DEFAULTS)} - {"folder"}
    assert set(values) - {"folder"} == names
    return answers.read(values, INSTALLERS, RELEASES)


def problems(values: dict[str, Any]) -> list[str]:
    """What is said about them; nothing if a file can be written."""
    try:
        read(values)
    except answers.Refused as refused:
        return refused.problems
    return []


def row(values: dict[str, Any]) -> dict[str, Any]:
    found = answers.row_of(values, INSTALLERS)
    assert found is not None
    return dict(found)


def text(system: str, variant: str = "plain", **more: Any) -> str:
    values = variables(system, **{**VARIANTS[variant], **more})
    return render.text(read(values), row(values))


def scripts(system: str, variant: str = "plain", **more: Any) -> dict[str, str]:
    """The scripts of a host's file by name."""
    values = variables(system, **{**VARIANTS[variant], **more})
    found = read(values)
    return {"disk": render.disk_script(found, row(values)), "post": render.post_script(found, row(values))}


def units(system: str, variant: str) -> dict[str, str]:
    return render.units(read(variables(system, **VARIANTS[variant])))


def inventory(folder: Path, hosts: dict[str, dict[str, Any]]) -> Path:
    """An inventory of these hosts, with the prefix that the role's variables have."""
    named = {name: {f"kickstart_{key}": value for key, value in given.items()} for name, given in hosts.items()}
    file = folder / "hosts.yml"
    where = {"kickstart_folder": str(folder / "kickstart")}
    file.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": named, "vars": where}}))
    return file
