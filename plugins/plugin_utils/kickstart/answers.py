# SPDX-License-Identifier: Apache-2.0
"""The variables of one host as the answers to an installer's questions, or all that is missing or wrong at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.plugin_utils.kickstart import fields as checks

ANACONDA, DEBIAN = "anaconda", "debian"
BOTH = (ANACONDA, DEBIAN)
# A system that site.yml knows, and for which there is no installer here.
BY_HAND = "ubuntu"
LONGEST_VALUE = 60
SECURITY_PATH = "/debian-security"
VALUE = "[kickstart.value]"
LOGIN = re.compile(r"[^\s'\"/]*@")


class Refused(Exception):
    """No file can be written; `problems` are lines that say what, what was expected, and end with an id in brackets."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True)
class Answers:
    """What the variables `kickstart_...` of a host say; sizes in MiB, an empty text or list for what is not wanted.

    host   its name in the inventory, which is also the name of its file
    """

    host: str
    distribution: str
    release: str
    mirror: str
    mirror_appstream: str
    mirror_security: str
    allow_http: bool
    repositories: str
    disk: str
    firmware: str
    boot_mib: int
    root_mib: int
    swap_mib: int
    scratch_dir: str
    scratch_options: str
    hostname: str
    interface: str
    address: str
    gateway: str
    name_servers: list[str]
    admin: str
    admin_keys: list[str]
    admin_password_hash: str
    timezone: str
    ntp_servers: list[str]
    language: str
    keyboard: str
    kernel: str
    packages: list[str]
    first_boot: str
    pull_repository: str
    pull_commit: str
    pull_playbook: str
    pull_inventory: str


class Field(NamedTuple):
    """A variable: `missing` says what to write into it, and is empty where it may be empty; `id` ends its messages."""

    name: str
    check: checks.Check
    missing: str = ""
    forms: tuple[str, ...] = BOTH
    id: str = VALUE
    many: bool = False
    secret: bool = False


NAME_OR_ADDRESS = "the name or the IP address of a server, such as ntp.example.com"
A_HASH = "a hash as printed by `openssl passwd -6`, never the password itself"


def _server(value: str) -> str:
    plain = checks.HOST_NAME.fullmatch(value) or not checks.name_server(value)
    return "" if plain else NAME_OR_ADDRESS


FIELDS = (
    Field(
        "mirror",
        checks.mirror,
        "the address of the installation tree (EL: the folder with .treeinfo, BaseOS; Debian: the folder with dists)",
    ),
    Field(
        "mirror_appstream",
        checks.mirror,
        "EL: the address of the AppStream repository of the same release",
        (ANACONDA,),
    ),
    Field(
        "mirror_security",
        checks.mirror,
        "Debian: the address of the mirror of its security archive, http://HOST/debian-security",
        (DEBIAN,),
    ),
    Field(
        "disk", checks.disk, "the disk to install on, which will be wiped: /dev/disk/by-id/...", id="[kickstart.disk]"
    ),
    Field("scratch_dir", checks.folder),
    Field("scratch_options", checks.matches(checks.OPTIONS, "mount options, such as noatime,discard")),
    Field("hostname", checks.matches(checks.HOST_NAME, "a host name, such as a5-01.example.com")),
    Field("interface", checks.interface, "the network interface, such as eno1, or its MAC address"),
    Field("address", checks.address),
    Field("name_servers", checks.name_server, many=True),
    Field("admin", checks.account, "the account that Ansible will log in to, if ansible_user is not set"),
    Field(
        "admin_keys",
        checks.public_key,
        "your public ssh keys, one line each",
        id="[kickstart.keys]",
        many=True,
        secret=True,
    ),
    Field("admin_password_hash", checks.matches(checks.PASSWORD_HASH, A_HASH), secret=True),
    Field("timezone", checks.timezone, "the time zone, such as Etc/UTC"),
    Field("ntp_servers", _server, "your time servers", many=True),
    Field("language", checks.matches(checks.LANGUAGE, "a language such as en_US.UTF-8"), "such as en_US.UTF-8"),
    Field("keyboard", checks.matches(checks.KEYBOARD, "a keyboard layout such as us"), "such as us"),
    Field("kernel", checks.matches(checks.KERNEL, "what uname -r prints, such as 4.18.0-477.10.1.el8_8.x86_64")),
    Field("packages", checks.matches(checks.PACKAGE, "names of packages"), many=True),
)
PULL_FIELDS = (
    Field("pull_repository", checks.mirror, "the address of the repository that the node pulls", id="[kickstart.pull]"),
    Field(
        "pull_commit",
        checks.matches(checks.COMMIT, "the 40 digits of a commit"),
        "the commit to pull",
        id="[kickstart.pull]",
    ),
    Field("pull_playbook", checks.relative, "the playbook in it", id="[kickstart.pull]"),
    Field("pull_inventory", checks.relative, "the inventory in it", id="[kickstart.pull]"),
)
# Least sizes in MiB: a kernel with its initramfs takes 100, an environment with PyTorch 8 GiB, and nodes keep several.
LEAST_MIB = {"boot_mib": 512, "root_mib": 30720, "swap_mib": 0}


