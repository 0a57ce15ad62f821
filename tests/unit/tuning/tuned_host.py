"""A made-up host for the settings of system_tuning: files of a kernel, a disk, and programs that answer."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from gpuwright.tuning import apply as tuning
from gpuwright.tuning import knobs as tuning_knobs
from gpuwright.tuning import store as tuning_store
from gpuwright.tuning.plan import make_plan
from host_tree import HostTree

# What tuned reads, the package's own folder first; moved in 2.23.
EARLIER = ("/usr/lib/tuned", "/etc/tuned")
LATER = ("/usr/lib/tuned/profiles", "/etc/tuned/profiles")
SWAPPINESS = "/proc/sys/vm/swappiness"
LIMITS = "etc/security/limits.d/95-gpuwright.conf"

WISHES = {
    "leave": [],
    "values": {},
    "limits_group": "trainer",
    "limits_units": ["train-gan@.service"],
    "data_dir": "/srv/gan/data",
    "tuned_parent": "",
    "scratch_uuid": "",
    "scratch_dir": "/scratch",
}
CPU = "/sys/devices/system/cpu/cpu{}/cpufreq/"
QUEUE = "/sys/block/nvme0n1/queue/"
MOUNTS = """\
22 1 259:2 / / rw,relatime shared:1 - xfs /dev/nvme0n1p2 rw
23 22 0:21 / /proc rw shared:2 - proc proc rw
40 22 0:50 / /mnt/share rw - nfs4 server:/share rw
"""
KERNEL_FILES = {
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n",
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/dirty_background_bytes": "0\n",
    "/proc/sys/vm/dirty_background_ratio": "10\n",
    "/proc/sys/vm/dirty_bytes": "0\n",
    "/proc/sys/vm/dirty_ratio": "20\n",
    "/proc/sys/vm/zone_reclaim_mode": "0\n",
    "/proc/sys/vm/max_map_count": "65530\n",
    "/proc/sys/kernel/numa_balancing": "1\n",
    "/proc/sys/fs/nr_open": "1048576\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    CPU.format(0) + "scaling_governor": "powersave\n",
    CPU.format(1) + "scaling_governor": "schedutil\n",
    QUEUE + "scheduler": "[mq-deadline] kyber bfq none\n",
    QUEUE + "read_ahead_kb": "128\n",
    QUEUE + "rotational": "0\n",
}
# One file for each unit: "<UnitFileState> <ActiveState>"; no file: not-found. Every call is written down.
SYSTEMCTL = """\
echo "systemctl $*" >> {calls}
units={units}
for unit; do :; done
case "$1" in
show)
    if [ -e "$units/$unit" ]; then
        read -r enabled active < "$units/$unit"
        printf 'LoadState=loaded\\nActiveState=%s\\nUnitFileState=%s\\n' "$active" "$enabled"
    elif [ -e {root}/etc/systemd/system/$unit ]; then
        printf 'LoadState=loaded\\nActiveState=inactive\\nUnitFileState=disabled\\n'
    else
        printf 'LoadState=not-found\\nActiveState=inactive\\nUnitFileState=\\n'
    fi ;;
enable | disable | start | stop)
    read -r enabled active < "$units/$unit" 2>/dev/null || {{ enabled=disabled; active=inactive; }}
    case "$1" in enable) enabled=enabled ;; disable) enabled=disabled ;; esac
    case "$1" in start) active=active ;; stop) active=inactive ;; esac
    if [ "$enabled $active" = "disabled inactive" ] && [ "$unit" = gpuwright-tuning.service ]; then rm -f "$units/$unit"
    else echo "$enabled $active" > "$units/$unit"; fi ;;
esac
"""
TUNED_ADM = """\
echo "tuned-adm $*" >> {calls}
case "$1" in
active)
    [ -s {state} ] || {{ echo "No current active profile."; exit 1; }}
    echo "Current active profile: $(cat {state})" ;;
recommend) echo virtual-guest ;;
profile)
    for folder in $(cat {state}.folders); do [ -e {root}$folder/$2/tuned.conf ] && found=yes; done
    [ "$found" ] || {{ echo "Requested profile '$2' doesn't exist." >&2; exit 1; }}
    echo "$2" > {state} ;;
off) : > {state} ;;
esac
"""
NVIDIA_SMI = """\
echo "nvidia-smi $*" >> {calls}
for argument; do
    case "$argument" in
    --power-limit=*) echo "${{argument#*=}}" > {state}.power; exit 0 ;;
    --applications-clocks=*) echo "${{argument#*=}}" > {state}.clocks; exit 0 ;;
    esac
