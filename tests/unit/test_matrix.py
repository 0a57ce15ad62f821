"""The matrix is well-formed data: every row has a source, versions are text, and what rows name exists."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
import yaml
from conftest import REPOSITORY
from gpuwright.versions import version_key
from test_plan_questions import MATRIX, ask

DATE = {"type": "string", "pattern": r"^20\d\d-\d\d-\d\d$"}
MONTH_OR_NONE = {"type": "string", "pattern": r"^(20\d\d-(0[1-9]|1[0-2]))?$"}
VERSION = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)*$"}
TEXT = {"type": "string", "minLength": 1}
PATH = {"type": "string", "pattern": "^/"}
TEXTS = {"type": "array", "items": TEXT, "uniqueItems": True}
SOME_TEXTS = {**TEXTS, "minItems": 1}
VERSIONS = {"type": "array", "items": VERSION, "minItems": 1, "uniqueItems": True}
ADDRESS = {"type": "string", "pattern": r"^https://[^/]+\.[^/]+"}


def row(**fields: Any) -> dict[str, Any]:
    """A row with these fields, all required, and where they come from; what was not verified must be named."""
    cited = {"source": {"anyOf": [ADDRESS, {"type": "array", "items": ADDRESS, "minItems": 2}]}, "checked": DATE}
    cited |= {"verified": {"type": "boolean"}, "unverified": TEXT}
    return {
        "type": "object",
        "properties": {**fields, **cited},
        "required": [*fields, "source", "checked", "verified"],
        "additionalProperties": False,
        "if": {"properties": {"verified": {"const": False}}},
        "then": {"required": ["unverified"]},
        "else": {"not": {"required": ["unverified"]}},
    }


def rows(key_pattern: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "patternProperties": {key_pattern: schema}, "additionalProperties": False}


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


FLAVOUR = record(stream=TEXT, architectures=SOME_TEXTS)
BUILD = record(cuda=VERSION, index={"enum": ["pypi", "pytorch"]}, capabilities=VERSIONS)
DRIVER_PACKAGES = record(install=SOME_TEXTS, libraries=SOME_TEXTS, remark={"type": "string"})
SCHEMA = record(
    schema={"const": 1},
    as_of=DATE,
    machine={"const": "x86_64"},
    architectures=rows("^[a-z]+$", row(capabilities=VERSIONS, amp={"enum": ["float16", "bfloat16"]})),
    drivers=rows(
        "^[0-9]{3}$",
        row(
            status={"enum": ["lts", "production", "new-feature", "eol", "unknown"]},
            eol=MONTH_OR_NONE,
            preferred_flavour={"enum": ["open", "proprietary"]},
            packages={"enum": ["before-560", "since-560"]},
            flavours=rows("^(open|proprietary)$", FLAVOUR),
        ),
    ),
    floating_streams=row(names=SOME_TEXTS),
    cuda_majors=rows("^[0-9]+$", row(minimum_driver=VERSION)),
    cuda=rows(r"^[0-9]+\.[0-9]+$", row(matching_driver=VERSION, architectures=SOME_TEXTS)),
    cudnn={
        "type": "array",
        "items": row(
            version=VERSION,
            package_version=VERSION,
            cuda_major=VERSION,
            cuda_from=VERSION,
            cuda_to={"anyOf": [VERSION, {"const": ""}]},
            minimum_driver=VERSION,
            architectures=SOME_TEXTS,
            packages=SOME_TEXTS,
            header=PATH,
        ),
    },
    nccl={"type": "array", "items": row(version=VERSION, cuda_major=VERSION, built_for=VERSION, packages=SOME_TEXTS)},
    pythons=rows(r"^3\.[0-9]+$", row(packages=SOME_TEXTS, executable=PATH, eol=MONTH_OR_NONE)),
    pytorch_index=ADDRESS,
    pytorch=rows(
        r"^[0-9]+\.[0-9]+$",
        row(releases=VERSIONS, pythons=VERSIONS, glibc=VERSION, builds=rows("^cu[0-9]{3}$", BUILD)),
    ),
    os_families=rows(
        "^[a-z0-9]+$",
        row(
            glibc=VERSION,
            kernel=record(packages=SOME_TEXTS, devel_prefix=TEXT),
            flavours=rows("^(open|proprietary)$", record(package=TEXT, module=TEXT)),
            driver_packages=rows("^(before|since)-560$", DRIVER_PACKAGES),
            switch_removes=SOME_TEXTS,
            cuda_package_prefix=TEXT,
            cuda_prefix=TEXT,
            runtime=record(packages=SOME_TEXTS, jemalloc=TEXT, tcmalloc=TEXT),
        ),
    ),
    os_releases={
        "type": "array",
        "items": row(id=TEXT, name=TEXT, version=VERSION, family=TEXT, pythons=VERSIONS, eol=MONTH_OR_NONE),
    },
)  # fmt: skip


def test_the_matrix_has_its_form() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(MATRIX)


def drop(*path: Any) -> Callable[[dict], None]:
    def change(matrix: dict) -> None:
        *parents, last = path
        for key in parents:
            matrix = matrix[key]
        del matrix[last]

    return change


def put(value: Any, *path: Any) -> Callable[[dict], None]:
    def change(matrix: dict) -> None:
        *parents, last = path
        for key in parents:
            matrix = matrix[key]
        matrix[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        drop("drivers", "580", "source"),
        drop("cuda", "12.9", "checked"),
        drop("cudnn", 0, "verified"),
        drop("drivers", "620", "unverified"),
        put("something", "drivers", "580", "unverified"),
        put(12.9, "cudnn", 0, "version"),
        put("soon", "drivers", "580", "eol"),
        put("a colleague", "pythons", "3.11", "source"),
        put("open-dkms", "drivers", "580", "preferred_flavour"),
        put({}, "cuda", 12.9),
        drop("pytorch", "2.10", "builds", "cu128", "index"),
        put(8.1, "os_releases", 0, "version"),
    ],
)
def test_the_form_refuses_what_is_wrong(change: Callable[[dict], None]) -> None:
    matrix = copy.deepcopy(MATRIX)
    change(matrix)
    with pytest.raises((jsonschema.ValidationError, TypeError)):
        jsonschema.Draft202012Validator(SCHEMA).validate(matrix)


def architectures_named() -> Iterator[tuple[str, list[str]]]:
    for branch, driver in MATRIX["drivers"].items():
        for flavour, details in driver["flavours"].items():
            yield f"driver {branch} {flavour}", details["architectures"]
    for version, toolkit in MATRIX["cuda"].items():
        yield f"CUDA {version}", toolkit["architectures"]
    for library in MATRIX["cudnn"]:
        yield f"cuDNN {library['version']} for {library['cuda_major']}", library["architectures"]


def test_architectures_exist() -> None:
    for where, names in architectures_named():
        assert set(names) <= set(MATRIX["architectures"]), where


def test_capabilities_belong_to_an_architecture() -> None:
    known = {capability for entry in MATRIX["architectures"].values() for capability in entry["capabilities"]}
    for series, torch in MATRIX["pytorch"].items():
        for build, details in torch["builds"].items():
            assert set(details["capabilities"]) <= known, (series, build)
            assert details["capabilities"] == sorted(details["capabilities"], key=version_key)


def test_other_references_exist() -> None:
    majors = set(MATRIX["cuda_majors"])
    family = MATRIX["os_families"]["el8"]
    assert {version.split(".")[0] for version in MATRIX["cuda"]} == majors
    for library in [*MATRIX["cudnn"], *MATRIX["nccl"]]:
        assert library["cuda_major"] in majors
    for library in MATRIX["cudnn"]:
        assert library["cuda_from"].split(".")[0] == library["cuda_major"]
        assert library["package_version"].startswith(library["version"] + ".")
        assert all(library["package_version"] in package for package in library["packages"])
    for library in MATRIX["nccl"]:
        assert all(f"-{library['version']}-1+cuda{library['built_for']}" in package for package in library["packages"])
    for driver in MATRIX["drivers"].values():
        assert driver["preferred_flavour"] in driver["flavours"]
        assert driver["packages"] in family["driver_packages"]
        assert set(driver["flavours"]) <= set(family["flavours"])
    for release in MATRIX["os_releases"]:
        assert release["family"] in MATRIX["os_families"]
        assert set(release["pythons"]) <= set(MATRIX["pythons"])


def test_names_of_pytorch_rows_agree_with_their_content() -> None:
    for series, torch in MATRIX["pytorch"].items():
        assert all(release.startswith(series + ".") for release in torch["releases"])
        assert torch["releases"] == sorted(torch["releases"], key=version_key)
        for build, details in torch["builds"].items():
            assert build == "cu" + details["cuda"].replace(".", "")
            assert details["cuda"].split(".")[0] in MATRIX["cuda_majors"]
        assert [details["index"] for details in torch["builds"].values()].count("pypi") == 1


def test_streams_are_named_as_nvidia_names_them() -> None:
    suffixes = {"proprietary": "dkms", "open": "open"}
    for branch, driver in MATRIX["drivers"].items():
        for flavour, details in driver["flavours"].items():
            assert details["stream"] == f"{branch}-{suffixes[flavour]}"


def test_rows_are_not_listed_twice() -> None:
    for key in ("cudnn", "nccl"):
        names = [(library["version"], library["cuda_major"]) for library in MATRIX[key]]
        assert len(set(names)) == len(names)
    releases = [(release["id"], release["version"]) for release in MATRIX["os_releases"]]
    assert len(set(releases)) == len(releases)


def test_no_row_was_checked_after_the_day_of_the_matrix() -> None:
    assert set(re.findall(r'checked: "([0-9-]+)"', (REPOSITORY / "roles/preflight/files/matrix.yml").read_text()))
    assert all(entry["checked"] <= MATRIX["as_of"] for entry in every_row(MATRIX))


def every_row(node: Any) -> Iterator[dict]:
    if isinstance(node, dict):
        if "checked" in node:
            yield node
        for inner in node.values():
            yield from every_row(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from every_row(inner)


def test_the_stand_in_repositories_have_what_the_reference_plan_installs() -> None:
    """The fleet's list and the matrix name the same packages and streams."""
    fleet = yaml.safe_load((REPOSITORY / "tests/fleet/repositories.yml").read_text())
    toolkits = fleet["matrices"]["toolkits"]
    offered = {package["name"] for group in fleet["packages"].values() for package in group}
    offered |= {name.replace("@XY@", entry["XY"]) for name in offered for entry in toolkits}
    offered |= {name.replace("@MAJOR@", entry["MAJOR"]) for name in offered for entry in fleet["matrices"]["cudnn9"]}
    plan = ask()
    wanted = [*plan["driver"]["packages"], *plan["kernel"]["packages"], *plan["python"]["packages"]]
    wanted += [*plan["runtime"]["packages"], plan["cuda"]["package"]]
    wanted += [re.sub(r"-9\.10\.2\.21-1$", "", package) for package in plan["cudnn"]["packages"]]
    assert [package for package in wanted if package not in offered] == []
    assert plan["driver"]["stream"] in fleet["modules"][0]["streams"]
