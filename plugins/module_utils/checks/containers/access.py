# SPDX-License-Identifier: Apache-2.0
"""Whether a container that asks for the GPUs will get them."""

import shlex
from typing import Dict

from ...host.access import read_device_links
from ...verdict.check import DRAIN, FAIL, QUICK, WARN, Check, Outcome, failed, passed, skipped, unknown, unnamed, warned
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from ...verdict.report import Record
from ..driver.loaded import CARD_NODE, SHARED_NODES
from ..host.system import in_container
from .engine import why_refused
from .reading import GPU_KIND, NO_CONTAINERS, read_containers

ACTION = "Run on the node: systemctl restart gpuwright-cdi ; journalctl -u gpuwright-cdi shows what nvidia-ctk printed"
INSTALL = "Run: ansible-playbook playbooks/system.yml --tags system_containers"

REFUSED = (
    "Run: ansible-playbook playbooks/system.yml --tags system_containers ; then on the node: systemctl restart "
    "gpuwright-cdi ; a form that was chosen by hand: cat /etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
)


def gpu_in_containers(readings: Evidence, expected: Evidence) -> Outcome:
    """The CDI specification is one that the engine accepts, lists every GPU, and was written for the loaded driver."""
    if readings.absent("containers"):
        return skipped("no-containers", NO_CONTAINERS)
    count = expected.number("gpu_count")
    engine = readings.one_of(("podman", "docker"), "containers", "engine")
    if not readings.flag("containers", "program"):
        return failed("no-engine", "none", count, f"{engine} is not installed", INSTALL)
    if readings.absent("containers", "spec"):
        return failed("no-specification", "none", count, "no CDI specification: containers find no GPU")
    spec = readings.at("containers", "spec")
    kind = spec.text("kind")
    if kind != GPU_KIND:
        return failed("other-kind", kind, GPU_KIND, f"the CDI specification is for {kind}")
    version, cdi = readings.version("containers", "version"), spec.version("cdi")
    refused = why_refused(engine, version, cdi, spec.flag("groups"))
    if refused:
        return failed("refused", "refused", count, refused, REFUSED)
    if engine == "podman" and not spec.flag("readable"):
        return failed(
            "root-alone", "root alone", count, "only root may read the CDI specification: rootless podman finds no GPU"
        )
    cards = [card.matching(CARD_NODE, "a card's device node") for card in spec.each("cards")]
    if len(cards) != count:
        return failed(
            "too-few",
            len(cards),
            count,
            f"the CDI specification lists {len(cards)} of {count} GPUs",
            items=unnamed(count - len(cards)),
        )
    if not spec.flag("all"):
        return failed("no-device-for-all", len(cards), count, "the CDI specification has no device for all GPUs")
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("not-loaded", len(cards), count, "no nvidia module is loaded", "See driver.version")
    loaded = readings.version("probe", "nvidia", "loaded", "version")
    written_for = spec.version("driver")
    if written_for != loaded:
        return failed("other-driver", written_for, loaded, f"written for driver {written_for}, but {loaded} is loaded")
    return passed(len(cards), count, f"described for {engine}: {len(cards)} GPUs, with driver {loaded}")


def one_specification(readings: Evidence, expected: Evidence) -> Outcome:
    """No second file describes the same GPUs: with two, a container may get devices from the other driver's file."""
    if readings.absent("containers"):
        return skipped("no-containers", NO_CONTAINERS)
    others = [path.text() for path in readings.each("containers", "others")]
    if others:
        words = f"also described in {', '.join(others)}, which nothing keeps up to date"
        return warned(
            "described-twice",
            len(others),
            0,
            words,
            f"Run: rm {' '.join(map(shlex.quote, others))} ; see what is left: nvidia-ctk cdi list",
            items=others,
        )
    return passed(0, 0, "one specification describes the GPUs")


def device_links(readings: Evidence, expected: Evidence) -> Outcome:
    """/dev/char has a link to each device node that containers get: systemd recognises devices by these links.

    Without them, a running container loses its GPUs at the next systemctl daemon-reload.
    """
    if readings.absent("containers"):
        return skipped("no-containers", NO_CONTAINERS)
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    engine = readings.one_of(("podman", "docker"), "containers", "engine")
    names = readings.names("device_links")
    cards = [name for name in names if CARD_NODE.fullmatch(name)]
    shared = [name for name in SHARED_NODES if name in names]
    if len(cards) < expected.number("gpu_count") or len(shared) < len(SHARED_NODES):
        return unknown(
            "no-nodes",
            "device nodes are missing",
            action="First do what driver.device_nodes says.",
            items=unnamed(expected.number("gpu_count") - len(cards))
            + tuple(n for n in SHARED_NODES if n not in shared),
        )
    without = [name for name in cards + shared if not readings.flag("device_links", name)]
    value = len(cards + shared) - len(without)
    if without:
        words = f"no link in /dev/char points to {', '.join(without)}; {engine} may lose it"
        return warned("no-link", value, len(cards + shared), words, items=without)
    return passed(value, value, f"/dev/char points to all {value} device nodes")


CONTAINERS = Reader(
    name="containers",
    level=QUICK,
    read=lambda seen: read_containers(seen.root),
    source=by_hand("/etc/gpuwright/containers.json and the CDI files", "ls -lL /etc/cdi /var/run/cdi"),
)


def read_links_of_nodes(root: str, host: Record) -> Dict[str, bool]:
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    return read_device_links(root, host["nvidia"]["device_nodes"])


READ_DEVICE_LINKS = Reader(
    name="device_links",
    level=QUICK,
    read=lambda seen: read_links_of_nodes(seen.root, seen.probe),
    source=by_hand("/dev/char", "ls -l /dev/char | grep nvidia"),
)

CHECKS = (
    Check(
        id="containers.gpu",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Do containers find the GPUs?",
        judge=gpu_in_containers,
        unit="GPUs",
        action=ACTION,
        source="own: one device node of each GPU, libraries of the loaded driver",
        readers=(CONTAINERS,),
    ),
    Check(
        id="containers.one_specification",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Does one file alone describe the GPUs to containers?",
        judge=one_specification,
        unit="files",
        action="Run: rm /etc/cdi/nvidia.yaml ; see what is left: nvidia-ctk cdi list",
        source="Container Device Interface, SPEC.md: devices of one name in two files; nvidia-container-toolkit#450",
        readers=(CONTAINERS,),
    ),
    Check(
        id="containers.device_links",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Do containers keep the GPUs when systemd reloads?",
        judge=device_links,
        unit="files",
        action="Run on the node: nvidia-ctk system create-dev-char-symlinks",
        source=(
            "NVIDIA/gpu-operator#430, NVIDIA/nvidia-container-toolkit#48; gpu-operator's validator makes the same links"
        ),
        readers=(CONTAINERS, READ_DEVICE_LINKS),
    ),
)
