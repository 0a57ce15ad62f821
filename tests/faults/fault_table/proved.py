"""Faults that need more than one command, or a state that takes long to make: another test has each."""

from __future__ import annotations

from .row import NOTHING, Proved

BARE, FINISHED = "tests/faults/test_bare_host.py", "tests/faults/test_finished_host.py"
OPERATORS, ORDER = "tests/faults/test_two_operators.py", "tests/faults/test_driver_order.py"
SECURE_BOOT, BUSY = "tests/faults/test_secure_boot.py", "tests/faults/test_busy_host.py"
PLAYED = "tests/unit/doctor/test_runtime_faults.py::test_a_fault_is_told_by_doctor_and_page"
ON_HOST = "tests/faults/test_finished_faults.py::test_a_fault_is_told_by_playbook_doctor_and_page"
WORLD = "tests/world/test_refused.py::test_it_is_refused"
TRAINER = "trainer/tests"
DRAIN = "tests/unit/schedulers/test_drain_role.py"


def played(id: str, fault: str, made: str, row: str, scene: str = "") -> Proved:
    """A row of tests/unit/nodes/fault_rows.py: the verdict says it, and nothing is changed by looking.

    `scene`: in which it is played on a host of the fleet, too.
    """
    return Proved(id, fault, made, "read alone", f"{ON_HOST}[{scene}]" if scene else f"{PLAYED}[{row}]")


def refused(id: str, fault: str, made: str, condition: str, status: int = 2) -> Proved:
    """A condition of tests/world."""
    return Proved(id, fault, made, NOTHING, f"{WORLD}[{condition}]", status)


ANSWERS = "tests/unit/kickstart/test_answers.py"
KICKSTART = "tests/unit/kickstart/test_kickstart_playbook.py"

