"""A patch day that would end with the old kernel is no success: what is due, what is left out, and which entry wins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from conftest import REPOSITORY
from left_out_site import Site, reached
from rollout_site import table
from test_patch_runs import Patches, remember
from test_plan_questions import MATRIX

NODE = "{{ ansible_facts.gpu_node | combine(%s, recursive=true) }}"
ROLE = REPOSITORY / "roles/patch"
OLD, NEW, OTHER = "6.1.0-50-cloud-amd64", "6.1.0-56-cloud-amd64", "6.1.0-56-amd64"
CLOUD = {
    "image": ["linux-image-cloud-amd64", f"linux-image-{OLD}"],
    "updated": ["linux-image-cloud-amd64", f"linux-image-{OLD}", "linux-headers-cloud-amd64"],
    "newest": OLD,
}
EL = {
    "image": ["kernel-rt", "kernel-rt-core", "kernel-rt-modules"],
    "updated": ["kernel-rt", "kernel-rt-core", "kernel-rt-modules", "kernel-rt-devel", "kernel-headers"],
    "newest": "4.18.0-1.rt7.1.el8.x86_64",
}
APT = f"""\
Inst linux-image-{NEW} (6.1.192-2 Debian-Security:12/oldstable-security [amd64])
Inst linux-image-cloud-amd64 [6.1.176-1] (6.1.192-2 Debian-Security:12/oldstable-security [amd64])
Inst linux-headers-cloud-amd64 [6.1.176-1] (6.1.192-2 Debian-Security:12/oldstable-security [amd64])
"""
UPGRADE = """\
Inst openssl [3.0.1] (3.0.2 Debian-Security:12/oldstable-security [amd64])
Inst linux-image-cloud-amd64 [6.1.176-1] (6.1.192-2 Debian-Security:12/oldstable-security [amd64])
Inst linux-image-6.1.0-50-rt-amd64 [6.1.176-1] (6.1.176-2 Debian-Security:12/oldstable-security [amd64])
Inst linux-libc-dev [6.1.176-1] (6.1.192-2 Debian-Security:12/oldstable-security [amd64])
Inst vim [1] (2 Debian:12/oldstable [amd64])
"""


def due(family: str, kernel: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """What the role would remember for these answers of the package manager."""
    variables = {
        **yaml.safe_load((ROLE / "vars/main.yml").read_text()),
        "ansible_facts": {
            "gpu_node": {"os": {"family": family}, "kernel": {"running": facts.pop("running", kernel["newest"])}},
            "gpu_node_plan": {
                "kernel": {"module": "", "follow": [], **kernel},
                "driver_parts": MATRIX["driver_parts"],
            },
        },
        "patch_updates": "security",
        "__patch_held": False,
        **facts,
    }
    steps = yaml.safe_load((ROLE / "tasks/remember.yml").read_text())
    templar = Templar(loader=DataLoader(), variables=variables)
    found = templar.template(steps[0]["ansible.builtin.set_fact"]["patch_due"])
    variables["patch_due"] = found
    return {
        **found,
        "excludes": templar.template(variables["__patch_dnf_excludes"]),
        "told": templar.template(steps[1]["ansible.builtin.debug"]["msg"])[0],
        "together": templar.template(variables["__patch_together"]),
    }


def test_what_the_kernel_brings_is_left_out_of_the_updates_and_nothing_else() -> None:
    found = due("debian", CLOUD, __patch_kernel_apt={"stdout": APT}, __patch_apt={"stdout_lines": UPGRADE.splitlines()})
    assert found["kernel"] is True and found["packages"] == [f"linux-image-{NEW}", "linux-image-cloud-amd64"]
    # A kernel of another flavour is brought by nothing else.
    assert found["updates"] == ["openssl", "linux-image-6.1.0-50-rt-amd64", "linux-libc-dev"]


def test_where_no_kernel_is_due_nothing_is_left_out() -> None:
    lines = [line for line in UPGRADE.splitlines() if "cloud" not in line]
    headers = APT.splitlines()[-1]
    for answer in ("", headers):
        found = due("debian", CLOUD, __patch_kernel_apt={"stdout": answer}, __patch_apt={"stdout_lines": lines})
        assert found["kernel"] is False and found["packages"] == []
        assert found["updates"] == ["openssl", "linux-image-6.1.0-50-rt-amd64", "linux-libc-dev"]


def test_a_newer_kernel_that_is_installed_and_does_not_run_is_due() -> None:
    found = due("debian", {**CLOUD, "newest": NEW}, running=OLD, __patch_kernel_apt={"stdout": ""})
    assert (found["kernel"], found["packages"]) == (True, [NEW])
    held = due("debian", {**CLOUD, "newest": NEW}, running=OLD, __patch_held=True)
    assert (held["kernel"], held["held"], held["anything"]) == (False, True, False)


SIGNED = {
    "image": ["linux-image-aws", "linux-image-6.8.0-1040-aws"],
    "updated": ["linux-image-aws", "linux-image-6.8.0-1040-aws", "linux-modules-nvidia-580-server-open-aws"],
    "newest": "6.8.0-1040-aws",
    "module": "linux-modules-nvidia-580-server-open-{kernel}",
    "follow": ["linux-modules-nvidia-580-server-open-aws"],
}
NEWER = "Inst linux-image-6.8.0-1042-aws (6.8.0-1042.44 Ubuntu:24.04/noble-security [amd64])"
MODULE = "Inst linux-modules-nvidia-580-server-open-6.8.0-1042-aws (6.8.0-1042.44 Ubuntu:24.04/noble-security [amd64])"
MOVED = "Inst nvidia-kernel-common-580-server [580.95.05-1] (580.105.08-1 Ubuntu:24.04/noble-security [amd64])"
NO_MODULE = "E: Unable to locate package linux-modules-nvidia-580-server-open-6.8.0-1042-aws"


@pytest.mark.parametrize(
    ("answer", "without"),
    [
        ({"rc": 0, "stdout_lines": [NEWER, MODULE], "stderr": ""}, ""),
        # Its objects and their signatures come with it.
        ({"rc": 0, "stdout_lines": [NEWER, MODULE, MODULE.replace("modules", "objects")], "stderr": ""}, ""),
        ({"rc": 100, "stdout_lines": [], "stderr": f"Reading lists\n{NO_MODULE}"}, NO_MODULE),
        ({"rc": 100, "stdout_lines": [], "stderr": "E: you have held broken packages."}, "held"),
        # Nothing holds the driver (system_driver_guards: never), and apt would change it.
        ({"rc": 0, "stdout_lines": [NEWER, MODULE, MOVED], "stderr": ""}, "nvidia-kernel-common-580-server"),
        ({"rc": 0, "stdout_lines": [NEWER, MODULE, "Remv libnvidia-cfg1-580 [580]"], "stderr": ""}, "libnvidia-cfg1"),
    ],
)  # fmt: skip
def test_a_kernel_comes_with_its_signed_module_or_not_at_all(answer: dict[str, Any], without: str) -> None:
    asked = {
        "stdout": f"{NEWER}\nInst linux-image-aws [6.8.0-1040.42] (6.8.0-1042.44 Ubuntu:24.04/noble-security [amd64])"
    }
    lines = ["Inst openssl [3.0.1] (3.0.2 Ubuntu:24.04/noble-security [amd64])"]
    other = {"__patch_module_apt": answer, "__patch_apt": {"stdout_lines": lines}}
    found = due("debian", SIGNED, __patch_kernel_apt=asked, **other)
    assert found["kernel"] is not bool(without) and found["updates"] == ["openssl"]
    assert found["without"] == (["linux-modules-nvidia-580-server-open-6.8.0-1042-aws"] if without else [])
    assert not without or (without in found["told"] and "upgrade.yml" in found["told"] and "stays" in found["told"])
    # apt is asked for what comes, all of it at once.
    modules = ["linux-modules-nvidia-580-server-open-6.8.0-1042-aws", SIGNED["follow"][0]]
    assert found["together"] == ["linux-image-6.8.0-1042-aws", "linux-image-aws", *modules]


def test_a_newer_kernel_that_waits_for_its_boot_needs_its_signed_module_too() -> None:
    answer = {"rc": 100, "stdout_lines": [], "stderr": NO_MODULE}
    newer = {**SIGNED, "newest": "6.8.0-1042-aws"}
    facts = {"running": "6.8.0-1040-aws", "__patch_kernel_apt": {"stdout": ""}}
    found = due("debian", newer, __patch_module_apt=answer, **facts)
    assert found["kernel"] is False and found["without"] == ["linux-modules-nvidia-580-server-open-6.8.0-1042-aws"]
    assert due("debian", newer, __patch_module_apt={**answer, "rc": 0}, **facts)["kernel"] is True


def test_dnf_is_asked_for_the_flavour_that_runs() -> None:
    said = ["Packages providing kernel-rt-modules not installed due to update_only specified"]
    found = due("redhat", EL, __patch_kernel_dnf={"results": said})
    assert found["kernel"] is False and found["excludes"][:1] == ["*nvidia*"]
    newer = ["Installed: kernel-headers-4.18.0-2.el8.x86_64", "Installed: kernel-rt-devel-4.18.0-2.rt7.2.el8.x86_64"]
    assert due("redhat", EL, __patch_kernel_dnf={"results": said + newer})["kernel"] is False
    newer.append("Installed: kernel-rt-core-4.18.0-2.rt7.2.el8.x86_64")
    found = due("redhat", EL, __patch_kernel_dnf={"results": said + newer})
    assert found["packages"] == ["kernel-rt-core-4.18.0-2.rt7.2.el8.x86_64"]
    assert found["excludes"][: len(EL["updated"]) + 1] == [*EL["updated"], "*nvidia*"]


def node(patches: Patches, family: str = "debian", **kernel: Any) -> None:
    path = patches.folder / "nodes/a1.json"
    found = json.loads(path.read_text())
    system = {"id": "debian", "version": "12"} if family == "debian" else {"id": "rhel", "version": "8.8"}
    found["os"] = {**found["os"], **system, "family": family}
    own = {"package": f"linux-image-{OLD}", "version": "6.1.176-1"}
    found["kernel"] |= {
        "running": OLD, "next_boot": OLD, "installed": [OLD], "with_headers": [OLD], "build": "#1 Debian 6.1.176-1",
        "boot_entry": {"kind": "newest", "text": "0", "first": OLD},
        "owners": {OLD: own if family == "debian" else {"package": "kernel-core", "version": "1"}},
        "metapackages": [],
        **kernel,
    }  # fmt: skip
    path.write_text(json.dumps(found))


@pytest.fixture
def patches(tmp_path: Path) -> Patches:
    """One node; its kernel's step is the real one but for packages and programs."""
    made = Patches(tmp_path)
    made.due("a1", updates=["openssl"])
    real = {name: yaml.safe_load((ROLE / f"tasks/{name}.yml").read_text()) for name in ("kernel", "boot")}
    kept = {name: [task for task in steps if not set(task) & {
        f"ansible.builtin.{name}" for name in ("dnf", "apt", "command", "package", "slurp")
    }] for name, steps in real.items()}  # fmt: skip
    made.site.tasks("patch", [*kept["kernel"], Site.mark("kernel")], "kernel.yml")
    made.site.tasks("patch", [], "trial_debian.yml")
    made.site.tasks("patch", [Site.mark("boot"), *kept["boot"]], "boot.yml")
    made.site.tasks(
        "preflight",
        [remember(gpu_node_plan={"kernel": {"newest": "{{ newest }}", "flavour": "cloud-amd64"}})],
        "plan.yml",
    )
    made.site.hosts["a1"]["newest"] = NEW
    # Ends as it began, or with what the site's own step says.
    made.site.tasks(
        "system_reboot",
        [remember(gpu_node=NODE % "{'kernel': came_up | default({})}")],
    )
    return made


