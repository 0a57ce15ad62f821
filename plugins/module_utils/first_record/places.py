# SPDX-License-Identifier: Apache-2.0
"""Where roles, and the packages that they install, write: what the first record keeps, and what the ledger watches.

tests/unit/first_record/test_places.py holds that every file which a role's task names lies in one of these places.
"""

import re
from typing import Iterator

FOLDER = "/var/lib/gpuwright"

# Folders of small configuration files: everything below them is recorded, with its content.
TREES = (
    "/etc/alternatives",
    "/etc/apt",
    "/etc/cdi",
    "/etc/containers",
    "/etc/distro.repos.d",
    "/etc/dkms",
    "/etc/dnf",
    "/etc/docker",
    "/etc/dracut.conf.d",
    "/etc/gpuwright",
    "/etc/initramfs-tools/conf.d",
    "/etc/kernel",
    "/etc/ld.so.conf.d",
    "/etc/modprobe.d",
    "/etc/modules-load.d",
    "/etc/nvidia-container-runtime",
    "/etc/pki/rpm-gpg",
    "/etc/profile.d",
    "/etc/security/limits.d",
    "/etc/sysctl.d",
    "/etc/systemd",
    "/etc/tmpfiles.d",
    "/etc/tuned",
    "/etc/udev/rules.d",
    "/etc/yum.repos.d",
    "/etc/yum/repos.d",
    "/boot/loader/entries",
    "/var/lib/systemd/linger",
)
# Folders of which only the names in them are recorded, with mode and owner.
NAMES = (
    "/",
    "/etc",
    "/opt",
    "/opt/gpuwright",
    "/srv",
    "/srv/gan",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/var/lib",
    "/var/lib/dkms",
    "/var/lib/node_exporter",
)
# Single files, with their content.
FILES = (
    "/boot/grub/grubenv",
    "/boot/grub2/grubenv",
    "/etc/default/grub",
    "/etc/subgid",
    "/etc/subuid",
    "/usr/bin/gpu-doctor",
    "/usr/bin/gpu-job",
    "/usr/bin/gpu-run",
    "/usr/bin/gpu-tune",
    "/usr/local/bin/gpu-doctor",
    "/usr/local/bin/gpu-job",
    "/usr/local/bin/gpu-run",
    "/usr/local/bin/gpu-tune",
)
# Folders that are the toolkit's alone, with all that is in them: they are removed and never put back.
# The last is made by systemd, for the code that training compiles.
OWN_TREES = ("/usr/local/lib/gpuwright", "/opt/gpuwright/venvs", "/var/cache/gpuwright-training")
# Those of them that roles keep as they are, and the folder of the wheels of cuDNN beside the environments.
STAMPED_TREES = ("/usr/local/lib/gpuwright", "/opt/gpuwright/venvs", "/opt/gpuwright/cudnn")
# Paths where no look goes, and that a role asks for: the first is there on every node, the others where GPUs are for
# containers.
NAMED = (FOLDER, "/var/run/cdi/nvidia.yaml", "/usr/bin/podman", "/usr/bin/dockerd")
UNIT = re.compile(r"[^/]+\.(service|timer|path|socket|mount)")
# Units of packages that roles switch on or off.
UNITS = (
    "nvidia-cdi-refresh.path",
    "nvidia-cdi-refresh.service",
    "nvidia-dcgm-exporter.service",
    "nvidia-dcgm.service",
    "nvidia-fabricmanager.service",
    "nvidia-persistenced.service",
)
# Files in FOLDER are its records, which go last.
OWN_NAME = re.compile(r".*gpuwright.*|gpu-(run|job|doctor|tune)|(train-gan|gpu-job)@.*")
# Files that roles write under names which the distribution or NVIDIA gives them.
SHARED = re.compile(
    r"/etc/yum\.repos\.d/(epel|cuda-.*|nvidia-container-toolkit)\.repo"
    r"|/etc/pki/rpm-gpg/RPM-GPG-KEY-(epel|cuda-.*|nvidia-container-toolkit)"
    r"|/etc/apt/(keyrings|sources\.list\.d)/(cuda-.*|nvidia-.*)\.(asc|sources)"
    r"|/etc/dnf/(plugins/versionlock\.list|modules\.d/nvidia-driver\.module)"
    r"|/etc/dkms(/.*)?|/etc/kernel/[a-z_]+\.d(/dkms)?|/etc/modprobe\.d/(dkms|nvidia).*|/usr/local/cuda[^/]*"
    r"|/etc/docker/daemon\.json|/etc/(subuid|subgid)|/var/lib/systemd/linger(/.*)?|/etc/alternatives/.*"
    r"|/var/lib/dkms(/mok\.(key|pub))?|/srv/gan(/data|/runs)?|/var/lib/node_exporter(/textfile_collector)?"
)
# What else no role asks for as a whole: of these, entries of an account, or a file that a role's package brings.
OF_OTHERS = re.compile(r"/etc/alternatives/(?!cuda).*|/etc/sub[ug]id|/var/lib/systemd/linger(/.*)?|/var/lib/dkms(/.*)?")
# What dnf and apt read as their sources: roles take over those that name the toolkit's repositories.
SOURCES = re.compile(
    r"/etc/(yum\.repos\.d|yum/repos\.d|distro\.repos\.d)/[^/]+\.repo|/etc/dnf/dnf\.conf"
    r"|/etc/apt/(sources\.list|sources\.list\.d/[^/]+\.(list|sources))"
)
# Made by the system itself, by every start or by every program that touches the folder.
PASSING = re.compile(
    r".*/__pycache__(/.*)?"
    r"|/etc/(ld\.so\.cache|machine-id|adjtime|mtab|resolv\.conf|\.updated|\.pwd\.lock|[a-z]+-|\.[a-z.]+\.new)"
)
# Accounts are compared entry by entry, and never put back as files.
ACCOUNT_FILES = ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow")
# What is left where a package manager finds a file changed that it would replace or remove.
KEPT_BY_PACKAGES = (".rpmsave", ".rpmnew", ".rpmorig", ".dpkg-old", ".dpkg-new", ".dpkg-dist", ".ucf-old")


def is_own(path: str) -> bool:
    """Whether the toolkit alone makes a file of that name: one of its folders, or its name in it."""
    return any(OWN_NAME.fullmatch(part) for part in path.split("/"))


def is_wanted(path: str) -> bool:
    """Whether a role may ask for a file of that name: what else changes decides nothing of a run."""
    if OF_OTHERS.fullmatch(path):
        return False
    return is_own(path) or bool(SHARED.fullmatch(path)) or bool(SOURCES.fullmatch(path))


def is_passing(path: str) -> bool:
    return path in ACCOUNT_FILES or path == FOLDER or path.startswith(FOLDER + "/") or bool(PASSING.fullmatch(path))


def parents(path: str) -> Iterator[str]:
    """The folders that `path` lies in, nearest first, without the root."""
    while path.count("/") > 1:
        path = path.rpartition("/")[0]
        yield path