def read(variables: Mapping[str, Any], installers: Sequence[Mapping[str, Any]], releases: Sequence[str]) -> Answers:
    """The answers of one host. Raises Refused.

    variables   values of kickstart_..., by names without that prefix, and `host`; all of Answers are there
    installers  rows of roles/kickstart/files/installers.yml
    releases    "rocky 8.8", as in the matrix's os_releases
    """
    wanted = {field.name: variables[field.name] for field in fields(Answers)}
    # Known with the distribution alone, so that a wrong release leads to no other questions.
    form = next((str(row["form"]) for row in installers if wanted["distribution"] in row["ids"]), "")
    problems = [*_host(wanted), *_distribution(wanted, installers)]
    if problems and wanted["distribution"] and not form:
        raise Refused(problems)
    problems += _release(wanted, installers, releases)
    pulls = PULL_FIELDS if wanted["first_boot"] == "pull" else ()
    for field in (*FIELDS, *pulls):
        problems += _field(field, wanted, form)
    for also in (_sizes, _network, _transport, _first_boot, _debian):
        problems += also(wanted, form)
    if pulls and form:
        problems += _no_pull(row_of(wanted, installers) or {})
    if problems:
        raise Refused(problems)
    return Answers(**wanted)


def _host(wanted: Mapping[str, Any]) -> Iterator[str]:
    if not checks.HOST_NAME.fullmatch(wanted["host"]):
        yield f"the name of the host in the inventory: must be a host name{_shown(wanted['host'])} [kickstart.value]"


