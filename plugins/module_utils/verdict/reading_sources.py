# SPDX-License-Identifier: Apache-2.0
"""Where each reading comes from, and the command to type that shows why it is missing."""

from typing import Dict, Mapping, NamedTuple

AGAIN = "fix what it reports, then run gpu-doctor again as root."
VERIFY = "Run: ansible-playbook site.yml --tags verify"


class Source(NamedTuple):
    """`what` is read, in the field's words; `look` is the command to type that shows why that fails."""

    what: str
    look: str


def by_hand(what: str, look: str = "") -> Source:
    return Source(what, f"Run: {look or what} ; {AGAIN}")


# By the longest prefix of a reading's name: what no reader takes. `checks.all` adds what its readers say.
SOURCES: Dict[str, Source] = {
    "expectations": Source(
        "/etc/gpuwright/expectations.json", VERIFY + " ; it rewrites what the node is compared with."
    ),
    "readings.nvidia_smi": by_hand("nvidia-smi -q -x", "nvidia-smi -q"),
    "readings.probe": by_hand(
        "/proc, /sys and /boot", "lspci -nnk -d 10de: ; uname -r ; cat /proc/driver/nvidia/version"
    ),
    "readings.site_checks": by_hand("/etc/gpuwright/checks.d", "ls -la /etc/gpuwright/checks.d"),
    "readings.smoke": Source("the smoke test of the last verification", VERIFY + " ; it runs the smoke test again."),
}
# For a reading that is none of these: an error of the program itself.
OURS = Source(
    "gpu-doctor itself",
    "This is an error of gpu-doctor: make a bundle (gpu-doctor --bundle FILE.tar.gz) and send it to its maintainers.",
)


def source_of(name: str, own: Mapping[str, Source]) -> Source:
    """The source of the reading or expectation of this name, such as "readings.nvidia_smi.gpus[0].uuid".

    `own`: sources of the readings that the check itself defines, by their names.
    """
    parts = name.replace("[", ".").split(".")
    for length in range(len(parts), 0, -1):
        beginning = ".".join(parts[:length])
        found = own.get(beginning) or SOURCES.get(beginning)
        if found is not None:
            return found
    return OURS
