"""EL 9, EL 10, Debian 13, and processors on which nothing is installed: what is said, and what is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.typed_names import newest_release
from test_plan_questions import MATRIX, ask, make_host

NOTHING = "This version installs nothing on "


def look(card: str, system: str, machine: str = "", **pins: str) -> dict[str, Any]:
    return solve({**MATRIX, "locks": []}, imagined_host(card, system, "", machine, MATRIX["os_releases"]), pins)


# Card, system, processor, pins; driver, CUDA, Python, PyTorch. glibc and Python of the systems: Red Hat's and Debian's
# pages; module streams, repositories: NVIDIA's driver installation guide 620; wheels: their metadata on PyPI.
PLANNED = [
    ("H100 PCIe", "rhel 9", "", {}, "620 open 620-open cuda-toolkit-13-4 3.12 pypi"),
    ("H100 PCIe", "alma 9.4", "", {}, "620 open 620-open cuda-toolkit-13-4 3.12 pypi"),
    ("V100-PCIE-16GB", "rocky 9.6", "", {}, "580 proprietary 580-dkms cuda-toolkit-12-9 3.12 pypi"),
    ("V100-PCIE-16GB", "rhel 9", "", {"python": "3.9"}, "580 proprietary 580-dkms cuda-toolkit-12-9 3.9 pypi"),
    ("V100-PCIE-16GB", "rhel 9", "", {"pytorch": "2.14"}, "580 proprietary 580-dkms cuda-toolkit-12-9 3.12 cu126"),
    ("T4", "rhel 9", "", {"driver_branch": "580"}, "580 open 580-open cuda-toolkit-13-0 3.12 pypi"),
    ("L40S", "rhel 9", "", {"cuda": "12.4"}, "620 open 620-open cuda-toolkit-12-4 3.12 pypi"),
    # dnf has no modules on EL 10: the branch is kept by a version lock.
    ("H100 PCIe", "rhel 10", "", {}, "620 open - cuda-toolkit-13-4 3.12 pypi"),
    ("B200", "rocky 10.1", "", {}, "620 open - cuda-toolkit-13-4 3.12 pypi"),
    ("A100-PCIE-40GB", "debian 13", "", {}, "620 open - cuda-toolkit-13-4 3.13 pypi"),
    # Debian's own driver, beside its own toolkit.
    ("V100-PCIE-16GB", "debian 13.1", "", {}, "535 proprietary - nvidia-cuda-toolkit 3.13 pypi"),
    ("GH200", "", "", {}, "620 open 620-open cuda-toolkit-13-4 3.12 pypi"),
    ("GH200 480GB", "rhel 9", "", {}, "620 open 620-open cuda-toolkit-13-4 3.12 pypi"),
    ("GB200", "ubuntu 24.04", "", {}, "620 open - cuda-toolkit-13-4 3.12 pypi"),
    ("A100-PCIE-40GB", "ubuntu 22.04", "aarch64", {}, "620 open - cuda-toolkit-13-4 3.10 pypi"),
]


@pytest.mark.parametrize("question", PLANNED, ids=lambda row: " ".join(row[:3]).replace(" ", "_"))
def test_what_fits_is_said_and_marked(question: tuple[Any, ...]) -> None:
    card, system, machine, pins, wanted = question
    plan = look(card, system, machine, **pins)
    assert "conflicts" not in plan, plan["conflicts"]
    driver, torch = plan["driver"], plan["pytorch"]
    parts = [driver["branch"], driver["flavour"], driver["stream"] or "-", plan["cuda"]["package"]]
    parts += [plan["python"]["version"], torch["index_url"].rsplit("/", 1)[-1] or "pypi"]
    assert " ".join(parts) == wanted
    # What was tried on no host says so.
    elsewhere = machine == "aarch64" or card.startswith("G")
    which = "only a container" if system.startswith("debian") else "no host"
    assert elsewhere or any(f"{which} with it was available" in text for text in plan["warnings"])
    assert plan["warnings"][0].startswith(NOTHING) == elsewhere
    # Nobody is sent to make a lock for a run that would be refused.
    assert any("make lock" in text for text in plan["warnings"]) != elsewhere
    if elsewhere:
        assert "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/" in plan["warnings"][0]


REFUSED = [
    # NVIDIA's repository for EL 10 begins with CUDA 13.0, which ended with Turing.
    ("V100-PCIE-16GB", "rhel 10", "", {}, "CUDA 12.9 is not in NVIDIA's repository for RHEL 10: it begins with 13.0"),
    ("H100 PCIe", "debian 13", "", {"python": "3.12"}, "Debian 13 has no Python 3.12: it has 3.13"),
    ("H100 PCIe", "rhel 9", "", {"python": "3.8"}, "RHEL 9 has no Python 3.8"),
    ("A100-PCIE-40GB", "rhel 9", "", {"cuda": "11.0"}, "it begins with 11.7"),
    ("T4", "debian 13", "", {"pytorch": "2.4"}, "no wheels for Python 3.13"),
    ("GH200", "debian 12", "", {}, "NVIDIA's repository for aarch64 was not seen for Debian 12"),
    ("GH200", "rhel 9", "", {"pytorch": "2.10"}, "only on the processor on aarch64: the first on PyPI with CUDA"),
    ("GH200", "rhel 9", "", {"pytorch_build": "cu126"}, "was not checked for aarch64"),
    ("GH200", "rhel 9", "", {"driver_flavour": "proprietary"}, "NVIDIA supports only the open module"),
    ("GH200", "rhel 9", "", {"tensorflow": "2.20"}, "compute only on the processor"),
    ("GH200", "ubuntu 24.04", "", {"driver_source": "distribution"}, "was not checked for aarch64"),
    ("A100-PCIE-40GB", "rhel 9", "ppc64le", {}, "installs only on x86_64"),
    ("A100-PCIE-40GB", "fedora 42", "", {}, "fedora 42 is not installed by this version"),
    ("A100-PCIE-40GB", "rhel 11", "", {}, "RHEL 11 is not installed by this version"),
    ("A100-PCIE-40GB", "debian 14", "", {}, "Debian 14 is not installed by this version"),
    ("A100-PCIE-40GB", "rhel 8.11", "", {}, "Update the host to 8.10, or write its row"),
]  # fmt: skip


@pytest.mark.parametrize("question", REFUSED, ids=lambda row: " ".join(row[:3]).replace(" ", "_"))
def test_what_cannot_be_had_there_is_refused(question: tuple[Any, ...]) -> None:
    card, system, machine, pins, words = question
    answer = look(card, system, machine, **pins)
    assert "conflicts" in answer, answer["because"]
    assert words in " ".join(entry["what"] for entry in answer["conflicts"])


def test_packages_for_another_processor_come_from_its_repository() -> None:
    plan = look("GH200", "rhel 9")
    assert plan["driver"]["repository"]["url"] == "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/sbsa/"
    assert plan["repositories"]["base"]["subscription"] == "rhel-9-for-aarch64-baseos-rpms"
    assert "x86_64" not in json.dumps(plan).replace("x86_64 alone", "")
    assert plan["pytorch"]["locked"] is False


def test_a_branch_is_kept_without_module_streams() -> None:
    plan = look("H100 PCIe", "rhel 10")
    assert any("only a version lock keeps dnf to branch 620" in text for text in plan["warnings"])
    assert plan["guards"]["driver"] == ["a version lock, which dnf and dnf-automatic honour"]
    # All branches are versions of the same packages there, and dnf would take the newest.
    assert plan["driver"]["packages"][:2] == ["kmod-nvidia-open-dkms-620.*", "nvidia-driver-cuda-620.*"]
    assert all(name.endswith("-620.*") for name in plan["driver"]["packages"])
    assert not any("620" in name for name in plan["driver"]["version_lock"])
    exact = look("H100 PCIe", "rhel 10", driver_version="580.95.05")["driver"]
    assert exact["packages"][1] == exact["version_lock"][1] == "nvidia-driver-cuda-580.95.05"
    with_streams = look("H100 PCIe", "rhel 9")["driver"]
    assert with_streams["packages"][1] == "nvidia-driver-cuda" and with_streams["stream"] == "620-open"


@pytest.mark.parametrize(
    ("system", "pythons", "eol"),
    [
        ("rhel 9.0", "3.9", "since 2024-05 with Extended Update Support (EUS)"),
        ("rhel 9.2", "3.11", "since 2025-05"),
        ("rhel 9.4", "3.12", "since 2026-04"),
        ("rocky 9.6", "3.12", "since 2025-11"),
        ("rhel 9.8", "3.12", ""),
        ("almalinux 9.10", "3.12", ""),
        ("rocky 10.0", "3.12", "since 2025-11"),
        ("rhel 10.3", "3.12", ""),
        ("debian 13", "3.13", ""),
    ],
)
def test_a_host_is_planned_for(system: str, pythons: str, eol: str) -> None:
    """Minor releases without a row of their own are as the newest, whatever comes after this version."""
    plan = ask("H100", system)
    assert "conflicts" not in plan, plan["conflicts"]
    assert plan["python"]["version"] == pythons and plan["pytorch"]["locked"] is not None
    aged = [text for text in plan["warnings"] if "has had no updates" in text and "Python" not in text]
    assert bool(aged) == bool(eol) and all(eol in text for text in aged), aged


def test_epel_is_that_of_the_system() -> None:
    """Its address and key are the plan's: no role knows one of them by heart."""
    versions = {"rhel 8.10": "8", "rocky 9.4": "9", "almalinux 10.1": "10"}
    epel = {number: ask("H100", system)["epel"] for system, number in versions.items()}
    assert all(f"/epel/{number}/" in row["url"] and row["title"].endswith(number) for number, row in epel.items())
    assert all(row["key_url"].endswith("RPM-GPG-KEY-EPEL-" + number) for number, row in epel.items())
    assert len({row["key_fingerprint"] for row in epel.values()}) == 3
    assert look("GH200", "rhel 9")["epel"]["url"].endswith("/aarch64/")
    assert set(ask("H100", "debian 13")["epel"].values()) == {""}


