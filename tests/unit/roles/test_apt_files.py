"""What the roles write for apt on Debian and Ubuntu, rendered for plans of every family that has apt."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import Any

import jinja2
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from gpuwright.packages.apt_sources import parse_targets, sources_text, wanted_stanzas
from test_plan_questions import MATRIX, REPOSITORY, ask, make_host
from test_signed_modules import ubuntu

SYSTEMS = [f"{row['id']} {row['version']}" for row in MATRIX["os_releases"]]
APT_SYSTEMS = [system for system in SYSTEMS if system.split()[0] in ("debian", "ubuntu")]


def plans(system: str) -> list[dict[str, Any]]:
    """From NVIDIA's repository and from the distribution's archive, both kernel modules."""
    sources = [{"driver_source": "nvidia"}, {"driver_source": "distribution"}]
    asked = [ask(card, system, **pins) for card in ("V100", "A100") for pins in sources]
    # NVIDIA's repository for Debian 13 has no driver for a V100.
    return [plan for plan in asked if "conflicts" not in plan]


def content_of(file: str, path: str) -> str:
    """The text that a task gives the file of this path, as it stands in the role."""
    tasks = yaml.safe_load((REPOSITORY / "roles" / file).read_text())
    entries = [entry for task in tasks for entry in task["gpuwright.node.files"]["entries"]]
    return next(entry["content"] for entry in entries if path in entry["path"])


def unattended_of(plan: dict[str, Any]) -> str:
    """The file that keeps unattended upgrades away from the driver of this plan."""
    content = content_of("system_driver/tasks/apt.yml", "__system_driver_unattended")
    variables = {
        **yaml.safe_load((REPOSITORY / "roles/system_driver/vars/main.yml").read_text()),
        "ansible_facts": {"gpu_node_plan": plan},
    }
    return str(Templar(loader=DataLoader(), variables=variables).template(content))


def shape(value: Any) -> Any:
    """The keys of a plan, without its values."""
    return {key: shape(inner) for key, inner in value.items()} if isinstance(value, dict) else type(value).__name__


@pytest.mark.parametrize("system", APT_SYSTEMS)
def test_unattended_upgrades_leave_every_planned_package_alone(system: str) -> None:
    text = unattended_of(next(iter(plans(system))))
    patterns = [re.compile(pattern) for pattern in re.findall(r'"(\^.*)";', text)]
    names = {
        name.split("=")[0]
        for plan in plans(system)
        for part in ("driver", "cudnn", "nccl")
        for name in plan[part]["packages"] + plan[part].get("version_lock", [])
    } | {plan["cuda"]["package"] for plan in plans(system)}
    assert len(names) > 5
    # Patterns, which a hold may name: what they begin with.
    names = {re.sub(r"\[.*|\*$", "", name) for name in names}
    # An Ubuntu that was installed with its prebuilt modules still has them.
    names |= {"linux-modules-nvidia-580-server-generic", "linux-objects-nvidia-580-server-6.8.0-50-generic"}
    assert [name for name in sorted(names) if name and not any(pattern.search(name) for pattern in patterns)] == []
    assert not any(pattern.search(name) for name in ("linux-image-generic", "openssl", "curl") for pattern in patterns)


@pytest.mark.parametrize(
    "stem", ["generic", "generic-hwe-22.04", "aws", "azure-6.8", "lowlatency-hwe-22.04", "nvidia", "nvidia-hwe-22.04"]
)
def test_a_kernel_stays_where_its_signed_module_stays(stem: str) -> None:
    """Unattended, a newer kernel would also come where its module has not come yet, or is that of a newer driver."""
    release = f"6.8.0-50-{stem.partition('-')[0]}"
    plan = solve(MATRIX, ubuntu(running=release, stem=stem), {})
    assert plan["driver"]["signed"]
    patterns = re.findall(r'"(\^.*)";', unattended_of(plan))
    # unattended-upgrades leaves a change alone that has any of these names in it.
    kernel = [f"linux-{stem}", f"linux-image-{stem}", f"linux-headers-{stem}", f"linux-image-{release}"]
    modules = [f"linux-{kind}-nvidia-580-server-open-6.8.0-60-generic" for kind in ("modules", "objects", "signatures")]
    modules.append(f"linux-modules-nvidia-580-server-open-{stem}")
    driver = ["nvidia-utils-580-server", "nvidia-kernel-common-580-server", "libnvidia-compute-580-server"]
    together = [*kernel, *modules, *driver]
    assert [name for name in together if not any(re.match(pattern, name) for pattern in patterns)] == []
    others = ("linux-libc-dev", "linux-image-raspi", "linux-tools-common", "linux-firmware", "openssl")
    assert [name for name in others if any(re.match(pattern, name) for pattern in patterns)] == []
    # Where DKMS builds a module for each kernel, these come unattended; those for NVIDIA have prebuilt modules.
    patterns = re.findall(
        r'"(\^.*)";', unattended_of(solve(MATRIX, ubuntu(running=release, stem=stem, key="enrolled"), {}))
    )
    alone = kernel if stem.startswith("nvidia") else []
    assert [name for name in kernel if any(re.match(pattern, name) for pattern in patterns)] == alone


def preference_of(plan: dict[str, Any]) -> list[str]:
    """The lines after the comment in the file that keeps apt to the planned driver."""
    text = content_of("system_driver/tasks/apt.yml", "__system_driver_preference")
    return (
        jinja2.Template(text, undefined=jinja2.StrictUndefined)
        .render(ansible_facts={"gpu_node_plan": plan})
        .splitlines()[1:]
    )


@pytest.mark.parametrize(
    "system, source",
    [
        ("debian 12", "nvidia-graphics-drivers"),
        ("ubuntu 22.04", "nvidia-graphics-drivers-535-server"),
        ("ubuntu 24.04", "nvidia-graphics-drivers-535-server"),
    ],
)
def test_an_exact_driver_is_held_with_all_that_is_built_with_it(system: str, source: str) -> None:
    plan = ask("V100", system, driver_source="distribution", driver_version="535.261.03")
    assert preference_of(plan) == [f"Package: src:{source}", "Pin: version 535.261.03-*", "Pin-Priority: 1000"]


@pytest.mark.parametrize("system", APT_SYSTEMS)
def test_nvidias_repository_is_kept_to_the_branch(system: str) -> None:
    """One suite has every branch, under names that are the same, or that lead from one to another."""
    names, version, priority = preference_of(ask("A100", system, driver_source="nvidia", driver_branch="595"))
    patterns = names.removeprefix("Package: ").split()
    driver = (
        "cuda-drivers",
        "cuda-drivers-595",
        "nvidia-driver-cuda",
        "nvidia-kernel-dkms",
        "libnvidia-ml1",
        "libcuda1",
    )
    assert [name for name in driver if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert not any(
        fnmatch(name, pattern) for name in ("cuda-toolkit-12-9", "libcudnn9-cuda-12") for pattern in patterns
    )
    assert (version, priority) == ("Pin: version 595.*", "Pin-Priority: 1000")
    exact = preference_of(ask("A100", system, driver_source="nvidia", driver_version="595.45.04"))
    assert exact[1] == "Pin: version 595.45.04-*"


def test_a_hold_goes_before_the_branch() -> None:
    """apt takes the first preference that fits a version, in the order of the files' names."""
    places = [
        yaml.safe_load((REPOSITORY / f"roles/{role}/vars/main.yml").read_text())[f"__{role}_{name}"]
        for role, name in (("system_version_lock", "file"), ("system_driver", "preference"))
    ]
    holds = [places[0].replace("{{ system_version_lock_owner }}", owner) for owner in ("kernel", "driver", "cuda")]
    assert sorted([*holds, places[1]])[-1] == places[1]