def text_of(patches: Patches) -> str:
    log = patches.drains()
    done = patches.play("patch", "-l", "a1")
    text = " ".join(done.stdout.split())
    assert done.returncode == 2 and table(done.stdout) == {"failed": "a1"}, done.stdout
    assert log.read_text().split() == ["drain", "a1"], "a node with an open update was given back"
    patches.marks = reached(done.stdout).get("a1", [])
    return text


def test_an_update_that_brings_no_other_kernel_fails_before_the_reboot(patches: Patches) -> None:
    node(patches)
    patches.site.hosts["a1"]["newest"] = OLD
    text = text_of(patches)
    assert "[patch.unchanged]" in text and "stays drained" in text and patches.marks == []
    # Both kernels: the one that was due, and the one that there is.
    assert "(linux-image-6.1.0-99-amd64)" in text and f"is still {OLD}" in text


@pytest.mark.parametrize(
    ("family", "entry"),
    [
        ("debian", {"kind": "fixed", "text": f"gnulinux-advanced-77>gnulinux-{OLD}-advanced-77", "first": OLD}),
        ("debian", {"kind": "fixed", "text": "1>2", "first": OLD}),
        # There the trial works with a saved entry only.
        ("redhat", {"kind": "fixed", "text": "1", "first": OLD}),
        ("redhat", {"kind": "newest", "text": "0", "first": OLD}),
    ],
)
def test_a_boot_entry_that_would_win_fails_before_anything_is_installed(
    patches: Patches, family: str, entry: dict[str, str]
) -> None:
    node(patches, family, boot_entry=entry)
    text = text_of(patches)
    assert "[patch.boot_entry]" in text and entry["text"] in text and patches.marks == []
    assert OLD in text and "linux-image-6.1.0-99-amd64" in text


