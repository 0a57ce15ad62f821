# SPDX-License-Identifier: Apache-2.0
"""What the engine itself makes of nvidia.com/gpu=all. No container is started, and nothing of the engine's is changed.

podman looks a CDI device up when it prepares a container, not in `podman create` (4.3.1). So a container is prepared
whose runtime is /bin/false: what podman would have given to the runtime, config.json, is then what a container would
get. All of it, podman's locks in /dev/shm included, lies in a mount namespace of its own and is gone with it.
"""

import json
from typing import Any, Dict, List, Optional

from ...host.bounded import run_bounded
from ...host.files import exists, read_text
from ...host.versions import is_version, version_key
from ...verdict.by_hand import NODE, Hand
from ...verdict.check import DRAIN, FAIL, STANDARD, Check, Outcome, failed, passed, skipped, unknown, unnamed
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from .access import CONTAINERS
from .engine import PROGRAMS, knows_cdi, why_refused
from .reading import CARD_NODE, HOST_PATH, NO_CONTAINERS, RECORD, load_record

SECONDS = 30
# Docker's release notes of 28.2: `docker info` shows the devices that it has discovered.
LISTS_FROM = "28.2"
ALL_GPUS = "nvidia.com/gpu=all"
REFUSED = 3
PREPARE = """
mount -t tmpfs tmpfs /dev/shm && cd /dev/shm && mkdir root run tmp empty || exit 4
alone() {
    podman --root /dev/shm/root --runroot /dev/shm/run --tmpdir /dev/shm/tmp --storage-driver vfs \\
        --cgroup-manager cgroupfs --runtime /bin/false "$@"
}
prepared() {
    id=$(alone create --network none --ipc host --log-driver none "$@" --rootfs /dev/shm/empty true) || return 1
    alone init "$id" > /dev/null
    cat root/*-containers/"$id"/userdata/config.json 2> /dev/null
}
prepared --device nvidia.com/gpu=all && exit 0
prepared > /dev/null 2>&1 && exit 3
exit 4
"""
ACTION = (
    "Run: ansible-playbook playbooks/system.yml --tags system_containers ; see what the engine says: "
    "podman --log-level debug run --rm --device nvidia.com/gpu=all IMAGE true, or docker info"
)
RESTART = "Restart Docker when none of its containers may be lost: systemctl restart docker"


def read_resolving(root: str) -> Optional[Dict[str, Any]]:
    """Null without containers or engine, else of podman `{engine, resolved, words, cards, missing}`, or ask_docker's
    with `missing`.

    `missing`: files of the host that the description mounts and that are not there. OSError if nothing can be asked.
    """
    if not exists(root, RECORD):
        return None
    record = load_record(root)
    if not exists(root, PROGRAMS[record["engine"]]):
        return None
    return ask_podman(root) if record["engine"] == "podman" else dict(ask_docker(), missing=lost(root, record["spec"]))


def lost(root: str, spec: str) -> List[str]:
    """Files that the description mounts and that the host does not have. podman says so itself, Docker does not."""
    paths = {first or second or third for first, second, third in HOST_PATH.findall(read_text(root, spec) or "")}
    return sorted(path for path in paths if not exists(root, path))


def ask_podman(root: str) -> Dict[str, Any]:
    done = run_bounded(["unshare", "--mount", "--", "sh", "-c", PREPARE], SECONDS, limit_bytes=1 << 22)
    words = " ".join(done.stderr.split())
    if done.rc == REFUSED:
        told = words[words.rfind("Error: ") :] if "Error: " in words else words
        return {"engine": "podman", "resolved": False, "words": told[:300], "cards": [], "missing": []}
    if done.rc != 0:
        raise OSError(done.problem or f"podman cannot prepare any container here: {words[-200:]}")
    config = json.loads(done.stdout)
    devices = [device["path"] for device in config["linux"].get("devices", [])]
    # What podman itself prepares, such as /etc/hosts, lies below /dev/shm; the rest are the host's files.
    sources = [mount.get("source", "") for mount in config.get("mounts", [])]
    gone = [
        path for path in sources if path.startswith("/") and not path.startswith("/dev/shm/") and not exists(root, path)
    ]
    cards = sorted(path for path in set(devices) if CARD_NODE.fullmatch(path))
    return {"engine": "podman", "resolved": True, "words": "", "cards": cards, "missing": sorted(set(gone))}


