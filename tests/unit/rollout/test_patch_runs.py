"""Patch days of made-up nodes: playbooks and the order of the role's steps are real, the steps mark or break."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from given_facts import FACT
from left_out_site import Site, reached
from rollout_site import table
from test_upgrade_runs import Upgrades

# What apt says of a newer kernel that it only simulates.
APT = "Inst linux-image-amd64 [6.1.1] (6.1.2 Debian)"
DUE = {"kernel": True, "packages": ["linux-image-6.1.0-99-amd64"], "held": False, "updates": [], "anything": True}


def fails(fault: str, text: str) -> dict[str, Any]:
    """A step that breaks on hosts with this fault."""
    return {"name": "Break", "ansible.builtin.fail": {"msg": text}, "when": f"fault | default('') == '{fault}'"}


def remember(**facts: Any) -> dict[str, Any]:
    """A task that sets variables; those that modules give are facts, too, as roles read them there."""
    given = {"cacheable": True} if any(FACT.fullmatch(name) for name in facts) else {}
    return {"name": "Remember", "ansible.builtin.set_fact": facts | given}


class Patches(Upgrades):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # Steps that the last play of a test reached on its host.
        self.marks: list[str] = []
        shutil.copytree(REPOSITORY / "roles/patch", folder / "roles/patch", dirs_exist_ok=True)
        due = remember(patch_due="{{ due }}")
        for file, tasks in {
            "due": [due],
            "kernel": [remember(patch_kernel="6.1.0-99-amd64"), Site.mark("kernel")],
            "prove": [fails("unbuilt", "no module [patch.module]"), Site.mark("proven")],
            "boot_loader": [],
            "updates": [Site.mark("updates")],
            "boot": [Site.mark("boot"), fails("panic", "another kernel came up [patch.panic]")],
            "settle": [Site.mark("settled")],
        }.items():
            self.site.tasks("patch", tasks, f"{file}.yml")

    def due(self, name: str, **changes: Any) -> None:
        self.node(name)
        self.site.hosts[name]["due"] = {**DUE, **changes}


@pytest.fixture
def patches(tmp_path: Path) -> Patches:
    made = Patches(tmp_path)
    for name in ("a1", "a2"):
        made.due(name, updates=["openssl"])
    return made


def test_the_new_kernel_is_proven_before_anything_else_and_settled_last(patches: Patches) -> None:
    patches.due("a2", kernel=False, anything=False)
    done = patches.play("patch")
    assert done.returncode == 0, done.stdout
    assert reached(done.stdout) == {"a1": ["kernel", "proven", "updates", "boot", "verify", "settled"]}
    assert table(done.stdout) == {"done": "a1, a2"}
    # What is done today may be due again tomorrow.
    assert "a1" in reached(patches.play("patch").stdout)


def test_a_kernel_whose_module_is_not_built_is_never_booted(patches: Patches) -> None:
    patches.fault("a1", "unbuilt")
    done = patches.play("patch")
    text = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[patch.not_booted]" in text and "[patch.module]" in text
    assert reached(done.stdout) == {"a1": ["kernel"]}
    assert table(done.stdout) == {"returned": "a1", "not reached": "a2"}


MENU = "linux /boot/vmlinuz-6.1.0-99-amd64 root=UUID=1 ro {new}\nlinux /boot/vmlinuz-6.1.0-9-amd64 root=UUID=1 ro\n"


@pytest.fixture
def loader(patches: Patches, tmp_path: Path) -> Path:
    """The folder that has grub's program and menu: both are as they should be."""
    steps = yaml.safe_load((REPOSITORY / "roles/patch/tasks/boot_loader.yml").read_text())
    patches.site.tasks("patch", steps, "boot_loader.yml")
    own = tmp_path / "roles/patch/vars/main.yml"
    text = own.read_text()
    for path in ("/usr/sbin/grub-reboot", "/boot/grub/grub.cfg"):
        assert path in text
        text = text.replace(path, str(tmp_path / Path(path).name))
    own.write_text(text)
    (tmp_path / "grub-reboot").touch()
    (tmp_path / "grub.cfg").write_text(MENU.format(new="quiet panic=30"))
    return tmp_path


def test_the_package_that_is_named_has_the_program() -> None:
    """On EL, that of the fleet's stand-in, which is in the package of the real one."""
    once = yaml.safe_load((REPOSITORY / "roles/patch/vars/main.yml").read_text())["__patch_once"]["redhat"]
    (program,) = (REPOSITORY / "tests/fleet/packages").glob(f"*{once['program']}")
    assert program.parts[-4] == once["package"]


def test_a_boot_loader_that_cannot_try_a_kernel_once_is_named(patches: Patches, loader: Path) -> None:
    (loader / "grub-reboot").unlink()
    done = patches.play("patch")
    text = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[patch.not_booted]" in text, done.stdout
    assert "grub-reboot, which chooses a kernel for one boot: install grub2-common and run again" in text
    assert reached(done.stdout) == {"a1": ["kernel", "proven"]}
    (loader / "grub-reboot").touch()
    assert patches.play("patch").returncode == 0


@pytest.mark.parametrize("arguments", ["quiet", "panic=300", "xpanic=30"])
def test_a_panic_that_would_not_reboot_is_named_before_any_boot(patches: Patches, loader: Path, arguments: str) -> None:
    """As where another file of /etc/default/grub.d sets the kernel's arguments anew."""
    (loader / "grub.cfg").write_text(MENU.format(new=arguments))
    done = patches.play("patch")
    text = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[patch.not_booted]" in text and "[patch.boot_loader]" in text, done.stdout
    assert "starts 6.1.0-99-amd64 without panic=30" in text and reached(done.stdout) == {"a1": ["kernel", "proven"]}