ROWS = (
    # Bare servers.
    Proved("kickstart.refused", "a bare server of which nothing is known", "no variable is set", "no file is written",
           f"{KICKSTART}::test_without_variables_one_message_names_all"),
    Proved("kickstart.missing", "variables of a bare server that are missing", "the role's defaults alone",
           "all are named at once", f"{ANSWERS}::test_all_that_is_missing_is_said_at_once"),
    Proved("kickstart.disk", "a disk that is not named by its id", "`/dev/nvme0n1`", "no file is written",
           f"{KICKSTART}::test_a_host_without_a_disk_by_id_is_refused"),
    Proved("kickstart.value", "a value that says something else in a kickstart, preseed or shell",
           "quotes, line ends, `%end`, `$(...)`, `{{`, in every variable", "no file is written",
           f"{ANSWERS}::test_a_value_that_could_say_something_else_is_refused"),
    Proved("kickstart.keys", "a private key in place of a public one", "its first line", "it is not repeated",
           f"{ANSWERS}::test_a_secret_is_not_repeated"),
    Proved("kickstart.release", "a release that the matrix does not have", "RHEL 8.42", "no file is written",
           f"{ANSWERS}::test_a_wrong_value_is_one_line"),
    Proved("kickstart.http", "a mirror of EL that anybody on the way can change", "http://", "no file is written",
           f"{ANSWERS}::test_a_wrong_value_is_one_line"),
    Proved("kickstart.pull", "a branch in place of a commit", "`kickstart_pull_commit: main`", "no file is written",
           f"{ANSWERS}::test_a_wrong_value_is_one_line"),
    Proved("kickstart.folder", "a folder of installation files that cannot be made", "a file of its name",
           "as it was", f"{KICKSTART}::test_a_folder_that_cannot_be_made_is_named"),
    # Operators, controllers, connections.
    Proved("operator.busy", "two operators at once", "the same command from a second terminal", "the first run's",
           f"{OPERATORS}::test_of_two_runs_of_the_whole_site_one_is_done_and_one_refused"),
    Proved("operator.busy", "a killed controller, whose workers go on", "SIGKILL to ansible-playbook",
           "a rerun waits for them", f"{OPERATORS}::test_workers_of_a_killed_controller_are_waited_for", -9),
    Proved("", "a connection lost in the middle of a transaction", "every sshd session is killed",
           "the transaction ends by itself; a rerun waits for it",
           f"{OPERATORS}::test_a_lost_connection_ends_no_transaction_and_a_rerun_waits_for_it", 4),
    Proved("run.core", "an ansible-core that is too old", "another version number", NOTHING,
           "tests/unit/playbooks/test_gpu_nodes_lookup.py::test_refuses_an_older_ansible_core", 1),
    Proved("contact.core", "an ansible-core that is too new for RHEL 8", "ansible-core 2.17 and newer, installed",
           NOTHING, "tests/unit/playbooks/test_newer_controller.py::test_a_host_with_the_python_of_rhel_8_is_left_out"),
    Proved("", "a dry run of a bare host", "`site.yml --check`", NOTHING,
           f"{BARE}::test_check_mode_on_a_bare_host_changes_nothing", 0),
    Proved("", "a login in an address", "a canary in every address, at -vvv --diff", "it is shown nowhere",
           "tests/unit/roles/test_system_repository.py::test_apt_logs_in_and_nobody_reads_how", 0),
    refused("contact.sudo_password", "sudo wants a password", "no NOPASSWD, and none given",
            "sudo with a password, none given"),
    refused("contact.sudo_refused", "sudo refuses the password", "a wrong one",
            "sudo with a password, a wrong one given"),
    refused("contact.no_rights", "a login that may not become root", "no rule in sudoers", "sudo without rights"),
    refused("contact.terminal", "sudo wants a terminal", "requiretty", "sudo with requiretty, pipelining on"),
    refused("reach.login", "a login that the host does not know", "`ansible_user: nobody-here`", "another login", 4),
    refused("reach.login", "a key that the host does not know", "no authorized_keys",
            "a key that the host does not know", 4),
    refused("reach.key_damaged", "a file that is no key", "text in its place", "a file of a key that is none", 4),
    refused("reach.port", "a host without an ssh server", "`ansible_port: 2222`", "a host that has no ssh server", 4),
    refused("repository.unreachable", "a proxy that nobody named", "it is the only way out",
            "a proxy is the only way out, and nobody named it"),
    refused("repository.key_file", "a key file with two keys", "a second key beside the pinned one",
            "a key file with two keys"),
    Proved("reboot.host_key", "a host whose key changed with the reboot", "an sshd with other keys", "it rebooted",
           "tests/unit/roles/test_reboot_host_key.py::test_the_run_ends_in_seconds_and_says_what_to_compare"),
    Proved("drain.by", "a scheduler that is not known", "`drain_by: pbs`", NOTHING,
           f"{DRAIN}::test_what_cannot_be_drained_is_refused"),
    Proved("drain.owner", "a drain that nobody could be asked about", "an empty `drain_owner`", NOTHING,
           f"{DRAIN}::test_what_cannot_be_drained_is_refused"),
    Proved("drain.command", "a drain by a command that is not there", "an empty `drain_return_command`", NOTHING,
           f"{DRAIN}::test_what_cannot_be_drained_is_refused"),
    Proved("drain.node", "a scheduler that does not answer", "slurmctld cannot be reached", NOTHING,
           f"{DRAIN}::test_a_controller_that_does_not_answer_is_no_empty_node"),
    Proved("drain.wait", "a job that does not end in time", "a job longer than `drain_wait_seconds`",
           "the drain is taken back", f"{DRAIN}::test_after_the_deadline_the_own_drain_is_taken_back"),
    Proved("reboot.unexpected", "a reboot that was none", "the same boot id", "as the host is",
           "tests/unit/roles/test_after_reboot.py::test_a_node_that_came_back"),
    Proved("reboot.pending", "a reboot that nobody allowed", "`system_reboot_policy: never`", "installed, not rebooted",
           f"{BARE}::test_reboot_that_is_not_allowed_is_no_pass"),
    Proved("host.busy", "a driver to be replaced under a job", "a process on the GPU", "every layer left as it was",
           f"{BUSY}::test_a_new_driver_and_a_reboot_wait_for_the_job", 0),
    # Packages, kernel, driver.
    Proved("repository.key_unknown", "a key without a fingerprint", "none in the inventory, and none known", NOTHING,
           "tests/unit/preflight/test_refusal_advice.py::test_what_is_done_by_hand_stops_and_names_where_to_look"
           "[a repository whose key nobody has named]"),
    Proved("packages.unfinished", "a transaction of dnf that never ended", "dnf's history, as a killed dnf leaves it",
           "a remark", "tests/unit/packages/test_package_state.py::test_a_transaction_that_never_ended", 0),
    Proved("packages.failed", "a package that another key signed", "a repository of another signer", "not installed",
           f"{BARE}::test_package_signed_with_a_foreign_key"),
    Proved("packages.locked", "another package manager at work", "rpm's lock is held for 15 s", "waited for",
           f"{BARE}::test_another_package_manager_holds_the_lock", 0),
    Proved("packages.unavailable", "no headers for the running kernel", "no mirror has kernel-devel", NOTHING,
           f"{BARE}::test_headers_of_the_running_kernel_are_nowhere"),
    Proved("driver.unbuilt", "DKMS builds nothing, and dnf says nothing", "a compiler that fails", "not rebooted",
           f"{BARE}::test_dkms_build_fails_while_dnf_succeeds"),
    Proved("driver.module_for_next_kernel", "a kernel that came by an update", "a newer one is installed",
           "its module is built before it boots", f"{FINISHED}::test_a_new_kernel_gets_its_module_before_it_boots", 0),
    Proved("secure_boot.key", "Secure Boot without an enrolled key", "firmware's variables of a fleet host", NOTHING,
           f"{SECURE_BOOT}::test_stops_before_anything_is_removed"),
    Proved("secure_boot.hash", "a password hash of another form", "plain text in its place", NOTHING,
           f"{SECURE_BOOT}::test_a_wrong_form_of_the_hash_stops_before_anything_changes"),
    Proved("driver.signature", "a module that another key signed", "DKMS's key is replaced", "not rebooted",
           f"{SECURE_BOOT}::test_a_module_of_another_key_is_found_before_the_reboot"),
    Proved("driver.failed", "a mirror that goes away between stream and packages", "the repository is emptied",
           "driver, stream and hold as before",
           f"{ORDER}::test_a_mirror_that_goes_away_leaves_driver_stream_and_hold"),
    Proved("driver.newer", "a downgrade that nobody asked for", "an older branch is planned", NOTHING,
           f"{ORDER}::test_a_downgrade_is_done_only_when_it_is_asked_for"),
    Proved("driver.source", "a driver from NVIDIA's installer", "what the installer leaves", "read alone",
           "tests/unit/checks/driver/test_readings_packages.py::test_what_nvidias_installer_leaves"),
    Proved("driver.initramfs", "an old module in the initramfs", "images of every packing", "read alone",
           "tests/unit/checks/driver/test_initramfs.py::test_the_module_is_found_in_every_packing"),
    Proved("", "a FIPS system", "a Python without md5 and sha1", "works",
           "tests/unit/host/test_fips.py::test_nobody_asks_for_a_weak_digest", 0),
    # GPU and runtime.
    played("driver.reachable", "nvidia-smi hangs and ignores signals", "a stand-in that sleeps",
           "hangs-and-ignores-signals", "hangs"),
    played("driver.reachable", "an answer that is cut off", "half of a recorded answer", "answer-cut-off"),
    played("driver.reachable", "\"No devices were found\" with exit status 0", "that text", "no-devices-and-exit-0"),
    played("driver.reachable", "the infoROM is damaged (exit status 14)", "that status", "good-answer-and-exit-14"),
    played("kernel.gpu_lost", "a GPU off the bus", "Xid 79 in the kernel's log, and nvidia-smi's words",
           "off-the-bus", "off-the-bus"),
    played("driver.reachable", "a GPU that must be reset", "exit status 16", "reset-required", "reset-required"),
    played("gpu.recovery_action", "the driver asks for a reset", "its field", "driver-asks-for-a-reset", "states"),
    played("driver.ecc", "uncorrected memory errors", "their counters", "uncorrected-memory-errors"),
    played("driver.ecc", "ECC is off", "its field", "ecc-off", "states"),
    played("driver.fabric_manager", "the fabric manager is down", "a switch on the bus, and no service",
           "fabric-manager-down", "values-that-are-words"),
    played("driver.persistence", "persistence is off", "its field", "persistence-off", "states"),
    played("driver.device_nodes", "/dev/nvidia-uvm is missing", "the node is removed", "uvm-node-missing", "states"),
    played("driver.device_nodes", "/dev/nvidia-uvm is closed to the trainer", "mode 0600",
           "uvm-node-closed-to-the-trainer"),
    played("gpu.count", "a host without a GPU", "an empty bus", "host-without-gpu", "host-without-gpu"),
    played("gpu.count", "fewer GPUs than expected", "one of two", "fewer-gpus", "values-that-are-words"),
    played("gpu.model", "two models in a host", "an A100 beside a V100", "mixed-models", "values-that-are-words"),
    Proved("gpu.count", "a GPU in a node that should have none, verified", "verify_expected_gpu_count: 0", "a warning",
           "tests/unit/checks/test_cpu_nodes.py::test_a_gpu_that_nobody_expects_is_a_remark_and_a_warning", 0),
    Proved("", "the control group of a Slurm job hides the GPUs", "its list of devices", "said so",
           "tests/unit/readings/test_confinement.py::test_who_confines", 0),
    # Environment, data, training.
    Proved("", "a half-made environment", "its Python and its stamp are removed", "built anew",
           f"{FINISHED}::test_half_made_environment_is_rebuilt", 0),
    Proved("", "a wheel with another hash", "one digit of the lock", "the old environment",
           f"{FINISHED}::test_wrong_hash_leaves_the_current_environment_alone"),
    Proved("smoke.amp", "no GPU where the smoke test wants one", "verify_smoke_device: cuda", "read alone",
           f"{FINISHED}::test_smoke_test_on_a_cpu_where_cuda_was_demanded"),
    Proved("", "a library to preload that is not there", "paths that are missing or have spaces", "not started",
           "tests/unit/launch/test_gpu_run_bad_input.py::test_every_bad_input_gives_one_line"),
    Proved("", "a loss that is no number", "a network that gives NaN", "the checkpoint before it",
           f"{TRAINER}/engine/test_training.py::test_loss_that_is_no_number_stops_the_run_and_spares_the_checkpoint",
           1),
    Proved("", "every step of mixed precision is skipped", "gradients that overflow", "said so",
           f"{TRAINER}/engine/test_training.py::test_training_whose_every_step_is_skipped_is_a_problem", 1),
    Proved("", "memory runs out", "an allocator that refuses", "a smaller batch where it was asked for",
           f"{TRAINER}/engine/test_schedule.py::test_batch_size_survives_running_out_of_memory_and_says_when_nothing_fits",
           0),
    Proved("", "images that cannot be read", "damaged files in the folder", "counted, and above a limit the end",
           f"{TRAINER}/data/test_data.py::test_unreadable_images_are_named_replaced_and_counted_once", 0),
    Proved("", "a shard that is cut off", "half of a tar file", "counted, and above a limit the end",
           f"{TRAINER}/data/test_data.py::test_cut_off_shard_is_a_bad_image_and_a_limit", 0),
    Proved("", "a checkpoint that is cut while it is written", "SIGKILL at any moment, fifty times", "a whole one",
           f"{TRAINER}/engine/test_end_to_end.py::test_fifty_kills_leave_a_loadable_checkpoint_every_time", -9),
    Proved("", "a disk that fills up in training", "a small file system", "the older checkpoint",
           f"{TRAINER}/engine/test_training.py::test_full_disk_spares_the_older_checkpoint", 1),
    Proved("", "data that never comes", "a loader that hangs", "saved and ended",
           f"{TRAINER}/engine/test_interruptions.py::test_stop_does_not_wait_for_data_that_never_comes", 0),
)  # fmt: skip