def _distribution(wanted: Mapping[str, Any], installers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    name, known = wanted["distribution"], sorted({one for row in installers for one in row["ids"]})
    if not name:
        yield f"kickstart_distribution is not set: one of {', '.join(known)} [kickstart.missing]"
    elif name == BY_HAND:
        yield (
            "kickstart_distribution: no installation file is made for Ubuntu; install it by hand, as docs/kickstart.md "
            'says under "Ubuntu", then run site.yml [kickstart.release]'
        )
    elif name not in known:
        yield f"kickstart_distribution: must be one of {', '.join(known)}{_shown(name)} [kickstart.release]"


def row_of(wanted: Mapping[str, Any], installers: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The installer's row for a distribution and its release, None if there is none."""
    major = wanted["release"].partition(".")[0]
    return next((row for row in installers if wanted["distribution"] in row["ids"] and row["major"] == major), None)


def _release(
    wanted: Mapping[str, Any], installers: Sequence[Mapping[str, Any]], releases: Sequence[str]
) -> Iterator[str]:
    name, release = wanted["distribution"], wanted["release"]
    if not release:
        yield 'kickstart_release is not set: the release with its minor part, such as "8.8" [kickstart.missing]'
    if not name or not release:
        return
    if f"{name} {release}" not in releases or row_of(wanted, installers) is None:
        majors = {row["major"] for row in installers if name in row["ids"]}
        there = [one.partition(" ")[2] for one in releases if one.startswith(f"{name} ")]
        there = [one for one in there if one.partition(".")[0] in majors]
        yield (
            f"kickstart_release: must be one of {', '.join(there) or 'no release'} for {name}{_shown(release)} "
            "[kickstart.release]"
        )


def _field(field: Field, wanted: Mapping[str, Any], form: str) -> Iterator[str]:
    value = wanted[field.name]
    if form and form not in field.forms:
        if value:
            yield f"kickstart_{field.name}: must be empty for this distribution [kickstart.value]"
        return
    if not value:
        if field.missing and (not wanted["distribution"] or set(field.forms) == set(BOTH) or form in field.forms):
            id = "[kickstart.missing]" if field.id == VALUE else field.id
            yield f"kickstart_{field.name} is not set: {field.missing} {id}"
        return
    said = checks.each(value, field.check) if field.many else field.check(value)
    if said:
        yield f"kickstart_{field.name}: must be {said}{'' if field.secret else _shown(value)} {field.id}"


def _sizes(wanted: Mapping[str, Any], form: str) -> Iterator[str]:
    for name, least in LEAST_MIB.items():
        if wanted[name] < least:
            yield f"kickstart_{name}: must be {least} or more, in MiB{_shown(wanted[name])} [kickstart.value]"


def _network(wanted: Mapping[str, Any], form: str) -> Iterator[str]:
    own, gateway = wanted["address"], wanted["gateway"]
    if own and not gateway:
        yield "kickstart_gateway is not set: a node with kickstart_address needs a gateway [kickstart.missing]"
    if own and not wanted["name_servers"]:
        yield "kickstart_name_servers is not set: a node with kickstart_address needs name servers [kickstart.missing]"
    if gateway and not own:
        yield "kickstart_gateway: must be empty without kickstart_address, since DHCP names it [kickstart.value]"
    elif gateway:
        said = checks.gateway(gateway, own)
        if said:
            yield f"kickstart_gateway: must be {said}{_shown(gateway)} [kickstart.value]"


def _transport(wanted: Mapping[str, Any], form: str) -> Iterator[str]:
    """Anaconda checks no signature of what it installs, apt checks all of them; git's commits are hashes."""
    for name in ("mirror", "mirror_appstream") if form == ANACONDA else ():
        if wanted[name].startswith("http://") and not wanted["allow_http"]:
            yield (
                f"kickstart_{name}: must begin with https://, since Anaconda checks no signatures of packages. Next: "
                f"use https, or set kickstart_allow_http: true{_shown(wanted[name])} [kickstart.http]"
            )


def _first_boot(wanted: Mapping[str, Any], form: str) -> Iterator[str]:
    if wanted["first_boot"] == "pull" and wanted["pull_repository"].startswith("http://"):
        yield f"kickstart_pull_repository: must begin with https://{_shown(wanted['pull_repository'])} [kickstart.pull]"


def security_host(address: str) -> str:
    """What apt-setup/security_host is for an address, to which apt-setup adds its path; "" for one that cannot be said.

    Source: generators/91security of Debian's apt-setup 0.182.
    """
    plain = address.rstrip("/")
    if not plain.startswith("http://") or not plain.endswith(SECURITY_PATH):
        return ""
    return plain.removeprefix("http://").removesuffix(SECURITY_PATH)


def _debian(wanted: Mapping[str, Any], form: str) -> Iterator[str]:
    security = wanted["mirror_security"]
    if form == DEBIAN and security and not checks.mirror(security) and not security_host(security):
        yield (
            f"kickstart_mirror_security: must be http://HOST{SECURITY_PATH}, since Debian's installer asks for the "
            f"host alone; apt checks the signatures{_shown(security)} [kickstart.value]"
        )


def _no_pull(row: Mapping[str, Any]) -> Iterator[str]:
    if row.get("no_pull"):
        yield f"kickstart_first_boot: must be wait: {row['no_pull']} [kickstart.pull]"


def _shown(value: Any) -> str:
    """The end of a message: the value, without a login and control characters."""
    text = LOGIN.sub("***@", " ".join(repr(value).split()))
    return f" (given: {text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + '...'})"
