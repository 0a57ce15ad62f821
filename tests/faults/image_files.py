"""Files of a host's image that stand-ins have, too: without this, an uninstallation takes them from the image."""

from __future__ import annotations

import subprocess
from pathlib import Path

from interrupt.host import podman

# What the image has of Debian and a stand-in brings, too: its removal would take it from the image.
SHARED = "usr/lib/python3.11 usr/lib/python3/dist-packages usr/bin/python3*"
LIBRARIES = "libcap-ng* libdrop_ambient* libmpfr*"
SPEC = """Name: image-files
Version: 1
Release: 1
Summary: Files of the image that stand-ins have, too
License: none
BuildArch: noarch
AutoReqProv: no
%define __os_install_post %{{nil}}
%description
Files that two packages have stay when one of them is removed.
%install
mkdir -p %{{buildroot}} && cp -a {0}/files/. %{{buildroot}}/
%files -f {0}/list
"""


def keep_the_images_files(container: str, work: Path) -> None:
    """A package in the host's rpm database, which has the files of the image that stand-ins have, too."""
    pid = podman("inspect", "--format", "{{.State.Pid}}", container).stdout.strip()
    root = Path(f"/proc/{pid}/root")
    (work / "files").mkdir(parents=True)
    libraries = " ".join(f"usr/lib/x86_64-linux-gnu/{name}" for name in LIBRARIES.split())
    find = f"cd {root} && find {SHARED} {libraries} ! -type d ! -name '*.pyc'"
    names = subprocess.run(["sh", "-c", find], capture_output=True, text=True, check=True).stdout
    (work / "names").write_text(names)
    (work / "list").write_text("".join(f'"/{name}"\n' for name in names.splitlines()))
    subprocess.run(["sh", "-c", f"tar -C {root} -cf - -T {work}/names | tar -C {work}/files -xf -"], check=True)
    (work / "image.spec").write_text(SPEC.format(work))
    build = ["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {work}/top", "--define", "_binary_payload w1.gzdio"]
    more = ["--define", "_binaries_in_noarch_packages_terminate_build 0", str(work / "image.spec")]
    subprocess.run([*build, *more], check=True)
    podman("cp", str(work / "top/RPMS/noarch/image-files-1-1.noarch.rpm"), f"{container}:/root/image.rpm")
    podman("exec", container, "sh", "-c", "rpm -i --justdb --nodeps --force /root/image.rpm && rm /root/image.rpm")
