"""The module gpu_probe as a node runs it."""

from __future__ import annotations

from processor_time import processor_seconds


def test_a_host_without_gpu_is_read_whole(run_module, fake_bin):
    fake_bin("dkms", "#!/bin/sh\necho 'nvidia/580.95.05, 4.18.0-477.10.1.el8_8.x86_64, x86_64: installed'\n")
    answer = run_module("gpu_probe", check=True)
    node = answer["ansible_facts"]["gpu_node"]
    assert (answer["rc_process"], answer["changed"]) == (0, False)
    assert node["schema"] == 1
    assert node["nvidia"]["dkms"] == [
        {"module": "nvidia", "version": "580.95.05", "kernel": "4.18.0-477.10.1.el8_8.x86_64", "state": "installed"}
    ]
    assert node["reboot"] == {"required": False, "reasons": [], "codes": []}


def test_programs_that_fail_or_talk_nonsense_leave_values_empty(run_module, fake_bin):
    for name in ("grubby", "modinfo", "dkms", "mokutil"):
        fake_bin(name, "#!/bin/sh\necho ': , / vmlinuz-: version license'\nexit 1\n")
    node = run_module("gpu_probe")["ansible_facts"]["gpu_node"]
    assert node["nvidia"]["dkms"] == []
    assert set(node["nvidia"]["modules"].values()) == {None}
    assert node["module_key_enrolled"] is None
    assert node["kernel"]["next_boot"]


def test_one_reading_costs_about_a_second(run_module, fake_bin):
    for name in ("grubby", "modinfo", "dkms", "mokutil"):
        fake_bin(name, "#!/bin/sh\nexit 1\n")
    run_module("gpu_probe")
    with processor_seconds() as used:
        run_module("gpu_probe")
    # The start of Python and Ansible's own imports are in this figure.
    assert used() < 3
