# SPDX-License-Identifier: Apache-2.0
"""Where the installed driver comes from: its packages with versions and makers, and files that belong to no package.

rpm or dpkg is asked, whichever this system uses; no repository is contacted.
"""

import re
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

from ...gpu.device_table import DRIVER_PARTS
from ...host.bounded import Finished, run_bounded
from ...host.files import below, exists, read_colon_lines, resolve
from ...host.patterns import lazily
from ...probe.kernel import Ask
from ...probe.nvidia import LIBRARY_FOLDERS, MODULE_NAMES
from ...verdict.report import Record
from ..reinstall import FAMILIES

SECONDS = 20
DATABASES = {"dpkg": ("/var/lib/dpkg/status",), "rpm": ("/var/lib/rpm", "/usr/lib/sysimage/rpm")}
RPM_FORMAT = "%{NAME}\t%{VERSION}\t%{RELEASE}\t%{VENDOR} %{PACKAGER}\n"
DPKG_FORMAT = "${Package}\t${Version}\t${db:Status-Abbrev}\t${Maintainer}\n"
# Driver versions are three or four digits and one or two more numbers; CUDA, kernels and tools use other schemes.
VERSION = lazily(r"(?:[0-9]+:)?([0-9]{3,4}\.[0-9]{1,3}(?:\.[0-9]{1,3})?)(?:[-~+].*)?$")
# Packages whose own version looks like a driver's, and firmware that stays for older kernels.
OTHERS = lazily(
    r"container|docker|compat|egl-|vaapi|pinning|^nvidia-firmware-[0-9].*-[0-9]+\.[0-9]+|-dev$|-doc$|cuda-toolkit"
)
OLD_BRANCH = lazily(r"-(tesla-[0-9]+|legacy-[0-9]+xx)(-|$)")
# kmod-nvidia-580.95.05-4.18.0-553.16.1: built for one kernel, and kept as long as that kernel.
FOR_KERNEL = lazily(r"^kmod-nvidia-.*-([0-9]+\.[0-9]+\.[0-9]+-[0-9][0-9.]*)$")
# Tools that work with any driver: NVIDIA packages them at its version, distributions at their own pace.
TOOLS = lazily(r"nvidia-(settings|xconfig|modprobe|persistenced)|lib(XNVCtrl|xnvctrl)|nvidia-libXNVCtrl", re.IGNORECASE)
NVIDIA = "NVIDIA"
UNNAMED = "unnamed"
# Who packaged it, by what the package says about its maker, by its version, or by a name that only this maker uses.
MAKERS = (
    ("negativo17", lazily(r"negativo17|^dkms-nvidia", re.IGNORECASE)),
    ("RPM Fusion", lazily(r"rpm ?fusion|^xorg-x11-drv-nvidia|^akmod-nvidia", re.IGNORECASE)),
    ("ELRepo", lazily(r"elrepo|^nvidia-x11-drv", re.IGNORECASE)),
    ("graphics-drivers PPA", lazily(r"~gpu[0-9]", re.IGNORECASE)),
    ("distribution", lazily(r"[~+]deb[0-9]+u|0ubuntu0\.[0-9]{2}\.|red hat|rocky|almalinux", re.IGNORECASE)),
    (NVIDIA, lazily(r"nvidia (corporation|inc)|@nvidia\.com|\tnvidia ", re.IGNORECASE)),
)
# Files that NVIDIA's own installer (NVIDIA-Linux-*.run) leaves beside the driver; no package has them.
INSTALLER = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")
INSTALLER_LOG = "/var/log/nvidia-installer.log"

# run_bounded, or a replacement for it.
RunProgram = Callable[[Sequence[str], float], Finished]


def read_driver_packages(
    root: str,
    family: Optional[str],
    ask: Ask,
    kernels: Sequence[str],
    dkms: Iterable[Record],
    run: RunProgram = run_bounded,
) -> Dict[str, Any]:
    """`{manager, packages: [{name, version, maker, bound}], unowned: [path], installer: [path]}`.

    `family`: the probe's; either package manager may be installed on a system of the other one. `kernels`: those that
    run now or next; packages for other kernels are left out. `dkms`: the probe's list. `maker` is "unnamed" if the
    package does not say; `bound`: its version must be the driver's. `unowned`: files of the driver that belong to no
    package.
    """
    there = [name for name, paths in DATABASES.items() if any(exists(root, path) for path in paths)]
    if not there:
        raise OSError("neither rpm nor dpkg manages the packages of this system")
    own = FAMILIES.get(family or "")
    manager = own if own in there else there[0]
    text = _ask_packages(manager, run)
    return {
        "manager": manager,
        "packages": parse_packages(text, kernels, manager),
        "unowned": [path for path in driver_files(root, ask, kernels, dkms) if not _is_owned(manager, path, run)],
        "installer": [path for path in (*INSTALLER, INSTALLER_LOG) if exists(root, path)],
    }


