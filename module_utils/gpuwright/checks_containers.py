# SPDX-License-Identifier: Apache-2.0
"""Whether a container that asks for the GPUs will get them."""

import re

from .verdict import FAIL, QUICK, Check, failed, passed, skipped

KIND = "nvidia.com/gpu"
CARD_NODE = re.compile(r"/dev/nvidia[0-9]+")
ACTION = "Run on the node: systemctl restart gpuwright-cdi ; journalctl -u gpuwright-cdi says what nvidia-ctk says"
INSTALL = "Run: ansible-playbook playbooks/system.yml --tags system_containers"


def gpu_in_containers(readings, expected):
    """The CDI specification is there, lists every GPU, and was written for the driver that is loaded."""
    if readings.absent("containers"):
        return skipped("no containers are meant to run here: /etc/gpuwright/containers.json is not there")
    count = expected.number("gpu_count")
    engine = readings.one_of(("podman", "docker"), "containers", "engine")
    if not readings.flag("containers", "program"):
        return failed("none", count, "{} is not installed".format(engine), INSTALL)
    if readings.absent("containers", "spec"):
        return failed("none", count, "no CDI specification: containers find no GPU")
    spec = readings.at("containers", "spec")
    kind = spec.text("kind")
    if kind != KIND:
        return failed(kind, KIND, "the CDI specification is for {}".format(kind))
    cards = [card.matching(CARD_NODE, "a card's device node") for card in spec.each("cards")]
    if len(cards) != count:
        return failed(len(cards), count, "the CDI specification lists {} of {} GPUs".format(len(cards), count))
    if not spec.flag("all"):
        return failed(len(cards), count, "the CDI specification has no device for all GPUs")
    if readings.absent("probe", "nvidia", "loaded"):
        return failed(len(cards), count, "no nvidia module is loaded", "See driver.version")
    loaded = readings.version("probe", "nvidia", "loaded", "version")
    written_for = spec.version("driver")
    if written_for != loaded:
        return failed(written_for, loaded, "written for driver {}, loaded is {}".format(written_for, loaded))
    return passed(len(cards), count, "{} finds {} GPUs, by driver {}".format(engine, len(cards), loaded))


CHECKS = (
    Check(
        "containers.gpu",
        "system",
        "Do containers find the GPUs?",
        ACTION,
        gpu_in_containers,
        "GPUs",
        True,
        QUICK,
        FAIL,
        "own: one device node of each GPU, libraries of the loaded driver",
    ),
)
