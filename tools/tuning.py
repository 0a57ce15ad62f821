"""Write docs/tuning.md from the table of settings (`make docs`). tests/unit/docs/test_tuning_page.py finds drift."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs/tuning.md"
sys.path.insert(0, str(REPOSITORY / "collections"))
from ansible_collections.gpuwright.node.plugins.module_utils.tuning.catalogue import CATALOGUE

HEAD = """\
# Settings of the host

The role `system_tuning` (`ansible-playbook playbooks/system.yml --tags system_tuning`) sets what this page lists, now
and at each boot. This page is written from `plugins/module_utils/tuning/catalogue.py` by `make docs`; do not edit
it.

* **See** all of them on a node, beside what they are now: `sudo gpu-tune` (`--json` for programs). `gpu-doctor` and
  the report hold the node against them as the check `host.tuning`.
* **Leave one alone**: `system_tuning_leave: [vm.swappiness]`. One that was set before goes back to what was found.
* **Another value**: `system_tuning_values: {disk_read_ahead_kb: "1024"}`, in quotes.
* **Undo all**: `system_tuning_state: absent`. What was found before the first application is kept in
  `/var/lib/gpuwright/tuning-before.json`, is never overwritten, and is put back: values, files byte for byte, states
  of units, the profile of tuned. Installed packages stay.
* What a host does not have, or may not set, is left alone, and `gpu-tune` says why: no frequency scaling in a virtual
  machine, a kernel without the file, a file system without a disk. In a container nothing of the kernel is touched,
  even where `/proc/sys` could be written: it is the kernel of the container's host.
* None of these values was measured on GPUs by this project; the sources say who recommends them. Measure your own
  training before and after, and leave alone what does not help.

"""

TAIL = """\
## Where tuned runs

A profile `gpuwright` is written where the installed tuned looks for profiles: to `/etc/tuned/gpuwright`, on Debian 13
and EL 10 (tuned 2.23 and newer) to `/etc/tuned/profiles/gpuwright`, or below a folder that `profile_dirs` in
`/etc/tuned/tuned-main.conf` names. Where an upgrade of tuned moves it, the next run, or the way back, finds it there.
It includes the profile that `tuned-adm recommend` names (`throughput-performance` or `virtual-guest`;
`system_tuning_tuned_parent` names another, such as `accelerator-performance`), sets the same values, and is made the
active one. Without tuned, `gpuwright-tuning.service` alone sets them at boot; with it, the service runs after tuned.

## Limits

PAM gives the limits to logins of members of `system_training_group`, systemd gives them to the services in
`system_tuning_limits_units` through drop-ins; nobody else gets them. A running service keeps its limits until it is
restarted.

## Left alone

* **RestrictProfilingToAdminUsers**, the driver's module option that keeps performance counters from users: they are a
  side channel between users of one GPU (CVE-2018-6260), so it stays on. Who is alone on a node sets
  `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in `/etc/modprobe.d` and reboots; the check
  `driver.parameters` then holds the driver against it.
* **Sleep states as a kernel parameter** (`intel_idle.max_cstate=1`, `idle=poll`): they hold for all CPUs until the next
  reboot, and keep the others from their highest clock. `cpu_wake_latency` can be tried and undone.
* **TasksMax of user slices**: logins share `user-UID.slice`, whose 33 % of `kernel.pid_max` protect the host from them.

## Power limit and application clocks

Both are off until `system_tuning_values` names them: `{gpu_power_limit: "200"}` in watts, `{gpu_clocks: "877,1380"}`
as memory and graphics clock in MHz. A value outside the range that a card itself names is refused before anything is
changed, with the range. The driver forgets both at a reboot; the service sets them again. A lowered power limit is
also reported by the check `gpu.power_limit`.

## Scratch disk

`system_tuning_scratch_serial` names an NVMe disk by its serial number (`lsblk -d -o NAME,SERIAL,SIZE`). It gets an
XFS, mounted at `system_tuning_scratch_dir` with mode 1777. A disk is formatted only if it holds nothing: no
partition, no signature (`wipefs`, `blkid`), not mounted, no swap, nothing built on it, not in use by the kernel, and
64 samples of 1 MiB hold only zeros or only ones. Everything found is told, nothing is touched, and there is no option
to override it. A disk once used is emptied by its owner, for instance with `blkdiscard`. Undoing unmounts the file
system and never erases it.

## For developers

Every setting is a row of `plugins/module_utils/tuning/catalogue.py`: value, pattern of allowed values, reason, source,
how to see and undo it. A *knob* is what can be read and written on a host under one key: a file of the kernel (or a
glob), `disk FOLDER ATTRIBUTE`, `unit NAME` ("enabled active"), `tuned profile`, `gpu UUID power_limit|clocks`.
`make_plan` turns the role's variables into settings, knobs and files, and says what is left alone and why; `compare`
reads; `apply` records, then changes. `state: absent` is the empty plan, and a setting in `leave` is one that is missing
from the plan: both go back by the same lines.

```yaml
# /etc/gpuwright/tuning.json, 0644: what is held; read by gpu-tune, at boot by `gpu-tune --apply`, and by host.tuning
schema: 1
settings: [{name: vm.swappiness, path_or_how: /proc/sys/vm/swappiness, wanted: "10", reason: ..., undo: ...,
            keys: {/proc/sys/vm/swappiness: "10"}}]
skipped: [{name: cpu_governor, reason: "this host has no /sys/devices/system/cpu/..."}]
# /var/lib/gpuwright/tuning-before.json, 0600: what to go back to; an entry is written before the first change and
# removed when it is back
{schema: 1, knobs: {key: value}, folders: [made by us],
 files: {path: {content: base64, mode: 420, uid: 0, gid: 0} | {link: target} | null}}
```

`readings.tuning` is `[{name, wanted, found, reason}]`; null: not tuned (SKIP); `found` may be `{unreadable: why}`
(UNKNOWN). A value other than the wanted one is a WARN.

* **One module instead of twenty tasks**: a run that changes nothing costs one task, and only a program that reads all
  values before its first change can put all of them back.
* **The boot service always runs, and tuned as well where it is installed.** tuned's profile carries the same values, so
  that it sets nothing back; the service runs after it.
* **A container's kernel is never touched**, even where `/proc/sys` is writable: it is the host's.
* **The group and the units of the limits are variables of this role**, whose defaults equal the trainer's (a test
  compares them). The drop-in for `train-gan@.service` may be there before the unit is.
* **The data disk is found from the mount of a folder at each use**, and the udev rule knows it by world wide or serial
  number: names change at boot.
* **`vm.dirty_bytes` goes back through `vm.dirty_ratio`** where that was in force: the kernel keeps one of the two, and
  0 cannot be written.
* **The scratch file system's UUID is made from the serial number**, so a later run knows its own work without a record
  that could be lost. mkfs.xfs runs without `-f`, and looks for signatures once more itself.
"""


def page(catalogue: tuple[Any, ...]) -> str:
    """The whole page."""
    lines = ["| setting | value | why | source |", "|---|---|---|---|"]
    for row in catalogue:
        cells = (f"`{row.name}`", f"`{row.wanted}`" if row.wanted else "off", row.reason, row.source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "| setting | where | see it | undo it by hand |", "|---|---|---|---|"]
    for row in catalogue:
        cells = (f"`{row.name}`", row.where and f"`{row.where}`", f"`{row.see}`", row.undo)
        lines.append("| " + " | ".join((cell or " ").replace("|", "\\|") for cell in cells) + " |")
    return HEAD + "\n".join(lines) + "\n\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(CATALOGUE))
