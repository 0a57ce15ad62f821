"""The matrix is well-formed data: every row has a source, versions are text, and what rows name exists."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.candidates import PINS, build_cuda
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.reasons import TABLES
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.risks.holes import SEVERITIES
from ansible_collections.gpuwright.node.plugins.plugin_utils.software import bulletins
from conftest import REPOSITORY
from gpuwright.gpu.platforms import PARTS
from gpuwright.host.versions import version_key
from test_plan_questions import MATRIX, ask

SERIES = sorted({".".join(row["version"].split(".")[:2]) for row in MATRIX["cudnn"]})
SCHEMA = json.loads((REPOSITORY / "roles/preflight/files/matrix.schema.json").read_text())


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
        drop("drivers", "515", "unverified"),
        put("something", "drivers", "580", "unverified"),
        put(12.9, "cudnn", 0, "version"),
        put("soon", "drivers", "580", "eol"),
        put("a colleague", "pytorch", "2.10", "source"),
        put("open-dkms", "drivers", "580", "preferred_flavour"),
        put({}, "cuda", 12.9),
        put("pytorch", "pytorch", "2.10", "builds", "cu128", "index"),
        put(["volta"], "drivers", "580", "flavours", "open", "architectures"),
        put("9.10.2.21 or so", "pytorch", "2.10", "builds", "cu126", "cudnn"),
        drop("architectures", "volta", "drivers"),
        put(8.1, "os_releases", 0, "version"),
        drop("devices", "GV100", "source"),
        drop("devices", "GV100", "checked"),
        put("1d80", "devices", "GV100", "ids", 0),
        put("a card", "devices", "GV100", "cards", "0x1db4"),
    ],
)
def test_the_form_refuses_what_is_wrong(change: Callable[[dict], None]) -> None:
    matrix = copy.deepcopy(MATRIX)
    change(matrix)
    with pytest.raises((jsonschema.ValidationError, TypeError)):
        jsonschema.Draft202012Validator(SCHEMA).validate(matrix)


def test_the_node_knows_every_part_that_a_board_can_need() -> None:
    assert set(MATRIX["platform_parts"]) == set(PARTS)
    assert {need for row in MATRIX["platforms"].values() for need in row["needs"]} <= set(PARTS)
    for part in MATRIX["platform_parts"].values():
        assert set(part["archives"]) | set(part["unseen"]) <= set(MATRIX["os_families"])


def test_each_architecture_begins_and_ends_with_what_exists() -> None:
    for name, row in MATRIX["architectures"].items():
        ends = [*row["drivers"].values(), row["cuda"]]
        assert row.get("last_cudnn", SERIES[0]) in SERIES, name
        for branches in row["drivers"].values():
            assert set(branches.values()) <= set(MATRIX["drivers"]), name
        assert set(row["cuda"].values()) <= set(MATRIX["cuda"]), name
        assert all(end.get("from", "0") < end.get("to", "9") for end in ends), name
    for library in MATRIX["cudnn"]:
        assert set(library.get("without", ())) <= set(MATRIX["architectures"]), library["version"]


def test_capabilities_belong_to_an_architecture() -> None:
    known = {capability for entry in MATRIX["architectures"].values() for capability in entry["capabilities"]}
    for series, torch in MATRIX["pytorch"].items():
        for build, details in torch["builds"].items():
            usual = MATRIX["pytorch_builds"]["capabilities"][build]
            capabilities = details.get("capabilities", usual)
            assert set(capabilities) <= known, (series, build)
            assert capabilities == sorted(capabilities, key=version_key)
            assert details.get("capabilities") != usual, f"{series} {build} repeats what all {build} have"


def test_chips_are_of_a_known_architecture_and_capability() -> None:
    for chip, row in MATRIX["devices"].items():
        assert row["compute_capability"] in MATRIX["architectures"][row["architecture"]]["capabilities"], chip
        assert row["ids"] or row["cards"], chip


def test_other_references_exist() -> None:
    majors = set(MATRIX["cuda_majors"])
    family = MATRIX["os_families"]["el8"]
    assert {version.split(".")[0] for version in MATRIX["cuda"]} == majors
    assert MATRIX["default_profile"] in MATRIX["profiles"]
    for profile in MATRIX["profiles"].values():
        assert set(profile["pins"]) <= set(PINS)
    for release in MATRIX["tensorflow"].values():
        assert release["cuda"] in MATRIX["cuda"]
    for library in [*MATRIX["cudnn"], *MATRIX["nccl"]]:
        assert library["cuda_major"] in majors
    for library in MATRIX["cudnn"]:
        assert library["cuda_from"].split(".")[0] == library["cuda_major"]
        assert library["package_version"].startswith(library["version"] + ".")
        # The package of cuDNN 8 is for one CUDA, that of cuDNN 9 for a whole major version.
        assert (library["built_for"] != "") == library["version"].startswith("8.")
    for driver in MATRIX["drivers"].values():
        assert driver["preferred_flavour"] in driver["flavours"]
        assert driver["packages"] in family["driver_packages"]
        assert set(driver["flavours"]) <= set(family["flavours"])
    for release in MATRIX["os_releases"]:
        assert set(release["pythons"]) <= set(MATRIX["os_families"][release["family"]]["pythons"])


def test_names_of_pytorch_rows_agree_with_their_content() -> None:
    for series, torch in MATRIX["pytorch"].items():
        assert all(release.startswith(series + ".") for release in torch["releases"])
        assert torch["releases"] == sorted(torch["releases"], key=version_key)
        assert {build_cuda(build).split(".")[0] for build in torch["builds"]} <= set(MATRIX["cuda_majors"])
        assert [details.get("index") for details in torch["builds"].values()].count("pypi") == 1


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
    assert len(list(every_row(MATRIX))) > 100
    later = [entry for entry in every_row(MATRIX) if entry["checked"] > MATRIX["as_of"]]
    assert later == [], "checked later than as_of: set as_of in roles/preflight/files/matrix/about.yml to that day"


def test_every_table_says_of_when_it_is() -> None:
    """Whoever builds on a table can ask how old it is."""
    with_rows = {name: [row["checked"] for row in every_row(table)] for name, table in MATRIX.items()}
    with_rows = {name: days for name, days in with_rows.items() if days}
    assert set(MATRIX["tables"]) == set(with_rows)
    for name, table in MATRIX["tables"].items():
        # The whole was not compared before its first row was read, nor after the matrix was.
        # (The list of bulletins was read to its end later than its last entry, and nothing says how much later.)
        assert name == "bulletins" or min(with_rows[name]) <= table["as_of"], name
        assert table["as_of"] <= MATRIX["as_of"], name
    assert {name for names in TABLES.values() for name in names} <= set(MATRIX["tables"])
    known = bulletins.of(MATRIX)
    assert known.limit_days > 0 and max(str(one["date"]) for one in known.bulletins) <= known.as_of.isoformat()
    severities = {row["severity"] for one in known.bulletins for row in one["branches"].values()}
    assert severities <= set(SEVERITIES)


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


PYTHONS = [
    (name, version, family["format"], row["packages"], family["compiler"])
    for name, family in MATRIX["os_families"].items()
    for version, row in family["pythons"].items()
]


@pytest.mark.parametrize("family, version, form, packages, compiler", PYTHONS)
def test_every_python_comes_with_its_headers_and_a_compiler(
    family: str, version: str, form: str, packages: list[str], compiler: list[str]
) -> None:
    """Triton, which torch.compile needs, builds C with Python.h where it runs; Inductor and extensions build C++."""
    assert f"{packages[0]}{'-devel' if form == 'rpm' else '-dev'}" in packages
    assert set(compiler) == ({"gcc", "gcc-c++"} if form == "rpm" else {"gcc", "g++"})


@pytest.mark.parametrize("release", MATRIX["os_releases"], ids=lambda row: f"{row['id']} {row['version']}")
def test_every_release_plans_the_headers_and_a_compiler(release: dict[str, Any]) -> None:
    """Whatever its cards, with the plan's own choice of a Python."""
    card = "T4" if release["family"] in ("debian13", "el10") else "V100"
    python = ask(card, f"{release['id']} {release['version']}")["python"]
    family = MATRIX["os_families"][release["family"]]
    assert python["packages"] == [*family["pythons"][python["version"]]["packages"], *family["compiler"]]


def test_a_doubt_about_a_release_names_no_single_system() -> None:
    """It is said in a plan for any of them."""
    rows = [*MATRIX["cudnn"], *MATRIX["nccl"], *MATRIX["drivers"].values(), *MATRIX["cuda"].values()]
    rows += [*MATRIX["pytorch"].values(), *MATRIX["tensorflow"].values()]
    doubts = [row["unverified"] for row in rows if not row["verified"]]
    assert len(doubts) > 20
    assert [text for text in doubts if re.search(r"\b(EL|RHEL|Debian|Ubuntu) ?[0-9]", text)] == []