@pytest.mark.parametrize("version", ["6.1.176-1", ""], ids=["follows a kernel", "follows none"])
@pytest.mark.parametrize("system", APT_SYSTEMS)
def test_headers_do_not_bring_a_newer_kernel(system: str, version: str) -> None:
    """apt updates packages of one source together, so the headers' metapackage is asked for at the kernel's version."""
    flavour = "generic" if "ubuntu" in system else "cloud-amd64"
    running = f"6.1.0-50-{flavour}"
    metapackage = {"name": f"linux-image-{flavour}", "version": version, "brings": [running]}
    owner = {"package": f"linux-image-{running}", "version": "6.1.176-1"}
    found: dict[str, Any] = {"running": running, "next_boot": running, "owners": {running: owner}}
    found["metapackages"] = [metapackage] if version else []
    role = yaml.safe_load((REPOSITORY / "roles/system_kernel/vars/main.yml").read_text())
    facts = {
        "ansible_facts": {
            "gpu_node_plan": solve(MATRIX, make_host("V100", system, kernel=found), {}),
            "gpu_node": {"os": {"family": "debian"}},
        },
        "ansible_run_tags": ["system_kernel"],
        **role,
    }
    names = Templar(loader=DataLoader(), variables=facts).template(role["__system_kernel_versioned"])
    suffix = [f"linux-headers-{flavour}=6.1.176-1"] if version else []
    assert names == [f"linux-headers-{running}", "gcc", "make", "dkms", *suffix]