def test_a_key_without_a_known_fingerprint_is_told() -> None:
    told = [text for text in ask("H100", "rhel 10.1")["warnings"] if "system_driver_repository_key_fingerprint" in text]
    assert len(told) == 1 and "CDF6BA43.pub" in told[0]
    for system in ("rhel 9.6", "debian 13", "rhel 8.10"):
        assert not any("key_fingerprint" in text for text in ask("H100", system)["warnings"])


def test_a_host_of_another_processor_is_refused_and_told_how_to_look() -> None:
    (refused,) = solve(MATRIX, make_host("H100", "rhel 8.10", machine="aarch64"), {})["conflicts"]
    assert "this version installs only on x86_64" in refused["what"] and "--machine aarch64" in refused["what"]


def test_every_family_is_installed_and_its_key_ends_as_its_file_is_called() -> None:
    assert {row["family"] for row in MATRIX["os_releases"]} == set(MATRIX["os_families"])
    for name, family in MATRIX["os_families"].items():
        repository = family["cuda_repository"]
        short = repository["key_url"].rsplit("/", 1)[1].partition(".")[0].upper()
        assert (repository["key_fingerprint"] or short).endswith(short), name


@pytest.mark.parametrize(
    ("core", "system", "words"),
    [
        ("2.16.19", "rhel 8.8", ""),
        ("2.17.14", "rhel 8.8", "its modules need Python 3.7"),
        ("2.20.1", "almalinux 8.10", "its modules need Python 3.7"),
        ("2.20.1", "rhel 9.6", ""),
        ("2.19.4", "rocky 10.1", ""),
        ("2.21.0rc1", "debian 13", ""),
        ("2.15.13", "rhel 9.6", "it is too old"),
    ],
)
def test_only_el8_holds_the_controller_back(core: str, system: str, words: str) -> None:
    """Each host of a run says which ansible-core can manage it, so that a run without EL 8 may have a newer one."""
    answer = solve(MATRIX, make_host("H100", system, ansible_core=core), {})
    told = " ".join(entry["what"] for entry in answer.get("conflicts", []))
    assert ("cannot manage" in told) == bool(words) and words in told, told


