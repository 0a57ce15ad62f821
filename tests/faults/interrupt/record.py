"""The state of a host as data, and how two states differ; differences that are allowed are a list with reasons."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import stat
from pathlib import Path
from typing import Protocol

# Of the kernel, or gone with the next boot; apart from the toolkit's own folder in /run, which is looked at.
NOT_ON_DISK = ("/proc", "/sys", "/dev", "/run", "/tmp")
# What a fault of the harness itself puts there.
OWN = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/fleet", "/opt/world")

# Path, what may differ ("all", or "content": kind, mode and owner are compared still), and what it is and why.
LAWFUL = (
    (r"/var/log(/.*)?", "all", "logs: what was done and when"),
    (r"/var/cache(/.*)?", "all", "caches of package managers and fonts: what was downloaded, and when"),
    (r"/var/lib/(rpm|dnf|PackageKit)(/.*)?", "all", "the package manager's databases: times (packages are compared)"),
    (r"/var/lib/systemd(/.*)?", "all", "systemd's own records: times of timers, seed, catalogue"),
    (r"/var/tmp/systemd-private-.*", "all", "systemd's folders for services with a private /tmp: named at random"),
    (
        r"/var/lib/gpuwright/boot-check\.json",
        "all",
        "the last check's record: one that a full disk refuses takes the old one with it, as that is no longer true; "
        "the timer writes the next within minutes",
    ),
    (
        r"/var/lib/gpuwright/(strikes|last_pass|smoke|report|verdict|verified|history)[^/]*",
        "content",
        "gpu-doctor's records: times",
    ),
    (
        r"/var/lib/gpuwright/(first-record|changes)\.json",
        "content",
        "the record of the bare node and of our runs: times",
    ),
    (
        r"/var/lib/gpuwright/stamp\.json",
        "all",
        "the stamp of a node with nothing to do: written only after a run that changed nothing, with times of trees",
    ),
    (
        r"/var/lib/node_exporter/textfile_collector/gpuwright\.prom",
        "content",
        "gpu-doctor's metrics: when it last looked, and what it measured",
    ),
    (
        r"/srv/gan/runs/cut/tensorboard/.*",
        "all",
        "a training's events: each run has files of its own, named after time and process",
    ),
    (
        r"/srv/gan/runs/cut/.*",
        "content",
        "a training's statistics and checkpoints: times (the trainer's tests compare the weights of a resumed run)",
    ),
    (r"/etc/gpuwright/runtime-calibrated\.json", "content", "the times that a calibration measured"),
    (r"/var/tmp/ansible-tmp-[^/]*(/.*)?", "all", "what Ansible was sending: systemd-tmpfiles removes it after 30 days"),
    (
        r"/var/tmp/rpm-tmp\.[^/]*",
        "all",
        "a killed scriptlet of rpm: systemd-tmpfiles removes it after 30 days",
    ),
    (r"/var/lib/dkms/mok\.(key|pub)", "content", "the key that DKMS makes when it first signs a module"),
    (r"/(root|home/[^/]+)/\.(ansible|cache|bash_history)(/.*)?", "all", "caches and history of the login"),
    (r"/home/[^/]+/\.sudo_as_admin_successful", "all", "made by sudo when somebody uses it first"),
    (r"/etc/ssh/ssh_host_.*", "content", "ssh host keys: a bare host makes them when it first starts"),
    (r".*\.\d+\.[-\d]+@[:\d]+~", "all", "the copy kept of a file that was found changed: a power cut may empty one"),
    (r".*/__pycache__/.*\.pyc", "content", "compiled Python: the times of the sources"),
    (r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)-", "all", "backups that useradd makes of the file before"),
    (r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)\+", "all", "what useradd was writing: it overwrites it"),
    (
        r"/etc/gshadow",
        "content",
        "a group's entry without password and members, which a power cut between groupadd's two files leaves out: it "
        "means the same as none, and /etc/group is compared",
    ),
    (r"/etc/\.(pwd|updated).*|/etc/(ld\.so\.cache|machine-id)|/var/\.updated", "content", "made by the system itself"),
    (r"/var/lib/dkms/.*/(log|build)(/.*)?|/var/lib/dkms/.*\.log", "all", "logs of DKMS builds"),
    (r"/boot/.*initramfs.*|/boot/initrd.*", "content", "initial ram disks: times of the files in them"),
    (r"(/usr)?/lib/modules/[^/]+/modules\..*", "content", "depmod's indexes: the order in which modules came"),
)
# The same for units.
LAWFUL_UNITS = {
    "gpuwright-check.service": "a health check that failed while a disk was full: its timer repeats it",
    "gpuwright-boot-check.service": "the same at a boot; the timer renews the record that the gate reads",
}
# Done once in each boot, if it was done: a host whose power was cut has booted since, and an undisturbed one has not.
DONE_AT_BOOT = {"dkms.service": "enabled by its package, and done by a boot alone: a host that was cut off had one"}
# What ends a signed module (linux/module_signature.h): 12 bytes, of which the last four are the signature's length.
SIGNED = b"~Module signature appended~\n"
SIGNATURE_BYTES = 12

State = dict[str, str]


class Readable(Protocol):
    """What is asked of a host: its files as this machine sees them, and what a script prints that root runs there."""

    def root(self) -> Path: ...

    def do(self, script: str, check: bool = True) -> str: ...


class Hashes:
    """Hashes of files that were seen before, by inode, size and times: snapshots share what they have in common."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.known: dict[tuple[int, int, int, int], str] = pickle.loads(file.read_bytes()) if file.exists() else {}

    def of(self, path: str, status: os.stat_result) -> str:
        key = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if key not in self.known:
            digest = hashlib.sha256()
            with open(path, "rb") as stream:
                if path.endswith(".ko"):
                    digest.update(unsigned(stream.read()))
                if path.endswith("/etc/shadow"):
                    digest.update(undated(stream.read()))
                while piece := stream.read(1 << 20):
                    digest.update(piece)
            self.known[key] = digest.hexdigest()[:16]
        return self.known[key]

    def save(self) -> None:
        temporary = self.file.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(pickle.dumps(self.known))
        temporary.replace(self.file)