def test_a_menu_that_begins_with_another_flavour_fails_before_the_reboot(patches: Patches) -> None:
    node(patches, boot_entry={"kind": "newest", "text": "0", "first": OTHER})
    text = text_of(patches)
    assert f"grub's menu begins with {OTHER}" in text and NEW in text and patches.marks == []


@pytest.mark.parametrize(
    ("newest", "came_up"),
    [
        # It fell back, was not rebooted, or another entry won.
        (NEW, {"running": OLD, "boot_id": "2"}),
        (NEW, {}),
        (NEW, {"running": "6.1.0-47-cloud-amd64", "boot_id": "2"}),
    ],
    ids=["fell back", "not rebooted", "another entry"],
)
def test_a_kernel_that_does_not_come_up_leaves_the_node_drained(
    patches: Patches, newest: str, came_up: dict[str, str]
) -> None:
    node(patches, boot_entry={"kind": "saved", "text": "${saved_entry}", "first": OLD})
    patches.site.hosts["a1"] |= {"newest": newest, "came_up": came_up}
    text = text_of(patches)
    assert "[patch.panic]" in text and f"Kernel {NEW} was chosen for one boot after {OLD}" in text
    assert patches.marks[:4] == ["kernel", "proven", "updates", "boot"]


@pytest.mark.parametrize("build", ["#1 Debian 6.1.176-1", "#1 Debian 6.1.176-2"])
def test_a_release_whose_files_were_replaced_counts_by_its_build(patches: Patches, build: str) -> None:
    """Debian updates a kernel in place as long as modules fit: the release stays, the version of its build does not."""
    node(patches)
    patches.site.hosts["a1"] |= {"newest": OLD, "came_up": {"build": build, "boot_id": "2"}}
    # As the probe finds it once the package is there.
    steps = yaml.safe_load((patches.folder / "roles/patch/tasks/kernel.yml").read_text())
    newer = {"kernel": {"owners": {OLD: {"package": f"linux-image-{OLD}", "version": "6.1.176-2"}}}}
    place = next(index for index, task in enumerate(steps) if "gpuwright.node.gpu_probe" in task)
    steps[place] = remember(gpu_node=NODE % json.dumps(newer))
    patches.site.tasks("patch", steps, "kernel.yml")
    if build.endswith("-1"):
        assert "[patch.panic]" in text_of(patches)
    else:
        done = patches.play("patch", "-l", "a1")
        assert done.returncode == 0 and table(done.stdout) == {"done": "a1"}, done.stdout


def test_updates_that_leave_another_kernel_the_default_are_named(patches: Patches) -> None:
    patches.due("a1", kernel=False, packages=[], updates=["openssl"])
    node(patches, next_boot=OTHER)
    text = text_of(patches)
    assert "[patch.default]" in text and OLD in text and OTHER in text and patches.marks == ["updates"]


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ({"flavour": "", "next_flavour": ""}, "[kernel.flavour]"),
        ({"flavour": "cloud-amd64", "next_flavour": OTHER}, "[patch.flavour]"),
    ],
)
def test_a_kernel_that_cannot_be_followed_is_named_before_the_node_is_drained(
    patches: Patches, kernel: dict[str, str], words: str
) -> None:
    node(patches)
    log = patches.drains()
    steps = yaml.safe_load((ROLE / "tasks/known.yml").read_text())
    patches.site.tasks("patch", [remember(gpu_node_plan={"kernel": kernel}), *steps], "due.yml")
    done = patches.play("patch", "-l", "a1")
    text = " ".join(done.stdout.split())
    assert done.returncode == 2 and words in text and OLD in text and not log.exists(), done.stdout
    assert f"belongs to linux-image-{OLD}" in text if words == "[kernel.flavour]" else OTHER in text