FOLLOWING = "Inst linux-modules-nvidia-580-server-open-generic (6.8.0-60.63 Ubuntu:24.04/noble-updates [amd64])"
MODULES = "Inst linux-modules-nvidia-580-server-open-6.8.0-50-generic (6.8.0-50.51 Ubuntu:24.04/noble-updates [amd64])"


@pytest.mark.parametrize(
    ("rc", "more", "installs"),
    [
        (0, [FOLLOWING, MODULES, "Conf linux-modules-nvidia-580-server-open-generic (6.8.0-60.63)"], True),
        (0, [FOLLOWING, "Inst linux-image-6.8.0-60-generic (6.8.0-60.63 Ubuntu:24.04 [amd64])"], False),
        (0, [FOLLOWING, "Inst nvidia-compute-utils-580-server [580.65.06] (580.95.05 Ubuntu:24.04 [amd64])"], False),
        (0, ["Remv nvidia-firmware-580-server-580.65.06 [580.65.06]", FOLLOWING], False),
        (0, ["0 upgraded, 0 newly installed, 0 to remove and 9 not upgraded."], False),
        (100, [FOLLOWING, "E: Unable to correct problems, you have held broken packages."], False),
    ],
    ids=["modules alone", "a kernel", "another driver", "a removal", "nothing", "refused"],
)
def test_the_metapackage_of_signed_modules_brings_modules_and_nothing_else(rc: int, more: list, installs: bool) -> None:
    asks, installing = yaml.safe_load((REPOSITORY / "roles/system_driver/tasks/follow.yml").read_text())
    assert "--no-install-recommends" in asks["ansible.builtin.command"]["argv"]
    told = {"rc": rc, "stdout": "\n".join(more), "stdout_lines": more}
    templar = Templar(loader=DataLoader(), variables={asks["register"]: told})
    assert all(templar.template(f"{{{{ {condition} }}}}") for condition in installing["when"]) is installs


def test_ubuntu_gets_the_components_of_its_drivers_from_its_own_mirror() -> None:
    """Components, suites and file of the sources that Ubuntu 24.04 is installed with (ubuntu.sources)."""
    file = "/etc/apt/sources.list.d/ubuntu.sources"
    mirror, security = "http://mirror.example/ubuntu/", "http://security.example/ubuntu/"
    suites = [(mirror, "noble"), (mirror, "noble-updates"), (security, "noble-security")]
    lines = [f"{file}:1|Ubuntu|{uri}|{suite}|{part}" for uri, suite in suites for part in ("main", "universe")]
    lines.append("/etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.sources:1|NVIDIA|http://nvidia.example/|/|")
    components = ask("V100", "ubuntu 24.04", driver_source="distribution")["driver"]["components"]
    stanzas = wanted_stanzas(parse_targets("\n".join(lines)), components, "/etc/apt/sources.list.d/ours.sources")
    assert sources_text(stanzas, ["/usr/share/keyrings/ubuntu-archive-keyring.gpg"]).split("\n\n")[1:] == [
        "Types: deb\nURIs: http://mirror.example/ubuntu/\nSuites: noble noble-updates\n"
        "Components: restricted multiverse\nSigned-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg",
        "Types: deb\nURIs: http://security.example/ubuntu/\nSuites: noble-security\n"
        "Components: restricted multiverse\nSigned-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg\n",
    ]


def test_no_task_can_miss_a_word_of_the_plan_on_another_system() -> None:
    """The tasks are the same everywhere, so a plan must say the same things everywhere."""
    # Words for people, of the parts that have something to say; and by name.
    other = ("repositories", "neighbours")
    expected = {key: value for key, value in shape(ask("V100", "rhel 8.8")).items() if key not in other}
    for system in SYSTEMS:
        found = {key: value for key, value in shape(ask("T4", system)).items() if key not in other}
        assert found["driver"].pop("repository"), system
        assert found == {**expected, "driver": {k: v for k, v in expected["driver"].items() if k != "repository"}}
