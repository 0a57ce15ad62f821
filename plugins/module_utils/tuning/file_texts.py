# SPDX-License-Identifier: Apache-2.0
"""The files that system_tuning writes, as texts."""

from typing import Any, Mapping, Sequence, Tuple

HEAD = "# Written by gpuwright (role system_tuning); changes are undone by its next run.\n"

LIMITS = "/etc/security/limits.d/95-gpuwright.conf"
DROP_IN = "/etc/systemd/system/{}.d/50-gpuwright-limits.conf"
PROGRAM = "/usr/local/bin/gpu-tune"
UNIT_NAME = "gpuwright-tuning.service"
UNIT = "/etc/systemd/system/" + UNIT_NAME
UDEV = "/etc/udev/rules.d/61-gpuwright-data-disk.rules"
MOUNT = "/etc/systemd/system/{}.mount"
TMPFILES = "/etc/tmpfiles.d/gpuwright-scratch.conf"
RECORD = "/etc/gpuwright/tuning.json"

# name: (line of limits.conf(5), line of systemd.exec(5)). Only a soft limit for the stack: programs that need more may
# raise it.
LIMIT_LINES = {
    "limits_memlock": ("@{group} - memlock {value}", "LimitMEMLOCK={value}"),
    "limits_nofile": ("@{group} - nofile {value}", "LimitNOFILE={value}"),
    "limits_tasks": ("@{group} - nproc {value}", "TasksMax={value}"),
    "limits_stack": ("@{group} soft stack {value}", "LimitSTACK={value}:infinity"),
}
# The kernel keeps one of each pair: if the bytes are set, the percentage is 0.
PERCENT = {
    "vm.dirty_bytes": "vm.dirty_ratio",
    "vm.dirty_background_bytes": "vm.dirty_background_ratio",
}
IN_KIB = ("limits_memlock", "limits_stack")

# Boot order: tuned and udev first, since both would set different values; the driver before its cards.
UNIT_TEXT = (
    HEAD
    + """\
[Unit]
Description=Settings of the kernel, the data disk and the GPUs for training
Documentation=man:systemd.service(5)
After=local-fs.target systemd-sysctl.service systemd-udev-settle.service tuned.service nvidia-persistenced.service
# Whoever starts work at boot starts it after this, since nothing is changed under running work.
Before=multi-user.target slurmd.service kubelet.service docker.service podman-restart.service

[Service]
Type=oneshot
RemainAfterExit=yes
Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin
ExecStart={program} --apply
# A child that hangs in the driver cannot be killed: systemd waits this long for it, twice, and a reboot goes on.
TimeoutStopSec=10
# Writes below /proc/sys and /sys and talks to the driver; setting by setting in docs/security.md. CAP_SYS_ADMIN is what
# kernel.numa_balancing, the queues of disks, and power limits and clocks of GPUs ask for.
NoNewPrivileges=true
CapabilityBoundingSet=CAP_SYS_ADMIN
DevicePolicy=closed
DeviceAllow=char-nvidia* rw
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=true
PrivateMounts=true
ProtectProc=invisible
# No ProtectKernelTunables=: they are what it sets.
ProtectKernelModules=true
ProtectKernelLogs=true
ProtectControlGroups=true
ProtectClock=true
ProtectHostname=true
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
LockPersonality=true
PrivateNetwork=true
IPAddressDeny=any
RestrictAddressFamilies=AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @debug @module @mount @obsolete @privileged @raw-io @reboot @resources @swap
# A call that is not allowed fails, and the program says so; without this it would be killed.
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""
).format(program=PROGRAM)


def limits_file(group: str, values: Mapping[str, str]) -> Any:
    """limits.conf(5) for every login of the group's members; `values` (setting: value), memlock and stack in KiB."""
    lines = [LIMIT_LINES[name][0].format(group=group, value=value) for name, value in sorted(values.items())]
    return HEAD + "\n".join(lines) + "\n"


def drop_in_file(values: Mapping[str, str]) -> Any:
    """A service has systemd's limits, not PAM's; this gives it the same values."""
    lines = []
    for name, value in sorted(values.items()):
        text = "infinity" if value == "unlimited" else value + ("K" if name in IN_KIB else "")
        lines.append(LIMIT_LINES[name][1].format(value=text))
    return HEAD + "[Service]\n" + "\n".join(lines) + "\n"


def udev_file(rules: Sequence[Tuple[str, Mapping[str, str]]]) -> str:
    """A rule for each device, from its `disk.udev_match` and {attribute: value}."""
    text = HEAD
    for match, values in rules:
        settings = ", ".join(f'ATTR{{{name}}}="{value}"' for name, value in sorted(values.items()))
        text += f'ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", {match}, {settings}\n'
    return text


def tuned_file(parent: str, sysctls: Mapping[str, str], governor: str, hugepage: str, disks: Mapping[str, str]) -> str:
    """A tuned profile that agrees with the settings; governor and hugepage may be "".

    Values that the parent sets differently are dropped: `tuned-adm verify` would miss the percentage that bytes have
    made 0, and the parent's read-ahead would be set at each start of tuned. Newer parents have both in [vm].
    """
    gone = [name for name in sysctls if name in PERCENT]
    lines = ["[main]", "summary=GPU training node (gpuwright)", "include=" + parent]
    if governor:
        lines += ["", "[cpu]", "governor=" + governor]
    dropped = [word.partition(".")[2] for name in sorted(gone) for word in (name, PERCENT[name])]
    if hugepage or dropped:
        lines += ["", "[vm]"] + (["transparent_hugepages=" + hugepage] if hugepage else [])
        lines += ["drop=" + ",".join(dropped)] if dropped else []
    if "disk_read_ahead_kb" in disks:
        lines += ["", "[disk]", "drop=readahead"]
    if sysctls:
        lines += ["", "[sysctl]"] + (["drop=" + ",".join(PERCENT[name] for name in sorted(gone))] if gone else [])
        lines += [f"{name}={value}" for name, value in sorted(sysctls.items())]
    return HEAD + "\n".join(lines) + "\n"


def mount_name(folder: str) -> str:
    """Name of systemd's unit for a mount point; names of lower-case letters, digits and _ need no escaping."""
    return folder.strip("/").replace("/", "-")


def mount_file(file_system: str, folder: str) -> Any:
    """The mount unit; not required for boot: a node without its scratch disk still starts."""
    return HEAD + (
        "[Unit]\nDescription=Scratch file system\nBefore=local-fs.target\n\n"
        f"[Mount]\nWhat=/dev/disk/by-uuid/{file_system}\nWhere={folder}\nType=xfs\nOptions=noatime,nofail\n\n"
        "[Install]\nWantedBy=local-fs.target\n"
    )


def tmpfiles_file(folder: str) -> Any:
    """tmpfiles.d(5): everybody may write, and remove only their own files, as in /tmp; never cleaned."""
    return HEAD + f"z {folder} 1777 root root -\n"
