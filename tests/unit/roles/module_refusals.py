"""Each refusal of a module: what its reader does next, and which test has done it; docs/checks.md is made from it."""

from __future__ import annotations

import ast
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
# "argument" is for whoever writes a task: it is corrected where the message names it. The roles' own values are held by
# their argument specs, so that no playbook of this project meets one.
ARGUMENT = "argument"
# By module and by the beginning of the message, or by what makes the message.
MODULE_REFUSALS = {
    ("amp_smoke_test", "problem"): ARGUMENT,
    ("amp_smoke_test", "message"): "the stage that failed is a check, smoke.*, above",
    (
        "apt_components",
        "apt cannot read its package lists",
    ): "look: apt names the source; root mends it, a rerun goes on",
    (
        "apt_components",
        "{}. Look at: sudo apt-get update",
    ): "look: apt names the source; root mends it, a rerun goes on",
    ("apt_components", "No configured apt source is"): "by hand: root configures the mirror (test_apt_components.py)",
    ("apt_components", "With the components"): "look: the mirror has no such component; nothing was left behind",
    (
        "apt_repository",
        "str(error)",
    ): "look: curl on the node says what is in the way; another key is the vendor's to tell",
    (
        "apt_repository",
        "without_login(str(error))",
    ): "tests/unit/sources/test_others.py, test_effective.py: the file, its line, and what to do there",
    ("apt_repository", "{}: {} [repository.file]"): "by hand: the operating system's reason (full, read-only), a rerun",
    (
        "bundle_files",
        "{} has no room",
    ): "by hand: whoever owns the node makes room, a rerun goes on with what is missing",
    (
        "bundle_files",
        "Files are not those",
    ): "by hand: the bundle is copied again from where it was made (test_bundle_files.py)",
    ("bundle_files", "{}: no room"): "by hand: the operating system's reason (full), a rerun",
    ("bundle_files", "The bundle's files cannot"): "by hand: the operating system's reason (read-only), a rerun",
    ("bundle_make", "str(error)"): "test_bundle_making.py: each names the file and the next step",
    ("bundle_make", "No room for the bundle"): "by hand: the operating system's reason (full), a rerun",
    (
        "bundle_make",
        "The bundle cannot be written",
    ): "by hand: the operating system's reason (full, read-only), a rerun",
    ("bundle_make", "bundle_make runs on the controller"): ARGUMENT,
    ("bundle_packages", "str(error)"): "test_bundle_making.py: each names the file and the next step",
    (
        "bundle_packages",
        "The packages cannot be copied",
    ): "by hand: the operating system's reason (full, read-only), a rerun",
    ("bundle_packages", "This machine has no dnf"): "by hand: another machine goes into bundle_builders",
    ("bundle_packages", "Packages for the bundle cannot"): "by hand: the operating system's reason, a rerun",
    ("host_plan", "host_plan begins on the controller"): ARGUMENT,
    ("package_sources", "The node's repositories cannot"): "by hand: the operating system's reason, a rerun",
    (
        "dnf_module_stream",
        "{} [driver.stream]",
    ): "test_dnf_module_stream.py: the stream, the variable, the command or dnf's own words",
    ("file_tree", "files is empty"): ARGUMENT,
    ("file_tree", "{} was not brought up to date"): "by hand: the operating system's reason (full, read-only), a rerun",
    ("files", "str(error)"): "test_files.py, test_units.py: what, where, the system's reason, and a rerun",
    ("current_environment", "{} was not set"): "by hand: the operating system's reason, or what is in the way, a rerun",
    (
        "dnf_repository",
        "str(error)",
    ): "look: curl on the node says what is in the way; another key is the vendor's to tell",
    (
        "dnf_repository",
        "{}: {} [repository.file]",
    ): "test_dnf_repository.py: the file, and the reason of rpm or the system",
    ("driver_module", "refusal(wanted, found)"): "by hand: root mends what DKMS's log names (test_bare_host.py)",
    ("driver_module", "What a build left"): "by hand: the operating system's reason (read-only), a rerun",
    ("kept_driver", "str(error)"): "test_kept_driver.py: each names what is missing and the next step",
    ("kept_driver", "What is kept cannot"): "by hand: the operating system's reason (full, read-only), a rerun",
    ("version_hold", "The holds of {} in {}: {}"): "test_holds.py: the file and rpm's or dpkg's own words",
    ("gpu_expectations", "{} [verify.expectations]"): "test_gpu_verify.py: the value and what it may be are named",
    ("gpu_scan", "gpu-doctor.pyz cannot be built"): "by hand: the sentence names the file of the controller",
    (
        "gpu_scan",
        "{} [scan.failed]",
    ): "test_scan_playbook.py: a host without Python, and one that prints something else",
    ("gpu_scan", "{}: {}"): "by hand: the operating system's reason and the file (full, read-only), a rerun",
    ("gpu_scan", "gpu_scan runs on the controller"): ARGUMENT,
    (
        "first_record",
        "{} [first_record.damaged]",
    ): "by hand: a backup, or the file is moved away (test_operator_lock.py)",
    ("first_record", "{} [first_record.newer]"): "by hand: a controller with that version (test_operator_lock.py)",
    ("first_record", "The node is not back"): "by hand: it names what could not be put back (test_undo.py)",
    ("planning", "conflict_message"): "test_plan_refusals.py sets what the refusal names",
    ("gpu_plan", "gpu_plan runs on the controller"): ARGUMENT,
    ("planning", "missing"): ARGUMENT,
    ("planning", "The matrix of versions cannot be read"): ARGUMENT,
    ("package_lock", "{} [framework.packages]"): "test_package_lock.py: the package, both versions, and what to choose",
    ("package_lock", "{}: {}"): "by hand: the operating system's reason and the file (full, read-only), a rerun",
    ("package_lock", "package_lock runs on the controller"): ARGUMENT,
    ("gpu_probe", "agents: "): "test_gpu_agents.py leaves out the name that is refused",
    ("gpu_verify", "problem"): ARGUMENT,
    (
        "gpu_verify",
        "{}: {}; {} [verify.folder]",
    ): "by hand: the operating system's reason, on the controller, a rerun (test_report_kept.py)",
    ("gpu_verify", "{} [verify.expectations]"): "test_gpu_verify.py: the value and what it may be are named",
    ("gpu_verify", "the report cannot be written"): "by hand: the operating system's reason (full, read-only), a rerun",
    ("host_tuning", "program is empty"): ARGUMENT,
    ("host_tuning", "{}. Nothing was changed"): "test_tuning_refusals.py: the setting and what it may be are named",
    ("host_tuning", "the settings are not complete"): "by hand: the operating system's reason, a rerun",
    (
        "installation_file",
        "{} [kickstart.refused]",
    ): "test_kickstart_playbook.py: every variable that is missing or wrong is named with what it may be",
    ("installation_file", "{}. Next: set kickstart_folder"): "by hand: the operating system's reason, a rerun",
    ("installation_file", "installation_file runs on the controller"): ARGUMENT,
    ("missing_packages", "{}. Check the package database"): "look: rpm or dpkg says what is broken in its database",
    (
        "module_signing_key",
        "password_hash: ",
    ): "by hand: whoever chose the password makes another hash (test_mok_request.py)",
    (
        "module_signing_key",
        "{} [secure_boot.key_file]",
    ): "by hand: the key in the way and what becomes of it are named (test_mok_request.py)",
    ("nvidia_smi_info", "str(error)"): ARGUMENT,
    (
        "preflight_checks",
        "The sources of packages cannot be read",
    ): "by hand: the operating system's or apt's own words, a rerun",
    ("operator_lock", "operator_lock was asked without"): ARGUMENT,
    ("operator_lock", "left_out_message"): "the end of the run prints the host's own step (test_operator_lock.py)",
    (
        "operator_lock",
        "str(error)",
    ): "by hand: room in /run or /var/lib, or a damaged record is moved away (test_operator_lock.py)",
    ("preflight_checks", "{} is missing in host, plan or space"): ARGUMENT,
    ("python_environment", "{}: {}. Mend that"): "by hand: the operating system's reason (full, read-only), a rerun",
    (
        "report_page",
        "{}: no report there",
    ): "by hand: playbooks/verify.yml brings the reports (test_report_playbook.py)",
    ("report_page", "report_page runs on the controller"): ARGUMENT,
    ("rollout", "rollout runs on the controller"): ARGUMENT,
    ("sweep", "sweep runs on the controller"): ARGUMENT,
    (
        "report_page",
        "{}: {}",
    ): "by hand: the operating system's reason, on the controller, a rerun",
    ("reboot_node", "reboot_node ran on the host itself"): ARGUMENT,
    ("reboot_node", "{} [reboot.host_key]"): "by hand: somebody compares the host's keys (test_reboot_host_key.py)",
    (
        "repository_key",
        "str(error)",
    ): "look: curl on the node says what is in the way; another key is the vendor's to tell",
    ("scratch_disk", "serial is empty"): ARGUMENT,
    ("scratch_disk", "{} [scratch.refused]"): "by hand: whose data is there, a person decides (test_scratch.py)",
    ("scratch_disk", "the scratch file system was not made"): "by hand: the operating system's reason, a rerun",
    ("service_account", "The account {}: {}"): "by hand: what useradd, usermod or the directory service said, a rerun",
    ("tree_modes", "The modes below {} cannot be repaired"): "by hand: the operating system's reason, a rerun",
    ("workload_info", "agents: "): "test_gpu_agents.py leaves out the name that is refused",
}