def unsigned(module: bytes) -> bytes:
    """A kernel module without its signature, which differs with each host's key."""
    if not module.endswith(SIGNED):
        return module
    end = len(module) - len(SIGNED)
    return module[: end - SIGNATURE_BYTES - int.from_bytes(module[end - 4 : end], "big")]


def undated(accounts: bytes) -> bytes:
    """/etc/shadow without the day on which each password was last set or locked (shadow(5), third field)."""
    lines = [line.split(b":") for line in accounts.splitlines()]
    return b"\n".join(b":".join(words[:2] + words[3:]) for words in lines)


def lawful(path: str) -> str:
    """What may differ of this path: "all", "content" or nothing."""
    return next((what for pattern, what, _reason in LAWFUL if re.fullmatch(pattern, path)), "")


def read(host: Readable, hashes: Hashes) -> State:
    """Files (kind, mode, owner, content), packages, units and the toolkit's folder in /run, by name."""
    root = str(host.root())
    state = {f"file {path}": line for path, line in files(root, hashes).items()}
    for name, script in (
        ("package", "rpm -qa --qf '%{NAME}.%{ARCH} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n' | grep -v ^gpg-pubkey | sort"),
        ("key", "rpm -qa 'gpg-pubkey*' --qf '%{NAME}-%{VERSION} %{SUMMARY}\\n' | sort"),
        ("unit-file", "systemctl list-unit-files --no-legend --no-pager"
         " | awk '$1 !~ /^(session-|run-|user-|init.scope)/ {print $1, $2}'"),
        ("active", "systemctl list-units --type=service,timer,socket,path --state=active,failed --no-legend --plain"
         " --no-pager | awk '$1 !~ /^(user|session|run-|systemd-)/ {print $1, $4}'"),
        ("run", "cd /run/gpuwright 2>/dev/null && find . -type f | sed 's/$/ there/' || true"),
        ("module", "ls /sys/module | grep -E 'nvidia|nouveau' | sed 's/$/ loaded/'"),
    ):  # fmt: skip
        for line in host.do(script, check=False).splitlines():
            word, _, value = line.partition(" ")
            state[f"{name} {word}"] = value
    hashes.save()
    return state


def files(root: str, hashes: Hashes) -> State:
    """Every file below `root` that is on a disk and may not differ altogether."""
    found = {}
    for folder, folders, names in os.walk(root, followlinks=False):
        place = folder[len(root) :] or "/"
        folders[:] = [name for name in folders if os.path.join(place, name) not in (*NOT_ON_DISK, *OWN)]
        names = [name for name in names if os.path.join(place, name) not in OWN]
        folders[:] = [name for name in folders if lawful(os.path.join(place, name)) != "all"]
        for name in [*folders, *names]:
            path = os.path.join(place, name)
            what = lawful(path)
            if what == "all":
                continue
            try:
                status = os.lstat(root + path)
                found[path] = one(root + path, status, what, hashes)
            except FileNotFoundError:
                continue
    return found


def one(path: str, status: os.stat_result, what: str, hashes: Hashes) -> str:
    """Kind, mode, owner and content of one file, in a line."""
    owner = f"{stat.S_IMODE(status.st_mode):04o} {status.st_uid}:{status.st_gid}"
    if stat.S_ISLNK(status.st_mode):
        return f"link {os.readlink(path)}"
    if stat.S_ISREG(status.st_mode):
        return f"file {owner} {'' if what else hashes.of(path, status)}".rstrip()
    return f"{'folder' if stat.S_ISDIR(status.st_mode) else 'other'} {owner}"


def comparable(state: State) -> State:
    """Without what may differ by now: a state may have been read before a row of LAWFUL was added."""
    found = {}
    for name, line in state.items():
        kind, _, path = name.partition(" ")
        what = lawful(path) if kind == "file" else ""
        own = kind == "file" and any(path == each or path.startswith(each + "/") for each in OWN)
        if kind == "active":
            # A timer runs while its service does.
            line = "waiting" if path.endswith(".timer") and line == "running" else line
            own = path in LAWFUL_UNITS or (path in DONE_AT_BOOT and line == "exited")
        if what != "all" and not own:
            found[name] = " ".join(line.split()[:3]) if what and line.startswith("file") else line
    return found


def differences(reference: State, found: State) -> list[str]:
    """One line for each thing that is not as in the undisturbed run; of a folder that is one too many, the folder."""
    reference, found = comparable(reference), comparable(found)
    lines, extra = [], ""
    for name in sorted(reference.keys() | found.keys()):
        if reference.get(name) == found.get(name) or (extra and name.startswith(extra + "/")):
            continue
        lines.append(f"{name}: {reference.get(name, 'is not there')}, found {found.get(name, 'nothing')}")
        extra = name if name not in reference and found[name].startswith("folder") else ""
    return lines