def test_a_kernel_that_panics_leaves_the_old_one_verified_and_the_node_drained(patches: Patches) -> None:
    """The update that was due is not in effect: nobody may take this for done."""
    log = patches.drains()
    patches.fault("a1", "panic")
    done = patches.play("patch")
    text = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[patch.old_kernel]" in text and "[patch.panic]" in text, done.stdout
    assert "Kernel 6.1.0-99-amd64 did not come up on a1" in text and "stays drained" in text
    assert reached(done.stdout) == {"a1": ["kernel", "proven", "updates", "boot", "verify"]}
    assert table(done.stdout) == {"failed": "a1", "not reached": "a2"}
    assert log.read_text().split() == ["drain", "a1"]


def test_a_trial_whose_reboot_was_refused_waits_for_no_later_boot(patches: Patches, tmp_path: Path) -> None:
    """Somebody works there when the reboot is due; weeks later, a power cut must start the kernel that works."""
    asked, editor = tmp_path / "asked", tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\necho "$*" >> {asked}\n')
    editor.chmod(0o755)
    own = tmp_path / "roles/patch/vars/main.yml"
    own.write_text(
        own.read_text().replace("/usr/bin/grub-editenv", str(editor)).replace("/usr/bin/grub2-editenv", str(editor))
    )
    for name in ("a1", "a2"):
        path = patches.folder / "nodes" / f"{name}.json"
        node = json.loads(path.read_text())
        node["kernel"]["boot_id"] = "1"
        path.write_text(json.dumps(node))
    patches.fault("a1", "refused")
    chosen = remember(patch_boot="{{ fault | default('') == 'refused' and '1' or 'an earlier one' }}")
    patches.site.tasks("patch", [chosen, {"ansible.builtin.fail": {"msg": "busy [node.busy]"}}], "boot.yml")
    assert patches.play("patch", "-l", "a1").returncode == 2
    assert asked.read_text().split() == ["-", "unset", "next_entry"]
    # A boot has used the choice up: nothing is left to forget.
    assert patches.play("patch", "-l", "a2").returncode == 2
    assert len(asked.read_text().splitlines()) == 1


def test_a_kernel_that_came_up_and_does_not_pass_is_left_again(patches: Patches) -> None:
    log = patches.drains()
    patches.fault("a1", "unfit")
    # It fails once, under the new kernel.
    failed = patches.folder / "failed"
    patches.site.tasks("verify", [
        {"ansible.builtin.stat": {"path": str(failed)}, "register": "before"},
        {"ansible.builtin.file": {"path": str(failed), "state": "touch"}},
        {"ansible.builtin.fail": {"msg": "a GPU is missing"}, "when": "not before.stat.exists"}, Site.mark("verify"),
    ])  # fmt: skip
    done = patches.play("patch")
    assert done.returncode == 2 and "[patch.returned]" in done.stdout, done.stdout
    assert table(done.stdout) == {"returned": "a1", "not reached": "a2"}
    assert log.read_text().split() == ["drain", "a1", "return", "a1"]


def test_a_host_that_stays_under_the_new_kernel_is_named(patches: Patches) -> None:
    patches.fault("a1", "panic")
    # Going back boots nothing here, and the probe finds the new kernel.
    patches.site.tasks("patch", [
        remember(patch_old_kernel="6.1.0-1-amd64"), fails("panic", "another kernel came up [patch.panic]"),
    ], "boot.yml")  # fmt: skip
    done = patches.play("patch")
    assert done.returncode == 2 and "[patch.not_returned]" in done.stdout, done.stdout
    assert table(done.stdout)["failed"] == "a1"


def test_a_new_kernel_that_does_not_become_the_default_is_named(
    patches: Patches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has passed, and grub still starts the old one: at the next power cut nobody would expect that."""
    settle = yaml.safe_load((REPOSITORY / "roles/patch/tasks/settle.yml").read_text())
    patches.site.tasks("patch", settle, "settle.yml")
    # This machine takes the node's place: its own grub stays as it is.
    trial = tmp_path / "trial.cfg"
    trial.touch()
    own = tmp_path / "roles/patch/vars/main.yml"
    own.write_text(own.read_text().replace("/etc/default/grub.d/zz-gpuwright-patch.cfg", str(trial)))
    program = tmp_path / "bin/update-grub"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    done = patches.play("patch", "-l", "a1")
    assert done.returncode == 2 and "[patch.default]" in done.stdout, done.stdout
    assert "is still the default" in " ".join(done.stdout.split())
    assert not trial.exists() and table(done.stdout) == {"failed": "a1"}


def test_check_mode_says_what_is_due_and_touches_nothing(patches: Patches) -> None:
    steps = yaml.safe_load((REPOSITORY / "roles/patch/tasks/remember.yml").read_text())
    plan = {"kernel": {"newest": "{{ ansible_facts.gpu_node.kernel.running }}", "image": ["linux-image-amd64"]}}
    patches.site.tasks("patch", [remember(__patch_kernel_apt={"stdout": APT}, gpu_node_plan=plan), *steps], "due.yml")
    patches.site.hosts["a1"]["system_kernel_pin"] = True
    done = patches.play("patch", "--check")
    text = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout
    assert "held by system_kernel_pin" in text and "a newer one is due" in text
    assert 'Rollout "patch": 2 hosts' in text and reached(done.stdout) == {}