done
power=$(cat {state}.power 2>/dev/null || echo 250.00)
clocks=$(cat {state}.clocks 2>/dev/null || echo 877,1245)
cat <<END
<?xml version="1.0" ?>
<nvidia_smi_log><gpu id="00000000:3B:00.0"><uuid>GPU-1</uuid>
<gpu_power_readings><current_power_limit>$power W</current_power_limit><min_power_limit>{lowest}</min_power_limit>
<max_power_limit>250.00 W</max_power_limit></gpu_power_readings>
<applications_clocks><graphics_clock>${{clocks#*,}} MHz</graphics_clock><mem_clock>${{clocks%,*}} MHz</mem_clock>
</applications_clocks><supported_clocks>{supported}</supported_clocks></gpu></nvidia_smi_log>
END
"""
SUPPORTED = (
    "<supported_mem_clock><value>877 MHz</value><supported_graphics_clock>1380 MHz</supported_graphics_clock>"
    "<supported_graphics_clock>1245 MHz</supported_graphics_clock></supported_mem_clock>"
)


class TunedHost(HostTree):
    """The files, and what its programs know; `calls` are the commands that were given."""

    def __init__(self, folder: Path, fake_bin: Callable[[str, str], Path]) -> None:
        super().__init__(folder / "node")
        self.state = folder / "state"
        self.units = self.state / "units"
        self.units.mkdir(parents=True)
        self.fake_bin = fake_bin
        for path, text in KERNEL_FILES.items():
            self.put(path, text)
        for number in (0, 1):
            self.put(CPU.format(number) + "scaling_available_governors", "performance powersave schedutil\n")
        self.put("/proc/self/mountinfo", MOUNTS)
        self.put("/sys/devices/pci/nvme0n1/nvme0n1p2/partition", "2\n")
        self.link("/sys/dev/block/259:2", "../../devices/pci/nvme0n1/nvme0n1p2")
        self.link("/sys/class/block/nvme0n1p2", "../../devices/pci/nvme0n1/nvme0n1p2")
        self.put("/sys/block/nvme0n1/wwid", "eui.0025388b01234567\n")
        for name in ("security/limits.d", "systemd/system", "udev/rules.d", "gpuwright"):
            (self.folder / "etc" / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "usr/local/bin").mkdir(parents=True)
        self.unit("irqbalance.service", "disabled inactive")
        self.unit("nvidia-persistenced.service", "enabled active")
        words = {"calls": self.state / "calls", "units": self.units, "root": self.root, "state": self.state / "tuned"}
        fake_bin("systemctl", "#!/bin/sh\n" + SYSTEMCTL.format(**words))
        fake_bin("tuned-adm", "#!/bin/sh\n" + TUNED_ADM.format(**words))
        for name in ("udevadm", "systemd-tmpfiles"):
            fake_bin(name, f"#!/bin/sh\necho {name} $* >> {self.state}/calls\n")
        self.gpu()

    def unit(self, name: str, state: str) -> None:
        (self.units / name).write_text(state + "\n")

    def tuned(self, profile: str, folders: tuple[str, str] = EARLIER) -> None:
        """tuned runs here, looks into these folders, and has this profile active; its package fills the first one."""
        self.unit("tuned.service", "enabled active")
        (self.state / "tuned").write_text(profile + "\n")
        (self.state / "tuned.folders").write_text(" ".join(folders) + "\n")
        for name in ("balanced", "throughput-performance", "virtual-guest", "accelerator-performance"):
            self.put(f"{folders[0]}/{name}/tuned.conf", "[main]\n")
        (self.folder / folders[1].lstrip("/")).mkdir(parents=True, exist_ok=True)

    def upgrade_tuned(self) -> None:
        """As the package of Debian 13 and EL 10 does: its own profiles, and those of others unless they are there."""
        shutil.rmtree(self.folder / "usr/lib/tuned")
        self.tuned((self.state / "tuned").read_text().strip(), LATER)
        for path in (self.folder / "etc/tuned").iterdir():
            target = self.folder / "etc/tuned/profiles" / path.name
            if (path / "tuned.conf").exists() and not target.exists():
                path.rename(target)

    def gpu(self, lowest: str = "100.00 W", supported: str = SUPPORTED) -> None:
        words = {"calls": self.state / "calls", "state": self.state / "gpu", "lowest": lowest, "supported": supported}
        self.fake_bin("nvidia-smi", "#!/bin/sh\n" + NVIDIA_SMI.format(**words))

    def calls(self) -> list[str]:
        file = self.state / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def everything(self) -> dict[str, object]:
        """All files with content and mode, links, folders, and what the programs remember."""
        found: dict[str, object] = {}
        for top in (self.folder, self.state):
            for path in sorted(top.rglob("*")):
                name = f"{top.name}/{path.relative_to(top)}"
                if path.is_symlink():
                    found[name] = ("link", str(path.readlink()))
                elif path.is_dir():
                    found[name] = "folder"
                elif path.name != "calls":
                    found[name] = (path.read_bytes(), path.stat().st_mode)
        return found

    def record(self) -> dict:
        return json.loads((self.folder / "etc/gpuwright/tuning.json").read_text())

    def masked(self, name: str) -> None:
        self.unit(name, "masked inactive")
        script = (self.state.parent / "fake_bin/systemctl").read_text()
        self.fake_bin("systemctl", script.replace("LoadState=loaded", "LoadState=masked"))


def as_a_kernel_does(root: str) -> Callable[[str, str], None]:
    """put_text as the kernel takes it: a list of choices keeps its choices, bytes and percent exclude each other."""
    original = tuning_knobs.put_text

    def put(path: str, content: str) -> None:
        inside = "/" + os.path.relpath(path, root)
        before = KERNEL_FILES.get(inside, "")
        if "[" in before:
            words = before.replace("[", "").replace("]", "").split()
            content = " ".join(f"[{word}]" if word == content.strip() else word for word in words) + "\n"
        original(path, content)
        pairs = {**tuning_knobs.COUNTERPARTS, **{value: key for key, value in tuning_knobs.COUNTERPARTS.items()}}
        if inside in pairs:
            original(root + pairs[inside], "0\n")

    return put


def tune(host: TunedHost, check: bool = False, absent: bool = False, **changes: object) -> tuple[bool, tuning.Plan]:
    """One run of the role: whether it changes something, and the plan."""
    before = tuning_store.load(host.root)
    plan = tuning.NOTHING if absent else make_plan(host.root, {**WISHES, **changes}, "#!/bin/sh\n", can_wait=check)
    work = tuning.compare(host.root, plan, before)
    if not check:
        tuning.apply(host.root, plan, work, before)
    return tuning.is_change(work), plan


def text(host: TunedHost, path: str) -> str:
    return (host.folder / path.lstrip("/")).read_text()
