# SPDX-License-Identifier: Apache-2.0
"""A CycloneDX 1.6 document of one node, from what is really installed on it (https://cyclonedx.org/docs/1.6/json/).

The same software gives the same text and the same serial number; only the timestamp is that of the run.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
OWN = "gpuwright:"
# What is known of where a distribution comes from.
LOCKED, OTHER, UNLOCKED, DAMAGED = "as locked", "another version than locked", "in no lock file", "damaged"
Component = dict[str, Any]


def identity(content: str) -> uuid.UUID:
    """The same content has the same UUID: version 8 (RFC 9562), made of its SHA-256, which a FIPS system has, too."""
    octets = bytearray(hashlib.sha256(content.encode()).digest()[:16])
    octets[6] = octets[6] & 0x0F | 0x80
    octets[8] = octets[8] & 0x3F | 0x80
    return uuid.UUID(bytes=bytes(octets))


def purl(kind: str, name: str, version: str, space: str = "", **qualifiers: str) -> str:
    """A package URL (https://github.com/package-url/purl-spec); empty qualifiers are left out."""
    path = "/".join(quote(part, safe="") for part in (*filter(None, [space]), name))
    known = sorted((key, value) for key, value in qualifiers.items() if value)
    words = "&".join(f"{key}={quote(value, safe='')}" for key, value in known)
    return f"pkg:{kind}/{path}@{quote(version, safe='')}" + (f"?{words}" if words else "")


def properties(**values: Any) -> list[dict[str, str]]:
    """Properties of the toolkit's own, by name; what is empty is left out."""
    return [
        {"name": OWN + key, "value": str(value)} for key, value in sorted(values.items()) if value not in ("", None)
    ]


def of_package(row: Mapping[str, str], system: Mapping[str, Any]) -> Component:
    """A package of rpm or dpkg. The epoch is a qualifier for rpm, and a part of the version for dpkg."""
    distro = f"{system['id']}-{system['version']}"
    if system["family"] == "redhat":
        version = f"{row['version']}-{row['release']}"
        epoch = "" if row["epoch"] in ("", "0", "(none)") else row["epoch"]
        link = purl("rpm", row["name"], version, system["id"], arch=row["arch"], distro=distro, epoch=epoch)
    else:
        version = row["version"]
        link = purl("deb", row["name"], version, system["id"], arch=row["arch"], distro=distro)
    own = properties(source="" if row["source"] == "(none)" else row["source"])
    return {
        "type": "library",
        "bom-ref": link,
        "name": row["name"],
        "version": version,
        "purl": link,
        "properties": own,
    }


def provenance(row: Mapping[str, Any], lock: Mapping[str, Any] | None) -> tuple[str, list[str]]:
    """Whether a distribution is what its lock file names, and the hashes of the wheels that the lock file allows."""
    if row["damaged"]:
        return DAMAGED, []
    pin = (lock or {}).get(normal(row["name"]))
    if pin is None:
        return UNLOCKED, []
    return (LOCKED, list(pin["hashes"])) if pin["version"] == row["version"] else (OTHER, list(pin["hashes"]))


def normal(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    parts = name.lower().replace("_", "-").replace(".", "-").split("-")
    return "-".join(filter(None, parts))


def of_distribution(row: Mapping[str, Any], environment: Mapping[str, Any]) -> Component:
    """A wheel that is installed in an environment.

    The wheel itself is gone after its installation, so its hash is not that of the component: what the lock file allows
    stands in properties, and the installed files have the hash of their RECORD.
    """
    link = purl("pypi", normal(row["name"]), row["version"])
    word, hashes = provenance(row, environment["lock"])
    own = properties(
        environment=environment["path"],
        provenance=word,
        record_sha256=row["record"],
        damaged_files=row["damaged"] or None,
        wheel_sha256=" ".join(hashes),
    )
    reference = f"{link}#{environment['path']}"
    return {"type": "library", "bom-ref": reference, "name": row["name"], "version": row["version"], "purl": link,
            "properties": own}  # fmt: skip


def of_host(node: Mapping[str, Any], software: Mapping[str, Any], gpus: Iterable[Mapping[str, Any]]) -> list[Component]:
    """Operating system, kernels, modules, the driver, firmware and the cards' VBIOS, as far as they were read."""
    found = [_part("operating-system", node["os"]["id"], node["os"]["version"], name=node["os"].get("name"))]
    running = node["kernel"]["running"]
    for release in sorted({running, *node["kernel"]["installed"]}):
        found.append(_part("operating-system", "linux", release, running=release == running))
    for row in software["modules"]:
        found.append(_part("device-driver", row["name"], row["version"] or "", srcversion=row["srcversion"]))
    loaded = (node.get("nvidia") or {}).get("loaded")
    if loaded:
        found.append(_part("device-driver", "nvidia-driver", loaded["version"], flavour=loaded.get("flavour")))
    firmware = software["firmware"]
    if firmware.get("version"):
        found.append(_part("firmware", "system-firmware", firmware["version"], vendor=firmware.get("vendor"),
                           date=firmware.get("date")))  # fmt: skip
    for gpu in gpus:
        for key, name in (("vbios", "vbios"), ("gsp_firmware", "gsp-firmware")):
            text = (gpu.get("health") or {}).get(key)
            if isinstance(text, str) and text:
                found.append(_part("firmware", name, text, card=gpu.get("name"), pci=gpu.get("pci_id")))
    return found


def _part(kind: str, name: str, version: str, /, **own: Any) -> Component:
    place = f":{own['pci']}" if own.get("pci") else ""
    reference = f"{kind}:{name}:{version}{place}"
    made: Component = {"type": kind, "bom-ref": reference, "name": name, "properties": properties(**own)}
    return {**made, "version": version} if version else made


def components(
    node: Mapping[str, Any], software: Mapping[str, Any], gpus: Iterable[Mapping[str, Any]]
) -> list[Component]:
    """All components, each reference once, in the order of their references."""
    found = [*of_host(node, software, gpus), *(of_package(row, node["os"]) for row in software["packages"])]
    for environment in software["environments"]:
        found += [of_distribution(row, environment) for row in environment["distributions"]]
    once = {component["bom-ref"]: component for component in found}
    return [once[reference] for reference in sorted(once)]


def document(
    host: str,
    node: Mapping[str, Any],
    software: Mapping[str, Any],
    gpus: Iterable[Mapping[str, Any]],
    time: str,
    version: str,
) -> dict[str, Any]:
    """The document of one node.

    node      gpu_node (roles/preflight/files/gpu_node.schema.json)     time     UTC, "2026-01-05T10:15:00Z"
    software  what the module software_inventory returned               version  of the toolkit
    gpus      records of nvidia_smi_info, [] if the driver does not answer
    KeyError if a record lacks what its schema requires.
    """
    listed = components(node, software, gpus)
    unread = sorted(software["unread"])
    content = json.dumps([host, listed, unread], sort_keys=True, separators=(",", ":"))
    reference = f"host:{host}"
    made = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity(content)}",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "tools": {"components": [{"type": "application", "name": "gpuwright", "version": version}]},
            "component": {"type": "device", "bom-ref": reference, "name": host},
            "properties": [{"name": f"{OWN}unread", "value": text} for text in unread],
        },
        "components": listed,
    }
    # What could not be read is said in the format's own words: the list is known to be incomplete.
    aggregate = "incomplete" if unread else "unknown"
    return {**made, "compositions": [{"aggregate": aggregate, "assemblies": [reference]}]}


def to_text(made: Mapping[str, Any]) -> str:
    """The document as a file has it."""
    return json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
