"""Headers, image and holds follow the kernel that runs; a kernel without a known twin is refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.clash import conflict_message
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from ansible_collections.gpuwright.node.plugins.plugin_utils.preflight_rows import plan_rows
from fact_schemas import plan_errors
from test_plan_questions import MATRIX, make_host

FILE = Path(__file__).with_name("kernel_questions.txt")
VERSION = "6.1.192-2"


class Question(NamedTuple):
    system: str
    running: str
    owner: str
    metapackages: dict[str, str]
    devel: str
    headers: list[str]
    image: list[str]


def questions() -> list[Question]:
    found = []
    for line in FILE.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        system, running, owner, metapackages, devel, headers, image = ([*map(str.strip, line.split("|")), "", ""])[:7]
        brings = dict(word.replace("+", running, word.endswith(">+")).split(">") for word in words(metapackages))
        owner = f"linux-image-{running}" if owner == "=" else owner.strip("-")
        found.append(Question(system, running, owner, brings, devel, words(headers), words(image)))
    return found


def words(text: str) -> list[str]:
    return [] if text == "-" else text.split()


def kernel(running: str, owner: str, metapackages: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    """What gpu_probe says of the kernels; whatever a metapackage brings is installed, too."""
    brings = metapackages or {}
    installed = sorted({running, *brings.values()})
    owners = {name: {"package": f"linux-image-{name}", "version": VERSION} for name in installed}
    owners.pop(running)
    return {
        "running": running, "next_boot": running, "installed": installed, "with_headers": [], "boot_id": "1",
        "build": "#1",
        "boot_entry": {"kind": "unknown", "text": "", "first": ""},
        "owners": {**owners, **({running: {"package": owner, "version": VERSION}} if owner else {})},
        "metapackages": [{"name": name, "version": VERSION, "brings": [to]} for name, to in brings.items()],
        **changes,
    }  # fmt: skip


def plan_of(system: str, found: dict[str, Any], gpus: str = "A100", **changes: Any) -> dict[str, Any]:
    return solve(MATRIX, make_host(gpus, system, kernel=found, **changes), {})


CASES = questions()
PLANNED = [case for case in CASES if case.devel != "refused"]
REFUSED = [case for case in CASES if case.devel == "refused"]


@pytest.mark.parametrize("case", PLANNED, ids=lambda case: f"{case.running}, {case.owner} {list(case.metapackages)}")
def test_packages_follow_the_kernel_that_runs(case: Question) -> None:
    plan = plan_of(case.system, kernel(case.running, case.owner, case.metapackages))
    found = plan["kernel"]
    assert plan_errors(plan) == []
    assert found["devel"] == [case.devel] and found["headers"][case.running] == case.devel
    own = {"gcc", "make", "dkms", "elfutils-libelf-devel", "kernel-headers"}
    assert [name for name in found["packages"] if name not in own] == case.headers
    rpm = not case.running.endswith(("amd64", "generic")) and "kernel" in case.owner
    assert [name for name in found["image"] if not rpm or "-modules" not in name] == case.image
    assert set(case.image) | set(case.headers) <= set(found["updated"])
    # Of another flavour there is nothing in the whole part.
    others = {name for name in case.metapackages if name not in case.image}
    names = {*found["packages"], *found["devel"], *found["image"], *found["updated"], *found["hold"]}
    assert not others & names and not {name.replace("-image-", "-headers-") for name in others} & names
    assert {name.replace("-image-", "-headers-") for name in set(case.image) & set(case.metapackages)} == set(
        case.headers
    )
    assert set(found["versions"]) == set(case.headers) and set(found["versions"].values()) <= {VERSION}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case.running}, {case.owner or 'no package'}")
def test_a_kernel_without_a_known_twin_is_refused_by_name(case: Question) -> None:
    host = make_host("A100", case.system, kernel=kernel(case.running, case.owner, case.metapackages))
    refused = solve(MATRIX, host, {})
    text = conflict_message(host, refused["conflicts"])
    assert case.running in text and text.endswith("[kernel.flavour]"), text
    assert (case.owner or "no package owns its image") in text and "Install and boot a kernel of" in text
    (row,) = plan_rows(refused)
    assert row["id"] == "kernel.flavour" and row["stops"] and "Install and boot" in row["next"]
    # To be judged, or without GPUs, it needs no headers; and no name is guessed for it.
    judged = solve(MATRIX, {**host, "only_judged": True}, {})["kernel"]
    bare = solve(MATRIX, {**host, "gpus": []}, {"pytorch_build": "cpu"})["kernel"]
    for found in (judged, bare):
        assert found["flavour"] == "" and found["devel"] == found["image"] == found["updated"] == found["hold"] == []


def test_the_questions_cover_every_flavour() -> None:
    asked = " ".join(f"{case.running} {case.owner}" for case in PLANNED)
    without = {"arm64", "cloud-arm64", "rt-arm64", "gkeop"}
    for name, table in MATRIX["kernel_flavours"].items():
        for flavour, row in table["flavours"].items():
            if flavour not in without and not flavour.endswith("-64k"):
                words = row.get("owner", [flavour])
                assert any(re.search(rf"\b{re.escape(word)}\b", asked) for word in words), (name, flavour)


def test_a_kernel_of_arm_gets_the_headers_of_arm() -> None:
    found = kernel(
        "6.12.117+deb13-arm64", "linux-image-6.12.117+deb13-arm64", {"linux-image-arm64": "6.12.117+deb13-arm64"}
    )
    plan = plan_of("debian 13", found, machine="aarch64", only_judged=True)
    assert plan["kernel"]["packages"][-1] == "linux-headers-arm64"
    imagined = {"running": "<running kernel>", "next_boot": "<running kernel>"}
    assert plan_of("debian 13", imagined, machine="aarch64", imagined=True)["kernel"]["flavour"] == "arm64"


def test_the_next_boot_may_be_of_another_flavour() -> None:
    """Both get headers, and both what brings newer ones; an update is for the one that runs."""
    metapackages = {"linux-image-amd64": "6.1.0-56-amd64", "linux-image-cloud-amd64": "6.1.0-56-cloud-amd64"}
    found = kernel("6.1.0-56-amd64", "linux-image-6.1.0-56-amd64", metapackages, next_boot="6.1.0-56-cloud-amd64")
    plan = plan_of("debian 12", found)
    assert plan["kernel"]["devel"] == ["linux-headers-6.1.0-56-amd64", "linux-headers-6.1.0-56-cloud-amd64"]
    assert plan["kernel"]["packages"][3:] == ["linux-headers-amd64", "linux-headers-cloud-amd64"]
    assert plan["kernel"]["image"] == ["linux-image-amd64", "linux-image-6.1.0-56-amd64"]
    assert plan["kernel"]["next_flavour"] == "6.1.0-56-cloud-amd64"
    assert any("of another flavour" in warning for warning in plan["warnings"])
    # Two series under one name are two flavours, and a newer kernel of the same series is none.
    both = {"linux-image-generic": "5.15.0-118-generic", "linux-image-generic-hwe-22.04": "6.8.0-79-generic"}
    for next_boot, expected in (("6.8.0-79-generic", "6.8.0-79-generic"), ("5.15.0-118-generic", "")):
        found = kernel("5.15.0-100-generic", "linux-image-5.15.0-100-generic", both, next_boot=next_boot)
        assert plan_of("ubuntu 22.04", found)["kernel"]["next_flavour"] == expected
    found = kernel("4.18.0-1.el8.x86_64", "kernel-core", next_boot="4.18.0-1.rt7.1.el8.x86_64")
    found["owners"]["4.18.0-1.rt7.1.el8.x86_64"] = {"package": "kernel-rt-core", "version": "1"}
    plan = plan_of("rhel 8.8", found)["kernel"]
    assert plan["devel"] == ["kernel-devel-4.18.0-1.el8.x86_64", "kernel-rt-devel-4.18.0-1.rt7.1.el8.x86_64"]
    assert plan["next_flavour"] == "4.18.0-1.rt7.1.el8.x86_64" and "kernel-rt-core" not in plan["updated"]


def test_a_next_boot_that_is_not_known_is_refused_too() -> None:
    found = kernel("4.18.0-1.el8.x86_64", "kernel-core", next_boot="0-rescue-77")
    (entry,) = plan_of("rhel 8.8", found)["conflicts"]
    assert "kernel 0-rescue-77, which boots next: no package owns its image" in entry["what"]


def test_without_a_metapackage_the_plan_says_what_does_not_come_by_itself() -> None:
    running = "6.1.0-56-cloud-amd64"
    plan = plan_of("debian 12", kernel(running, f"linux-image-{running}"))
    (warning,) = (text for text in plan["warnings"] if "No installed metapackage follows" in text)
    assert running in warning and "linux-image-*cloud-amd64*" in warning
    followed = plan_of("debian 12", kernel(running, f"linux-image-{running}", {"linux-image-cloud-amd64": running}))
    assert not any("metapackage" in text for text in followed["warnings"])


@pytest.mark.parametrize(
    ("system", "running", "installed", "newest"),
    [
        ("rhel 8.8", "4.18.0-1.el8.x86_64", {"4.18.0-2.el8.x86_64": "kernel-core"}, "4.18.0-2.el8.x86_64"),
        ("rhel 8.8", "4.18.0-1.el8.x86_64", {"5.4.17-2.el8uek.x86_64": "kernel-uek"}, "4.18.0-1.el8.x86_64"),
        ("debian 12", "6.1.0-1-amd64", {"6.1.0-2-cloud-amd64": "linux-image-6.1.0-2-cloud-amd64"}, "6.1.0-1-amd64"),
        ("debian 12", "6.1.0-1-amd64", {"6.1.0-2-amd64": "linux-image-6.1.0-2-amd64"}, "6.1.0-2-amd64"),
        ("debian 12", "6.1.0-1-amd64", {"6.9.9-amd64": ""}, "6.1.0-1-amd64"),
    ],
)  # fmt: skip
def test_the_newest_kernel_is_of_the_flavour_that_runs(
    system: str, running: str, installed: dict[str, str], newest: str
) -> None:
    found = kernel(running, "kernel-core" if "rhel" in system else f"linux-image-{running}")
    found["installed"] = [running, *installed]
    found["owners"].update({name: {"package": owner, "version": "1"} for name, owner in installed.items() if owner})
    assert plan_of(system, found)["kernel"]["newest"] == newest


def test_what_a_metapackage_has_brought_is_newer_whatever_else_is_installed() -> None:
    found = kernel("6.1.0-50-amd64", "linux-image-6.1.0-50-amd64", {"linux-image-amd64": "6.1.0-56-amd64"})
    found["installed"].append("6.12.117+deb12-amd64")
    found["owners"]["6.12.117+deb12-amd64"] = {"package": "linux-image-6.12.117+deb12-amd64", "version": "1"}
    assert plan_of("debian 12", found)["kernel"]["newest"] == "6.1.0-56-amd64"


@pytest.mark.parametrize(
    ("system", "running", "devel"),
    [
        ("debian 12", "6.1.0-56-cloud-amd64", "linux-headers-6.1.0-56-cloud-amd64"),
        ("ubuntu 22.04", "5.15.0-1080-aws", "linux-headers-5.15.0-1080-aws"),
        ("rhel 8.8", "4.18.0-477.10.1.el8_8.x86_64", "kernel-devel-4.18.0-477.10.1.el8_8.x86_64"),
        ("rhel 9.6", "5.14.0-570.12.1.el9_6.x86_64+rt", "kernel-rt-devel-5.14.0-570.12.1.el9_6.x86_64"),
        ("rhel 8.10", "4.18.0-553.rt7.342.el8_10.x86_64", "kernel-rt-devel-4.18.0-553.rt7.342.el8_10.x86_64"),
        ("rhel 8.10", "5.4.17-2136.330.7.1.el8uek.x86_64", "kernel-uek-devel-5.4.17-2136.330.7.1.el8uek.x86_64"),
        ("debian 12", "6.1.50-custom", ""),
        # Two kernels of ELRepo are called alike.
        ("rocky 9.6", "6.16.5-1.el9.elrepo.x86_64", ""),
    ],
)
def test_where_the_package_manager_does_not_answer_the_release_tells_or_nothing_does(
    system: str, running: str, devel: str
) -> None:
    plan = plan_of(system, kernel(running, "x", owners=None))
    if devel:
        assert plan["kernel"]["devel"] == [devel]
    else:
        assert "the package manager does not say whose its image is" in plan["conflicts"][0]["what"]


def test_an_image_is_made_for_the_flavour_of_its_target() -> None:
    """The kernel that runs is of the machine on which it is made, and no package of the image owns it."""
    target = "6.1.0-56-cloud-amd64"
    found = kernel(target, f"linux-image-{target}", {"linux-image-cloud-amd64": target})
    found["running"] = "6.18.0"
    plan = plan_of("debian 12", found, kernel_target=target)["kernel"]
    assert (plan["devel"], plan["packages"][-1]) == ([f"linux-headers-{target}"], "linux-headers-cloud-amd64")
    # Before that kernel is installed, only its name can tell; one that is there belongs to somebody.
    bare = {**found, "installed": [], "owners": {}, "metapackages": []}
    plan = plan_of("debian 12", bare, kernel_target=target)["kernel"]
    assert (plan["devel"], plan["packages"]) == ([f"linux-headers-{target}"], ["gcc", "make", "dkms"])
    for kept in ({**bare, "installed": [target]}, {**bare, "running": target, "next_boot": target}):
        asked = {} if kept["running"] == target else {"kernel_target": target}
        assert "no package owns its image" in plan_of("debian 12", kept, **asked)["conflicts"][0]["what"]
    refused = plan_of("debian 12", bare, kernel_target="6.1.50-custom")["conflicts"][0]
    assert "6.1.50-custom, which is asked for" in refused["what"]