def ask_docker() -> Dict[str, Any]:
    """`{engine, version, runtime, folders, devices}`; devices is null where Docker does not list them (before 28.2).

    From 28.2 on it leaves an empty list out.
    """
    done = run_bounded(["docker", "info", "--format", "{{json .}}"], SECONDS)
    if done.rc != 0:
        raise OSError(done.problem or f"docker info failed: {' '.join(done.stderr.split())[:200]}")
    told = json.loads(done.stdout)
    if not isinstance(told, dict) or told.get("ServerErrors"):
        raise OSError(f"docker info failed: {told.get('ServerErrors') if isinstance(told, dict) else told}")
    runtimes, folders = told.get("Runtimes") or {}, told.get("CDISpecDirs") or []
    version = str(told.get("ServerVersion", "")).split("-")[0].split("+")[0]
    found, listed = told.get("DiscoveredDevices") or [], None  # type: List[Dict[str, Any]], Optional[List[str]]
    if found or (is_version(version) and version_key(version) >= version_key(LISTS_FROM)):
        listed = [str(device.get("ID")) for device in found if device.get("Source") == "cdi"]
    return {
        "engine": "docker",
        "version": version,
        "runtime": "nvidia" in runtimes,
        "folders": list(folders),
        "devices": listed,
    }


def engine_resolves(readings: Evidence, expected: Evidence) -> Outcome:
    """The engine resolves nvidia.com/gpu=all to every GPU, and all files that it would mount are there.

    podman prepares a container and starts none; Docker is asked what it has loaded (docker info).
    """
    if readings.absent("containers"):
        return skipped("no-containers", NO_CONTAINERS)
    count = expected.number("gpu_count")
    engine = readings.one_of(("podman", "docker"), "containers", "engine")
    if readings.absent("container_engine"):
        return unknown("no-engine", f"{engine} is not installed", action="First do what containers.gpu says.")
    found = readings.at("container_engine")
    if found.one_of(("podman", "docker"), "engine") == "docker":
        return docker_resolves(found, readings.at("containers"), count)
    if not found.flag("resolved"):
        return failed("not-resolved", 0, count, f"podman cannot resolve {ALL_GPUS}: {found.text('words')}")
    cards = [card.text() for card in found.each("cards")]
    if len(cards) != count:
        words = f"podman resolves {ALL_GPUS} to {len(cards)} of {count} GPUs"
        return failed("too-few", len(cards), count, words, items=unnamed(count - len(cards)))
    missing = [path.text() for path in found.each("missing")]
    if missing:
        words = f"podman would mount {missing[0]}, which is not there ({len(missing)} such files)"
        return failed("missing-file", len(cards), count, words, items=missing)
    return passed(len(cards), count, f"podman resolves {ALL_GPUS} to {len(cards)} GPUs")


def docker_resolves(found: Evidence, described: Evidence, count: int) -> Outcome:
    version = found.version("version")
    if not found.flag("runtime"):
        return failed("no-runtime", 0, count, "the running Docker has no runtime nvidia", RESTART)
    if not knows_cdi("docker", version):
        return passed(count, count, f"Docker {version} has the runtime nvidia; CDI comes with Docker 25")
    if not found.each("folders"):
        return failed("cdi-off", 0, count, "the running Docker has not switched CDI on", RESTART)
    if described.absent("spec"):
        return failed("no-specification", 0, count, f"Docker {version} finds no CDI specification")
    spec = described.at("spec")
    # The program may have been replaced since the daemon began.
    refused = why_refused("docker", version, spec.version("cdi"), spec.flag("groups"))
    if refused:
        return failed("refused", 0, count, f"the running {refused}", RESTART)
    missing = [path.text() for path in found.each("missing")]
    if missing:
        words = f"Docker would mount {missing[0]}, which is not there ({len(missing)} such files)"
        return failed("missing-file", 0, count, words, items=missing)
    if found.absent("devices"):
        return passed(count, count, f"Docker {version} has CDI switched on; it does not list what it resolves")
    if ALL_GPUS not in [device.text() for device in found.each("devices")]:
        return failed("not-resolved", 0, count, f"Docker {version} does not resolve {ALL_GPUS}")
    return passed(count, count, f"Docker {version} resolves {ALL_GPUS}")


BY_HAND = {
    "containers.resolved": Hand(
        NODE, "docker info shows the runtime nvidia, and CDI spec directories from Docker 25 on"
    ),
}
RESOLVING = Reader(
    name="container_engine",
    level=STANDARD,
    read=lambda seen: read_resolving(seen.root),
    source=by_hand("what the engine makes of nvidia.com/gpu=all", "podman info ; docker info"),
)

CHECKS = (
    Check(
        id="containers.resolved",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Does the container engine resolve the GPUs?",
        judge=engine_resolves,
        unit="GPUs",
        action=ACTION,
        source="own: the engine's answer; podman 4.3.1 was tried with CDI 0.3.0 to 0.7.0",
        readers=(CONTAINERS, RESOLVING),
    ),
)
