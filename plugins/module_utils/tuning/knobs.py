# SPDX-License-Identifier: Apache-2.0
"""Read and write what can be set on a host; every knob has a key and a value, both texts.

    /proc/sys/vm/swappiness               a file of the kernel; a glob means all files that it matches
    disk /srv/gan/data queue/scheduler    a file of each disk below a folder; read_ahead_kb also of devices made of them
    unit irqbalance.service               "enabled active", as systemd says
    tuned profile                         the active profile, or "off"
    gpu all power_limit                   watts; "gpu UUID clocks": MHz as "877,1380"
    file /etc/x.conf                      digest of a file; read only

`expand` turns a key into concrete ones. Keys that this host does not have raise `NotHere` with a readable reason.
"""

import glob
import hashlib
import os
import re
from typing import List, Sequence

from ..host.bounded import run_bounded
from ..host.files import below, read_bytes, read_text, resolve
from ..host.patterns import lazily
from . import gpu as tuning_gpu
from .disk import NotHere, devices_below, disks_below

COMMAND_SECONDS = 60
# Attributes that only disks have; the devices made of them pass requests on.
SCHEDULER = "queue/scheduler"
CHOSEN = lazily(r"\[([^\]]+)\]")
# The kernel has each as bytes or as a percentage: setting one makes the other 0, and 0 itself cannot be written.
COUNTERPARTS = {
    "/proc/sys/vm/dirty_bytes": "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_background_bytes": "/proc/sys/vm/dirty_background_ratio",
}
COUNTERPART = "percent "


def expand(root: str, key: str) -> List[str]:
    """The concrete keys that `key` means; raises NotHere if there is none."""
    words = key.split()
    if words[0] == "disk":
        below_it = disks_below if words[2] == SCHEDULER else devices_below
        return [f"/sys/block/{name}/{words[2]}" for name in below_it(root, words[1])]
    if words[0] == "gpu" and words[1] == "all":
        return [f"gpu {uuid} {words[2]}" for uuid in sorted(tuning_gpu.ask())]
    if not key.startswith("/"):
        return [key]
    if "*" not in key:
        if resolve(root, key) is None:
            raise NotHere(f"this kernel has no {key}")
        return [key]
    found = sorted(glob.glob(below(root, key)))
    if not found:
        raise NotHere(f"this host has no {key}")
    return ["/" + os.path.relpath(path, root) for path in found]


def read(root: str, key: str) -> str:
    """The value of a concrete key."""
    words = key.split()
    if key.startswith("/"):
        return _read_file(root, key)
    if words[0] == "unit":
        return read_unit(words[1])
    if words[0] == "tuned":
        return _read_tuned()
    if words[0] == "gpu":
        return tuning_gpu.value(tuning_gpu.ask(), words[1], words[2])
    if words[0] == "file":
        data = read_bytes(root, words[1])
        return "missing" if data is None else digest(data)
    raise ValueError(f"{key!r} is not a knob")


def read_all(root: str, key: str) -> str:
    """The different values of everything that `key` means, as one text."""
    return ", ".join(sorted({read(root, one) for one in expand(root, key)}))


def read_to_restore(root: str, key: str) -> str:
    """The value to write to restore the current state; it differs from `read` for pairs of bytes and percent."""
    value = read(root, key)
    if key in COUNTERPARTS and value == "0":
        return COUNTERPART + _read_file(root, COUNTERPARTS[key])
    return value


def why_not(root: str, key: str, wanted: str) -> str:
    """Why this host cannot set the concrete file `key` to `wanted`, or ""; "" also for other kinds of knobs."""
    if not key.startswith("/"):
        return ""
    full = resolve(root, key) or below(root, key)
    if os.statvfs(full).f_flag & os.ST_RDONLY or not os.access(full, os.W_OK):
        return f"{key} is read-only here"
    offered = _offered(root, key)
    if offered and wanted not in offered:
        return f"{key} offers {', '.join(offered)}, not {wanted}"
    return ""


def write(root: str, key: str, value: str) -> None:
    """Set a concrete key; raises OSError or ValueError that names it."""
    words = key.split()
    if key.startswith("/"):
        if value.startswith(COUNTERPART):
            key, value = COUNTERPARTS[key], value[len(COUNTERPART) :]
        put_text(resolve(root, key) or below(root, key), value + "\n")
    elif words[0] == "unit":
        _write_unit(words[1], value)
    elif words[0] == "tuned":
        command(["tuned-adm", "off"] if value == "off" else ["tuned-adm", "profile", value])
    elif words[0] == "gpu":
        tuning_gpu.set_value(words[1], words[2], value)
    else:
        raise ValueError(f"{key!r} cannot be written")


def put_text(path: str, text: str) -> None:
    """Write in a single call, as files of the kernel require."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def command(arguments: Sequence[str]) -> str:
    """Run it; returns its standard output, or raises OSError with its last lines."""
    done = run_bounded(arguments, COMMAND_SECONDS)
    if done.rc != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise OSError(f"{' '.join(arguments)}: {done.problem or ' '.join(words) or done.rc}")
    return done.stdout


def read_unit(unit: str) -> str:
    """Two words: whether systemd starts it at boot, or not-found or masked, and whether it runs."""
    text = command(["systemctl", "show", "--property=LoadState,UnitFileState,ActiveState", unit])
    state = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    load, active = state.get("LoadState"), state.get("ActiveState")
    if not load or not active:
        raise OSError(f"systemctl show {unit} did not show its state")
    return "{} {}".format(load if load != "loaded" else state.get("UnitFileState") or "static", active)


def _write_unit(unit: str, value: str) -> None:
    enabled, active = value.split()
    before = read_unit(unit).split()
    if before[0] == "not-found":
        return
    if enabled == "enabled" and before[0] != "enabled":
        command(["systemctl", "enable", unit])
    if enabled in ("disabled", "not-found") and before[0] == "enabled":
        command(["systemctl", "disable", unit])
    if active == "active" and before[1] != "active":
        command(["systemctl", "start", unit])
    if active in ("inactive", "failed") and before[1] == "active":
        command(["systemctl", "stop", unit])


def _read_tuned() -> str:
    done = run_bounded(["tuned-adm", "active"], COMMAND_SECONDS)
    match = re.search(r"Current active profile: *(\S.*)", done.stdout)
    if match:
        return match.group(1).strip()
    if "No current active profile" in done.stdout + done.stderr:
        return "off"
    raise OSError(f"tuned-adm active: {done.problem or (done.stdout + done.stderr).strip() or done.rc}")


def _read_file(root: str, path: str) -> str:
    text = read_text(root, path)
    if text is None:
        raise NotHere(f"{path} cannot be read")
    chosen = CHOSEN.search(text)
    return chosen.group(1) if chosen else " ".join(text.split())


def _offered(root: str, path: str) -> List[str]:
    """The values that the kernel accepts, if it lists them."""
    if path.endswith("/scaling_governor"):
        return (read_text(root, path[: -len("governor")] + "available_governors") or "").split()
    text = read_text(root, path) or ""
    return text.replace("[", "").replace("]", "").split() if CHOSEN.search(text) else []