def _ask_packages(manager: str, run: RunProgram) -> str:
    if manager == "rpm":
        done = run(["rpm", "-qa", "--qf", RPM_FORMAT, *DRIVER_PARTS["versioned"]], SECONDS)
    else:
        done = run(["dpkg-query", "-W", "-f", DPKG_FORMAT, *DRIVER_PARTS["versioned"]], SECONDS)
    # dpkg-query ends with 1 if one of the patterns finds nothing.
    if done.rc is None or done.rc > (manager == "dpkg") or done.rc < 0:
        raise OSError(done.problem or f"{manager}: {done.stderr.strip()[:200] or done.rc}")
    return done.stdout


def parse_packages(text: str, kernels: Sequence[str] = (), manager: str = "rpm") -> List[Dict[str, Any]]:
    """The packages that carry the driver's version, sorted by name."""
    found = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 4:
            continue
        name, version, state = fields[0], VERSION.match(fields[1]), fields[2]
        # dpkg's "rc" is a package that was removed but left its settings; rpm has the release in this field.
        removed = manager == "dpkg" and state[1:2] in "cn"
        of_kernel = FOR_KERNEL.match(name)
        elsewhere = of_kernel and not any(kernel.startswith(of_kernel.group(1)) for kernel in kernels)
        if version and not removed and not elsewhere and not OTHERS.search(name):
            maker = maker_of(name, line)
            apart = TOOLS.match(name) and maker != NVIDIA and (maker, manager) != (UNNAMED, "rpm")
            record = {"name": name, "version": version.group(1), "maker": maker, "bound": not apart}
            found[name, version.group(1)] = record
    # Debian keeps older branches beside the current one, and its alternatives select one of them.
    current = [key for key in found if not OLD_BRANCH.search(key[0])]
    return [found[key] for key in sorted(current or found)]


def maker_of(name: str, line: str) -> str:
    """Who made a package, from its name and the package manager's line; "unnamed" if neither shows it."""
    return next((maker for maker, sign in MAKERS if sign.search(line) or sign.match(name)), UNNAMED)


def driver_files(root: str, ask: Ask, kernels: Iterable[str], dkms: Iterable[Record]) -> List[str]:
    """Paths of files that only a package should bring: libraries, and the module, or the sources that DKMS builds."""
    found = []
    for folder in LIBRARY_FOLDERS:
        for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
            path = resolve(root, folder + "/" + name)
            found += [_on_host(root, path)] if path else []
    sources = {"/usr/src/{module}-{version}/dkms.conf".format(**row) for row in dkms}
    if sources:
        # What DKMS builds belongs to no package, but its sources do.
        return sorted({*found, *(path for path in sources if exists(root, path))})
    for kernel in kernels:
        for name in MODULE_NAMES:
            path = read_colon_lines(ask(["modinfo", "-k", kernel, name])).get("filename", "")
            real = resolve(root, path) if path.startswith("/") else None
            found += [_on_host(root, real)] if real else []
    return sorted(set(found))


def _on_host(root: str, full: str) -> str:
    return "/" + full[len(below(root, "/")) :].lstrip("/")


def _is_owned(manager: str, path: str, run: RunProgram) -> bool:
    """Whether a package has this file, under either of the names that a merged /usr gives it."""
    other = path[len("/usr") :] if path.startswith("/usr/lib") else "/usr" + path
    names = [path, other]
    folder = path.rpartition("/")[0]
    if "/modules/" in folder and folder.rpartition("/")[2].startswith("nvidia"):
        # Ubuntu links its signed modules on the node, in a folder of the package.
        names.append(folder)
    return any(_owner(manager, name, run) for name in names)


def _owner(manager: str, path: str, run: RunProgram) -> str:
    done = run(["rpm", "-qf", path] if manager == "rpm" else ["dpkg", "-S", path], SECONDS)
    if done.rc == 0:
        return done.stdout.strip()
    nobody = re.search(r"not owned by any package|no path found|No such file", done.stdout + done.stderr)
    if done.rc is None or not nobody:
        raise OSError(done.problem or f"the package that owns {path}: {(done.stderr or done.stdout).strip()[:200]}")
    return ""
