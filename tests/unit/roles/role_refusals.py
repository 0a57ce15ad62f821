"""Each task of a role that refuses: how what it prints is followed, or why not; docs/checks.md is written from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
# By file of a role's tasks and the beginning of the task's name. Those of test_role_refusals.py are not repeated here.
NOT_FOLLOWED = {
    ("uninstall/end.yml", "Stop if something"): "by hand: the message names what is left (test_uninstall_tasks.py)",
    ("accept/check.yml", "Refuse a value"): "test_accept_playbook.py; the message tells the range",
    ("accept/check.yml", "Refuse a port"): "test_accept_playbook.py, where other plays leave it at 0",
    ("accept/begin.yml", "Refuse a node on which"): "as system_busy's own step: the work has ended",
    (
        "accept/begin.yml",
        "Refuse a node that is not finished",
    ): "tests/faults and tests/molecule finish nodes by site.yml",
    ("accept/judge.yml", "End with the verdict"): "by hand: somebody corrects or replaces what it names",
    ("sweep/check.yml", "Refuse a setting"): "test_sweep_runs.py; the message tells the range",
    ("sweep/check.yml", "Refuse a scheduler"): "test_sweep_runs.py, where other plays have another one",
    ("sweep/check.yml", "Refuse to take nodes"): "test_sweep_runs.py, where other plays leave it out",
    ("sweep/check.yml", "Refuse a reason"): "test_sweep_runs.py, where other plays have their own",
    ("sweep/main.yml", "End with what failed"): "tests/schedulers: the next run takes the node again",
    ("sweep/bad.yml", "End with what"): "by hand: somebody repairs or replaces what it names",
    ("sweep/left.yml", "End with what"): "by hand: somebody repairs or replaces what it names",
    ("rollout/not_begun.yml", "End with what"): "the message is that of the step that failed",
    ("rollout/hands_off.yml", "Leave this host"): "the message is that of the step that left the host out",
    ("drain/slurm_drain.yml", "Refuse a node"): "test_drain_role.py, where other plays find nobody else there",
    ("drain/drain.yml", "Refuse a scheduler"): "test_drain_role.py; the message lists every value",
    ("drain/drain.yml", "Refuse a drain that nobody"): "test_drain_role.py, where every other play sets it",
    ("drain/drain.yml", "Refuse a drain by a command"): "test_drain_role.py, in which other plays set both variables",
    ("drain/return.yml", "Refuse to return a node"): "test_drain_role.py; the message lists every value",
    ("drain/slurm_look.yml", "Refuse a node"): "by hand: an administrator looks at the list of nodes",
    ("drain/lost.yml", "Refuse a controller"): "test_drain_role.py, where the connection is there for other plays",
    ("drain/slurm_not_empty.yml", "Refuse a node"): "tests/schedulers runs it again when the work has ended",
    ("drain/kubernetes_look.yml", "Refuse a node"): "by hand: an administrator looks at the list of nodes",
    ("drain/kubernetes_not_empty.yml", "Refuse a node"): "by hand: the owner of the pods decides about their budgets",
    ("drain/command_drain.yml", "Refuse a node"): "by hand: the command is the site's",
    ("drain/command_drain.yml", "Undo a drain_command"): "its own rescue, which runs drain_return_command",
    ("framework_pytorch/proof.yml", "Stop if a new environment"): "by hand: root looks at the system's Python",
    ("framework_pytorch/lock.yml", "Stop if the plan itself"): "docs/compatibility.md lists those that have one",
    ("framework_pytorch/main.yml", "Refuse packages"): "tests/faults/test_own_package.py runs the playbook",
    (
        "model_trainer/environment.yml",
        "Refuse a node without the Python environment",
    ): "tests/collection runs the role alone; the other layer makes the environment",
    ("framework_pytorch/packages.yml", "Report what pip"): "test_package_causes.py has the step of each cause",
    ("model_trainer/folders.yml", "Refuse a node without the training user"): "tests/collection runs the role alone",
    ("preflight/fail_as_left_out.yml", "Stop every host"): "the end of the run prints the host's own step",
    ("preflight/fail_as_left_out.yml", "Leave this host out"): "the end of the run prints the host's own step",
    ("preflight/question.yml", "Check every variable"): "test_bad_inventory.py corrects the variable that is named",
    ("preflight/question.yml", "Check what is asked"): "test_plan_question.py asks what is offered",
    ("preflight/question.yml", "Fail if no plan fits"): "test_plan_refusals.py sets what the refusal names",
    ("preflight/read.yml", "End a run"): "test_bad_inventory.py corrects the variable that is named",
    (
        "system_cuda/missing.yml",
        "Report what failed",
    ): "the package manager's words; tests/faults break repositories",
    (
        "system_driver/guards.yml",
        "Explain how to continue",
    ): "the package manager's own words; its variable leaves the step out",
    ("system_driver/nouveau.yml", "Explain what keeps"): "tests/faults/test_full_boot.py makes room and runs it again",
    (
        "system_driver/platform.yml",
        "Stop if the driver and",
    ): "by hand: the versions in the repository are its owner's; test_platform_tasks.py has the versions that pass",
    (
        "system_driver/switches.yml",
        "Name the log of the service that does not start",
    ): "by hand: root reads the service's log",
    (
        "patch/boot.yml",
        "Stop if another kernel",
    ): "tests/unit/rollout/test_patch_runs.py: the old kernel runs again, verified",
    (
        "patch/not_booted.yml",
        "Stop the patch before any reboot",
    ): "tests/unit/rollout/test_patch_runs.py, tests/faults/test_upgrade.py: nothing was booted",
    ("patch/not_booted.yml", "Stop before the reboot"): "tests/unit/rollout/test_patch_kernels.py: not given back",
    ("patch/return.yml", "Stop with the node drained"): "tests/unit/rollout/test_patch_runs.py: not given back",
    ("patch/boot_entry.yml", "Stop if another entry"): "by hand: root changes GRUB_DEFAULT",
    ("patch/changed.yml", "Stop if the updates"): "by hand: root looks at what brings the kernel",
    ("patch/changed.yml", "Stop if grub's menu"): "by hand: root removes the other flavour",
    ("patch/default.yml", "Stop if another kernel"): "by hand: root looks at the boot loader's default",
    ("patch/known.yml", "Stop if no package is known"): "by hand: root installs a kernel of the distribution",
    ("patch/known.yml", "Stop if the next boot"): "by hand: root chooses one of two flavours",
    (
        "patch/prove.yml",
        "Stop before the reboot if the archive",
    ): "by hand: root waits until the archive has the module, or changes the driver first",
    ("patch/boot_loader.yml", "Stop if a new kernel cannot"): "tests/unit/rollout/test_patch_runs.py: a rerun passes",
    ("patch/boot_loader.yml", "Stop if a panic"): "by hand: root looks for the file that sets the arguments",
    ("patch/prove.yml", "Stop before the reboot if the kernel"): "by hand: root builds module and initramfs again",
    ("patch/return.yml", "Stop if the old kernel"): "tests/unit/rollout/test_patch_runs.py: a host that stays is named",
    (
        "patch/return.yml",
        "Name which kernel could not",
    ): "tests/unit/rollout/test_patch_runs.py: a host that stays is named",
    ("patch/return.yml", "End with what failed"): "tests/unit/rollout/test_patch_runs.py: returned, and said so",
    ("patch/settle.yml", "Stop if the new kernel"): "by hand: root looks at the boot loader's default",
    ("upgrade/compare.yml", "Refuse a node"): "tests/unit/rollout/test_upgrade_runs.py: site.yml comes first",
    ("upgrade/compare.yml", "Refuse an upgrade"): "tests/unit/rollout/test_upgrade_runs.py: framework_pytorch_keep",
    (
        "upgrade/main.yml",
        "Stop if the node does not",
    ): "tests/unit/rollout/test_upgrade_runs.py: a node that was not rebooted",
    ("upgrade/return.yml", "Stop where nothing"): "tests/unit/rollout/test_upgrade_runs.py: without a way back",
    ("upgrade/return.yml", "Name which driver could not"): "tests/unit/rollout/test_upgrade_runs.py: both reasons",
    ("upgrade/return.yml", "End with what failed"): "tests/unit/rollout/test_upgrade_runs.py: returned, and said so",
    ("system_driver/proof.yml", "Stop if the kernel would"): "tests/faults/test_secure_boot.py and tests/vm",
    ("system_driver/put_back.yml", "Report what failed"): "tests/faults/test_driver_order.py runs it again",
    ("system_driver/secure_boot.yml", "Stop if Secure Boot"): "preflight says it first, and is followed there",
    (
        "system_kernel/available.yml",
        "Stop before anything",
    ): "tests/faults/test_bare_host.py runs it again with headers there",
    ("system_kernel/update.yml", "Stop if the new kernel"): "tests/faults and tests/vm boot the new kernel",
    ("system_packages/complete.yml", "Stop if a newer"): "tests/faults/test_driver_order.py sets what is named",
    ("system_packages/debian.yml", "Report what apt"): "the package manager's own words",
    (
        "system_packages/redhat.yml",
        "Report what dnf",
    ): "the package manager's words; tests/faults break repositories",
    ("system_reboot/reboot.yml", "Check the rebooted node"): "by hand: root reads the log of the boot",
    ("system_repository/debian.yml", "Report what was wrong"): "by hand: the vendor tells the new key's fingerprint",
    ("system_repository/redhat.yml", "Report what was wrong"): "by hand: the vendor tells the new key's fingerprint",
    ("verify/verdict.yml", "End with the verdict"): "the checks' own actions, above",
    ("verify/xid.yml", "Leave an administrator"): "test_xid_overrides_role.py leaves the variable empty",
}


def refusing_tasks() -> list[tuple[str, str]]:
    """(file, name) of each task of a role that can end a host's run with a message of its own."""
    found = []
    for file in sorted((REPOSITORY / "roles").glob("*/tasks/*.yml")):
        place = f"{file.parts[-3]}/{file.name}"
        found += [(place, name) for name in refusals(yaml.safe_load(file.read_text()) or [])]
    return found


def refusals(tasks: list[dict[str, Any]]) -> list[str]:
    names = []
    for task in tasks:
        for part in ("block", "rescue", "always"):
            names += refusals(task.get(part) or [])
        if "ansible.builtin.assert" in task or "ansible.builtin.fail" in task:
            names.append(task["name"])
    return names
