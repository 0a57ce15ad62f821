# SPDX-License-Identifier: Apache-2.0
"""Values that identify a machine or a person by their format alone: addresses, UUIDs, logins, keys; patterns as data.

A pattern matches too much rather than too little: a version mistaken for an address costs a reader little, an address
mistaken for a version gives a network away.
"""

import ipaddress
import re
from typing import Callable, Match

# Long enough not to be a word of the tools; a console's "Serial: 8250" is not a serial number.
SERIAL_FORM = re.compile(r"(?=.*[0-9])[A-Za-z0-9][A-Za-z0-9._-]{4,63}")
SERIAL_WORDS = re.compile(
    r"(?:serial ?_?(?:number|num|no|nr)?#?|\bs/n|\bsn)\"?\s*[=:]\s*\"?([^\s,;\"']+)", re.IGNORECASE
)
# The part of a path after one of these is the name of a person.
HOME = re.compile(r"/(?:home|users|scratch)/([A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63})", re.IGNORECASE)
# The column before "kernel:" in every format of journalctl and syslog.
LOG_HOST = re.compile(r"^(?:\[ *[0-9.]+\]|\S+T\S+|[A-Z][a-z]{2} +[0-9]{1,2} [0-9:.]+) (\S+) kernel: ", re.MULTILINE)
# Servers of NFS, SMB and Lustre in the kernel's log.
FILE_SERVER = re.compile(r"\bnfs: server ([A-Za-z0-9][\w.-]*) |\bCIFS: (?:VFS: )?\\\\{1,4}([A-Za-z0-9][\w.-]*)")
HOST_OPTION = re.compile(r"\bhostname=([A-Za-z0-9][A-Za-z0-9.-]*)", re.IGNORECASE)
# `Name   : value` of nvidia-smi -q, and <name>value</name>.
TEXT_FIELD = re.compile(
    r"^([ \t]*(?:\[SN\] )?)([A-Za-z][A-Za-z_ ]{1,40}?)([ \t]*:[ \t]+)(\S.*?)([ \t]*)$", re.MULTILINE
)
XML_FIELD = re.compile(r"<([A-Za-z_]{2,40})>([^<>]{1,200})</")
# Parts of a field's name, without case, spaces and underscores; small numbers are masked only in such fields.
FIELD_KINDS = (
    ("serial", "serial"),
    ("guid", "guid"),
    ("pdi", "guid"),
    ("clique", "clique"),
    ("slotnumber", "place"),
    ("trayindex", "place"),
    ("hostid", "place"),
    ("hostname", "host"),
)
NO_VALUE = re.compile(
    r"n/a|\[.*\]|unknown.*|none|null|err!|insufficient.*|gpu (?:requires|is) .*|not .*|(?:0x)?0+|[0-]+", re.I
)