def refusing_calls() -> list[tuple[str, str]]:
    """(module, message or what makes it) of each `fail_json` in library/, and of what an action returns as failed."""
    found = returned_by_actions()
    for file in sorted((REPOSITORY / "library").glob("*.py")):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "fail_json":
                message = next(item.value for item in node.keywords if item.arg == "msg")
                words = words_of(message)
                # Two functions of one module may each have a `text`: the last one above the call.
                found.append((file.stem, texts_above(tree, node.lineno)[-1] if words == "text" else words))
    return found


def returned_by_actions() -> list[tuple[str, str]]:
    """(action, message or what makes it) of each `{"failed": True, "msg": ...}` in plugins/action/.

    What a plug-in does may be in plugins/plugin_utils: then the table has that file's name.
    """
    found = []
    folders = [REPOSITORY / "plugins" / name for name in ("action", "plugin_utils")]
    for file in sorted(file for folder in folders for file in folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Dict):
                values = {
                    key.value: value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant)
                }
                if "failed" in values and "msg" in values:
                    found.append((file.stem, words_of(values["msg"])))
    return found


def texts_above(tree: ast.AST, line: int) -> list[str]:
    return [
        words_of(node.value)
        for node in sorted((one for one in ast.walk(tree) if isinstance(one, ast.Assign)), key=lambda one: one.lineno)
        if node.lineno < line and getattr(node.targets[0], "id", "") == "text"
    ]


def words_of(node: ast.expr) -> str:
    """The literal that a message is formatted from, else the expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return words_of(node.func.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ast.unparse(node)
