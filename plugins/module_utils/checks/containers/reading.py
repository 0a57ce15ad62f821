# SPDX-License-Identifier: Apache-2.0
"""How containers get the GPUs: the CDI specification that nvidia-ctk writes for podman and Docker.

Source for its format: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
"""

import os
import re
import stat
from typing import Any, Dict, List, Optional

from ...host.files import below, exists, names_in, read_text, resolve
from ...host.patterns import lazily
from ...host.written.state_file import ANY, OTHERS, parsed
from .engine import PROGRAMS, read_version

NO_CONTAINERS = "this node is not set up for containers: /etc/gpuwright/containers.json is not there"
RECORD = "/etc/gpuwright/containers.json"
FORM = {"schema": {1}, "spec": str, "engine": set(PROGRAMS), OTHERS: ANY}
# Where engines look for specifications, and which files they accept (CDI, section "CDI JSON Specification").
FOLDERS = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
ENDINGS = (".yaml", ".json")
GPU_KIND = "nvidia.com/gpu"
CARD_NODE = lazily(r"/dev/nvidia[0-9]+(?![\w-])")
# The names of the driver's libraries have its version, and the specification names each of them.
LIBRARY = lazily(r"/libcuda\.so\.([0-9]+(?:\.[0-9]+)+)(?![\w.])")
KIND = lazily(r"^[\"']?kind[\"']?: *[\"']?([^\"',\s]+)|[{,]\s*\"kind\": *\"([^\"]+)\"", re.MULTILINE)
SPEC_VERSION = lazily(r"[\"']?\bcdiVersion[\"']?: *[\"']?([0-9]+(?:\.[0-9]+)+)")
# CDI 0.7.0 brought it; nvidia-ctk 1.19.1 and newer write it for device nodes with a group. Engines that do not know a
# field refuse the whole file, whatever version it claims (podman 4.3.1).
GROUPS = lazily(r"\badditionalGids[\"']?:")
# What of the host is mounted; one entry in a line of YAML or JSON, or several in a line of JSON.
HOST_PATH = lazily(r"\bhostPath[\"']?: *(?:\"([^\"]+)\"|'([^']+)'|([^\"'\s,}]+))")
# The device that means all cards, in YAML or in JSON.
ALL = lazily(r"^[\s-]*\"?name\"?: *\"?all\"?,?\s*$|\"name\": *\"all\"", re.MULTILINE)


def read_containers(root: str) -> Optional[Dict[str, Any]]:
    """`{engine, program, version, spec, others}`, null if no containers are meant to run here.

    `version`: of the engine, null without one, or `{unreadable: why}`.
    `others`: further specifications of the same kind, in the folders that engines read.
    `spec`: null if there is no specification, else `{kind, cdi, groups, all, cards, driver, readable}`: its CDI
    version, whether it has the field additionalGids, whether a device means all cards, the cards' device nodes, the
    driver version that it was written for, and whether every user can read it.
    """
    if not exists(root, RECORD):
        return None
    record = load_record(root)
    spec, others = record["spec"], read_others(root, record["spec"])
    # People may have told the toolkit's own unit to write elsewhere; engines read all the folders alike.
    if not exists(root, spec) and len(others) == 1:
        spec, others = others[0], []
    return {
        "engine": record["engine"],
        "program": exists(root, PROGRAMS[record["engine"]]),
        "version": read_version(root, PROGRAMS[record["engine"]]),
        "spec": read_spec(root, spec),
        "others": others,
    }


def load_record(root: str) -> Dict[str, Any]:
    """containers.json, written by the role system_containers. ValueError if it cannot be used."""
    record: Dict[str, Any] = parsed((read_text(root, RECORD) or "").encode("utf-8", "replace"), FORM, RECORD)
    return record


def read_others(root: str, spec: str) -> List[str]:
    """Paths of the other files that describe NVIDIA's GPUs; ValueError for one that cannot be read."""
    own, found = resolve(root, spec), {}
    for folder in FOLDERS:
        for name in names_in(root, folder):
            path = f"{folder}/{name}"
            full = resolve(root, path)
            # Of /run and /var/run, one is a link to the other: the same file is named only once.
            if not name.endswith(ENDINGS) or full is None or full == own or full in found:
                continue
            text = read_text(root, path)
            if text is None:
                raise ValueError(f"{path} cannot be read")
            kind = KIND.search(text)
            if kind and (kind.group(1) or kind.group(2)) == GPU_KIND:
                found[full] = path
    return sorted(found.values())


def read_spec(root: str, path: str) -> Optional[Dict[str, Any]]:
    if not exists(root, path):
        return None
    text = read_text(root, path)
    if text is None:
        raise ValueError(f"{path} cannot be read")
    return dict(parse_spec(text, path), readable=everyone_reads(root, path))


def everyone_reads(root: str, path: str) -> bool:
    """Whether podman of an ordinary user can read the file: nvidia-ctk wrote it with mode 0600 up to 1.13."""
    full = resolve(root, path) or below(root, path)
    folder, may = os.path.dirname(full), bool(os.stat(full).st_mode & stat.S_IROTH)
    while may and len(folder) > len(root.rstrip("/")):
        may, folder = bool(os.stat(folder).st_mode & stat.S_IXOTH), os.path.dirname(folder)
        if folder == "/":
            break
    return may


def parse_spec(text: str, name: str = "the specification") -> Dict[str, Any]:
    """The relevant parts of a specification in YAML or JSON; ValueError if they are missing.

    Python 3.6 has no YAML reader; the values needed are on separate lines in both notations.
    """
    kind, cdi = KIND.search(text), SPEC_VERSION.search(text)
    versions = sorted(set(LIBRARY.findall(text)))
    if not kind:
        raise ValueError(f"{name} has no kind: it is not a CDI specification")
    if not cdi:
        raise ValueError(f"{name} has no cdiVersion: no engine accepts it")
    if len(versions) != 1:
        raise ValueError(f"{name} names {len(versions)} versions of libcuda: {', '.join(versions)}")
    return {
        "kind": kind.group(1) or kind.group(2),
        "cdi": cdi.group(1),
        "groups": GROUPS.search(text) is not None,
        "all": ALL.search(text) is not None,
        "cards": sorted(set(CARD_NODE.findall(text))),
        "driver": versions[0],
    }