# Words before the reason of an acknowledgement, of a switched-off check, or of an override in messages.
BEFORE_A_REASON = r"(?:acknowledged until \S+ by [^:;]{1,100}|switched off by the inventory|judged by [^:;]{1,100}): "
EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,120}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.){1,8}([A-Za-z]{2,24})\b"
)
# NAME@INSTANCE.service is a unit of systemd.
UNIT_ENDINGS = (
    "service",
    "socket",
    "timer",
    "target",
    "mount",
    "automount",
    "slice",
    "scope",
    "path",
    "device",
    "swap",
)
UUID = re.compile(
    r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f])"
)
BARE_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{32}(?![0-9A-Za-z])")
SHORT_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9A-Fa-f]{8}(?![0-9A-Fa-f-])")
OCTETS = re.compile(r"(?<![0-9A-Fa-f:.])[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4,}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
NET_NAME = re.compile(r"\b(?:enx|wlx|wwx)[0-9a-f]{12}\b")
GUID = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3}(?![0-9A-Fa-f:])")
GUID_WORDS = re.compile(r"(guid\W{1,4})((?:0x)?[0-9A-Fa-f]{16})\b", re.IGNORECASE)
DISK = re.compile(r"\b((?:PART)?(?:UUID|LABEL)=\"?)([^\s,\"']+)", re.IGNORECASE)
# udev's links consist of model and serial number.
DISK_LINK = re.compile(r"(/by-(?:id|label|partlabel|path)/)([^\s,\"'<>:]+)")
WORLD_WIDE = re.compile(r"\b(wwn-0x|naa\.|eui\.|t10\.)([0-9A-Za-z]{8,})")
INITIATOR = re.compile(r"\b(?:iqn|nqn)\.[0-9]{4}-[0-9]{2}\.[^\s,\"'<>]+")
IPV4 = re.compile(r"(?<![0-9A-Za-z_])(?<![0-9]\.)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z_]|\.[0-9])")
IPV6 = re.compile(r"(?<![0-9A-Za-z:.-])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![0-9A-Za-z:])(%[a-z0-9]+)?")
# Text before or after a number of four parts that shows it to be a version, such as libcublas 12.9.1.4.
VERSION_BEFORE = re.compile(
    r"(?:\b(?:version|ver|v|release|rev|revision|firmware|fw|bios|vbios|image)[ :=.]{0,3}|\.so\.|==|>=|<=|~="
    r"|\b(?:lib[a-z]|nvidia|cuda|cu[a-z]{3}|tensorrt|nccl|kernel|kmod)[A-Za-z0-9_.+-]*[-_=]{1,2}"
    r"|\b(?:lib)?(?:cudnn|cublas|cufft|curand|cusolver|cusparse|cufile|npp|nvjitlink|nvshmem|nccl|tensorrt|nvinfer)"
    r"[a-z]{0,10}[0-9]{0,2}[ :=]{1,3})$",
    re.IGNORECASE,
)
VERSION_BEHIND = re.compile(r"[-+~](?![0-9]+\.[0-9]+\.[0-9]+\.[0-9])[0-9A-Za-z]")
NOBODYS = re.compile(r"0\.0\.0\.0|127\.|255\.")
LONG_ENDINGS = (
    "com|org|net|edu|gov|mil|int|io|ai|dev|cloud|local|lan|internal|intra|intranet|corp|home|localdomain|example|test|"
    "private|site|tech|hpc|cluster"
)
COUNTRIES = "de|uk|fr|ch|at|nl|be|it|es|pl|se|no|fi|dk|cz|jp|cn|kr|in|au|ca|us|eu|ru|br|il|tw|sg|pt|gr|hu|ie|nz|za|mx"
DOMAIN_NAME = re.compile(
    r"(?<![A-Za-z0-9_.-])(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.)+(?:"
    + LONG_ENDINGS
    + r")(?![A-Za-z0-9_-]|\.[A-Za-z0-9])|(?<![A-Za-z0-9_.-])(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){2,}(?:"
    + COUNTRIES
    + r")(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
)
# Public addresses, named in our own advice.
PUBLIC = re.compile(
    r"(?:^|\.)(?:nvidia|redhat|ubuntu|canonical|pytorch|github|githubusercontent|intel|amd|tensorflow|google|docker)\.com$"
    r"|(?:^|\.)(?:debian|kernel|pypi|python|rockylinux|almalinux|centos|fedoraproject|pytorch|freedesktop|gnu|anaconda"
    r"|pythonhosted|linuxfoundation|nvmexpress|w3)\.org$|(?:^|\.)(?:kubernetes|systemd|docker|github|quay|ghcr|nvcr)\.io$"
    r"|(?:^|\.)launchpad\.net$",
    re.IGNORECASE,
)


def field_kind(name: str) -> str:
    """What the value of a field of this name is: serial, guid, clique, place, or "" for anything else."""
    plain = name.lower().replace("_", "").replace(" ", "").replace("-", "")
    return next((kind for part, kind in FIELD_KINDS if (plain.endswith(part) if part == "pdi" else part in plain)), "")


def is_version(text: str, start: int, end: int) -> bool:
    """Whether the four numbers at text[start:end] are a version, judged by the text around them."""
    return bool(VERSION_BEFORE.search(text, max(0, start - 60), start) or VERSION_BEHIND.match(text, end))


def addresses_masked(text: str, token: Callable[[str, str], str]) -> str:
    """The text with IPv4 and IPv6 addresses replaced by `token(kind, value)`."""

    def four(match: Match[str]) -> str:
        parts = match.group().split(".")
        is_one = all(int(part) < 256 and (part == "0" or not part.startswith("0")) for part in parts)
        if not is_one or NOBODYS.match(match.group()) or is_version(text, match.start(), match.end()):
            return match.group()
        return token("ip", match.group())

    def six(match: Match[str]) -> str:
        address = match.group().partition("%")[0]
        try:
            value = ipaddress.IPv6Address(address)
        except ValueError:
            return match.group()
        return match.group() if int(value) < 2 else token("ip", value.compressed)

    return IPV6.sub(six, IPV4.sub(four, text))
