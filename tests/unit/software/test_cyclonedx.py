"""The bill of materials of a node: valid by CycloneDX's own schema, the same for the same software, and honest."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.software import cyclonedx
from conftest import REPOSITORY
from referencing import Registry, Resource

SCHEMAS = REPOSITORY / "tests/unit/data/cyclonedx"
HASH = "6" * 64
NODE = {
    "os": {"id": "rhel", "version": "8.8", "family": "redhat", "major": 8, "name": "Red Hat Enterprise Linux 8.8"},
    "kernel": {"running": "4.18.0-477", "installed": ["4.18.0-477", "4.18.0-500"]},
    "nvidia": {"loaded": {"version": "580.95.05", "flavour": "proprietary"}},
}
SOFTWARE: dict[str, Any] = {
    "packages": [
        {"name": "gcc-c++", "epoch": "0", "version": "8.5.0", "release": "18.el8", "arch": "x86_64",
         "source": "gcc.src.rpm"},
        {"name": "nvidia-driver-cuda", "epoch": "3", "version": "580.95.05", "release": "1.el8", "arch": "x86_64",
         "source": "(none)"},
    ],
    "environments": [
        {
            "path": "/opt/gpuwright/venvs/a",
            "current": True,
            "lock": {"torch": {"version": "2.13.0+cpu", "hashes": [HASH]},
                     "numpy": {"version": "2.4.6", "hashes": [HASH]}},
            "distributions": [
                {"name": "torch", "version": "2.13.0+cpu", "record": "a" * 64, "damaged": 0},
                {"name": "NumPy", "version": "2.4.5", "record": "b" * 64, "damaged": 0},
                {"name": "Own_Package", "version": "1", "record": None, "damaged": 0},
                {"name": "pillow", "version": "12", "record": "c" * 64, "damaged": 2},
            ],
        }
    ],
    "modules": [{"name": "nvidia", "version": "580.95.05", "srcversion": "ABC"}],
    "firmware": {"vendor": "Dell Inc.", "version": "2.21.2", "date": "02/19/2024"},
    "unread": [],
}  # fmt: skip
GPUS = [
    {
        "name": "Tesla V100-PCIE-16GB",
        "pci_id": "0000:3b:00.0",
        "health": {"vbios": "88.00.51.00.04", "gsp_firmware": None},
    }
]


def document(
    software: dict[str, Any] = SOFTWARE, time: str = "2026-01-05T10:15:00Z", node: Any = NODE
) -> dict[str, Any]:
    return cyclonedx.document("a5-01", node, software, GPUS, time, "1.2.3")


def by_name(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {component["name"]: component for component in made["components"]}


def own(component: dict[str, Any]) -> dict[str, str]:
    return {row["name"].removeprefix("gpuwright:"): row["value"] for row in component["properties"]}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft7Validator:
    read = {file.name: json.loads(file.read_text()) for file in SCHEMAS.glob("*.json")}
    whole = read["bom-1.6.SNAPSHOT.schema.json"]
    # The schema names the others relative to its own address.
    places = [(f"http://cyclonedx.org/schema/{name}", Resource.from_contents(text)) for name, text in read.items()]
    return jsonschema.Draft7Validator(whole, registry=Registry().with_resources(places))


@pytest.mark.parametrize("unread", [[], ["the lock file of /a: not there"]])
def test_it_is_valid(validator: jsonschema.Draft7Validator, unread: list[str]) -> None:
    made = json.loads(cyclonedx.to_text(document({**SOFTWARE, "unread": unread})))
    assert [error.message for error in validator.iter_errors(made)] == []
    assert made["compositions"][0]["aggregate"] == ("incomplete" if unread else "unknown")
    broken = copy.deepcopy(made)
    broken["components"][0]["type"] = "programme"
    assert list(validator.iter_errors(broken)), "a validator that cannot fail shows nothing"


def test_the_same_software_has_the_same_number_and_order_at_any_time() -> None:
    other = copy.deepcopy(SOFTWARE)
    other["packages"].reverse()
    other["environments"][0]["distributions"].reverse()
    first, second = document(), document(other, time="2027-01-05T10:15:00Z")
    assert first["serialNumber"] == second["serialNumber"] and first["components"] == second["components"]
    assert first["metadata"]["timestamp"] != second["metadata"]["timestamp"]
    other["packages"][0]["version"] = "9"
    assert document(other)["serialNumber"] != first["serialNumber"]


def test_packages_have_the_addresses_of_the_specification() -> None:
    found = by_name(document())
    assert found["gcc-c++"]["purl"] == "pkg:rpm/rhel/gcc-c%2B%2B@8.5.0-18.el8?arch=x86_64&distro=rhel-8.8"
    assert found["nvidia-driver-cuda"]["purl"].endswith("@580.95.05-1.el8?arch=x86_64&distro=rhel-8.8&epoch=3")
    debian = {**NODE, "os": {"id": "debian", "version": "12", "family": "debian"}}
    row = {"name": "g++", "epoch": "", "version": "4:12.2.0-3", "release": "", "arch": "amd64", "source": "gcc"}
    made = cyclonedx.document("a", debian, {**SOFTWARE, "packages": [row]}, [], "2026-01-05T10:15:00Z", "1")
    assert by_name(made)["g++"]["purl"] == "pkg:deb/debian/g%2B%2B@4%3A12.2.0-3?arch=amd64&distro=debian-12"


def test_wheels_say_whether_they_are_what_the_lock_file_names() -> None:
    found = by_name(document())
    expected = {
        "torch": cyclonedx.LOCKED,
        "NumPy": cyclonedx.OTHER,
        "Own_Package": cyclonedx.UNLOCKED,
        "pillow": cyclonedx.DAMAGED,
    }
    assert {name: own(found[name])["provenance"] for name in expected} == expected
    assert found["torch"]["purl"] == "pkg:pypi/torch@2.13.0%2Bcpu"
    assert own(found["torch"])["wheel_sha256"] == HASH and own(found["torch"])["record_sha256"] == "a" * 64
    assert found["Own_Package"]["purl"] == "pkg:pypi/own-package@1" and "wheel_sha256" not in own(found["pillow"])


def test_driver_kernels_and_firmware_are_there() -> None:
    found = {(row["type"], row["name"], row.get("version")) for row in document()["components"]}
    assert {
        ("operating-system", "rhel", "8.8"),
        ("operating-system", "linux", "4.18.0-500"),
        ("device-driver", "nvidia-driver", "580.95.05"),
        ("device-driver", "nvidia", "580.95.05"),
        ("firmware", "system-firmware", "2.21.2"),
        ("firmware", "vbios", "88.00.51.00.04"),
    } <= found
    assert not [name for _type, name, _version in found if name == "gsp-firmware"]