@pytest.mark.parametrize(
    ("system", "pins", "doubted"),
    [
        # From Debian's own archive, whose row has its source.
        ("debian 13", {"driver_branch": "550"}, ""),
        ("debian 12", {"driver_branch": "550"}, "whether NVIDIA's repositories still offer branch 550"),
        ("rhel 8.8", {"driver_branch": "550"}, "whether NVIDIA's repositories still offer branch 550"),
        ("debian 13", {"driver_version": "550.163.01"}, ""),
    ],
    ids=["archive", "apt", "dnf", "version"],
)
def test_a_doubt_about_a_driver_is_one_about_where_it_comes_from(
    system: str, pins: dict[str, str], doubted: str
) -> None:
    plan = look("V100-PCIE-16GB", system, **pins)
    assert plan["driver"]["branch"] == "550"
    said = [text for text in plan["warnings"] if text.startswith("Driver 550") and "not verified" in text]
    assert [text.rpartition("not verified: ")[2] for text in said] == ([doubted] if doubted else [])


OTHER_PINS: list[dict[str, str]] = [
    {},
    {"cuda": "12"},
    {"nccl": "2"},
    {"cuda": "12", "tensorflow": "2", "nccl": "2"},
    {"python": "3.12", "pytorch": "2.9"},
]
LAST = re.compile(r" There is a plan for it on (.*)\.$")


def newest_of_each_family() -> dict[str, str]:
    """`{name of a family as a refusal has it: a system}`, each of its newest release."""
    systems = {}
    for family, row in MATRIX["os_families"].items():
        newest = newest_release([release for release in MATRIX["os_releases"] if release["family"] == family])
        title = f"{row['name']} ({newest['version']})" if "," in row["name"] else row["name"]
        systems[title] = f"{newest['id']} {newest['version']}"
    return systems


@pytest.mark.parametrize("pins", OTHER_PINS, ids=lambda pins: " ".join(pins) or "none")
def test_the_systems_that_a_refusal_names_are_those_that_have_a_plan(pins: dict[str, str]) -> None:
    """Each system is asked by itself here; the refusal asks for all of them together."""
    systems = newest_of_each_family()
    named = []
    for card in ("Tesla K80", "Tesla M60", "Tesla P100", "Tesla V100-PCIE-16GB", "Tesla T4", "NVIDIA B200"):
        answers = {title: look(card, system, **pins) for title, system in systems.items()}
        having = [title for title, answer in answers.items() if "conflicts" not in answer]
        for answer in answers.values():
            conflicts = answer.get("conflicts", [])
            # The toolkit may be left out besides: that is a way for this system.
            if conflicts and all(entry["choices"] in ([], [{"cuda": "none"}]) for entry in conflicts):
                found = LAST.search(conflicts[0]["what"])
                assert (found.group(1).split(" or ") if found else []) == having, (card, conflicts)
                named.append(bool(found))
    assert True in named, "no card that has a plan on some systems alone"
