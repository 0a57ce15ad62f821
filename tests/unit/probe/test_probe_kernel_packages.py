"""Whose the kernels are, as dpkg and rpm answer: made-up answers in the words of the real programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from gpuwright.probe.kernel_packages import read_kernel_packages

CLOUD, OLD, PLAIN = "6.1.0-56-cloud-amd64", "6.1.0-50-cloud-amd64", "6.1.0-56-amd64"
# `dpkg-query --show` of a Debian whose cloud kernel runs; linux-image-rt-amd64 was removed, and its settings were kept.
INSTALLED = f"""\
installed\tlinux-base\t4.9\tdebconf (>= 0.5) | debconf-2.0
installed\tlinux-image-{CLOUD}\t6.1.192-2\tkmod, linux-base (>= 4.3~), initramfs-tools | linux-initramfs-tool
installed\tlinux-image-{OLD}\t6.1.176-1\tkmod, linux-base (>= 4.3~)
installed\tlinux-image-cloud-amd64\t6.1.192-2\tlinux-image-{CLOUD} (= 6.1.192-2)
installed\tlinux-headers-cloud-amd64\t6.1.192-2\tlinux-headers-{CLOUD} (= 6.1.192-2)
config-files\tlinux-image-rt-amd64\t6.1.176-1\tlinux-image-6.1.0-50-rt-amd64 (= 6.1.176-1)
"""


class Dpkg:
    """dpkg-query of a system with these files and this list; what is not installed is an error on the other stream."""

    def __init__(self, files: dict[str, str], installed: str = INSTALLED, before: str = "") -> None:
        self.files, self.installed, self.before = files, installed, before

    def __call__(self, command: Sequence[str]) -> str | None:
        if list(command[:2]) == ["dpkg-query", "--search"]:
            lines = [
                f"{self.files[path]}: {path}" if path in self.files else
                f"dpkg-query: no path found matching pattern {path}" for path in command[2:]
            ]  # fmt: skip
            return self.before + "\n".join(lines) + "\n"
        assert list(command[:2]) == ["dpkg-query", "--show"]
        names, rows = command[4:], self.installed.splitlines(keepends=True)
        return "".join(row for row in rows if "linux-*" in names or row.split("\t")[1] in names)


def said(answer: str | None) -> Callable[[Sequence[str]], str | None]:
    """A package manager that says this to every question."""
    return lambda _command: answer


def image(release: str) -> dict[str, str]:
    return {f"/boot/vmlinuz-{release}": f"linux-image-{release}"}


def test_the_owner_and_what_brings_it() -> None:
    found = read_kernel_packages("debian", Dpkg({**image(CLOUD), **image(OLD)}), [OLD, CLOUD, "6.1.50-custom"])
    assert found["owners"] == {
        CLOUD: {"package": f"linux-image-{CLOUD}", "version": "6.1.192-2"},
        OLD: {"package": f"linux-image-{OLD}", "version": "6.1.176-1"},
    }
    assert found["metapackages"] == [{"name": "linux-image-cloud-amd64", "version": "6.1.192-2", "brings": [CLOUD]}]


def test_dependencies_of_ubuntus_metapackages_are_read() -> None:
    release = "5.15.0-118-generic"
    installed = (
        f"installed\tlinux-image-{release}\t5.15.0-118.128\tkmod, linux-base (>= 4.5ubuntu1), linux-modules-{release}\n"
        f"installed\tlinux-image-generic\t5.15.0.118.118\tlinux-image-{release} | linux-image-unsigned-{release}, "
        f"linux-modules-extra-{release}, linux-firmware, intel-microcode, amd64-microcode\n"
        "installed\tlinux-generic\t5.15.0.118.118\tlinux-image-generic (= 5.15.0.118.118), "
        "linux-headers-generic (= 5.15.0.118.118)\n"
        f"installed\tlinux-modules-nvidia-580-server-{release}\t1\tlinux-image-{release}:amd64 (>= 1)\n"
    )
    found = read_kernel_packages("debian", Dpkg(image(release), installed), [release])
    brings = {row["name"]: row["brings"] for row in found["metapackages"]}
    # The module's package depends on the image as well: the table of names tells it from a metapackage.
    assert brings == {"linux-image-generic": [release], f"linux-modules-nvidia-580-server-{release}": [release]}


@pytest.mark.parametrize("where", ["/lib/modules/{}/vmlinuz", "/usr/lib/modules/{}/vmlinuz"])
def test_an_image_among_the_modules_has_an_owner(where: str) -> None:
    files = {where.format(CLOUD): f"linux-image-{CLOUD}:amd64"}
    assert list(read_kernel_packages("debian", Dpkg(files), [CLOUD])["owners"] or ()) == [CLOUD]


def test_a_diversion_is_no_owner() -> None:
    image_file = f"/boot/vmlinuz-{CLOUD}"
    before = f"diversion by linux-check from: {image_file}\ndiversion by linux-check to: {image_file}.old\n"
    assert read_kernel_packages("debian", Dpkg({}, before=before), [CLOUD])["owners"] == {}
    assert read_kernel_packages("debian", Dpkg(image(CLOUD), before=before), [CLOUD])["owners"] != {}


def test_a_removed_package_owns_nothing() -> None:
    installed = INSTALLED.replace(f"installed\tlinux-image-{CLOUD}\t", f"config-files\tlinux-image-{CLOUD}\t")
    assert read_kernel_packages("debian", Dpkg(image(CLOUD), installed), [CLOUD])["owners"] == {}


def test_no_package_is_another_answer_than_none() -> None:
    assert read_kernel_packages("debian", Dpkg({}), [CLOUD]) == {"owners": {}, "metapackages": []}
    for answer in (None, "", "dpkg-query: error: parsing file '/var/lib/dpkg/status' near line 7\n"):
        assert read_kernel_packages("debian", said(answer), [CLOUD])["owners"] is None


EL, RT = "4.18.0-553.el8_10.x86_64", "5.14.0-570.12.1.el9_6.x86_64+rt"


@pytest.mark.parametrize(
    ("answer", "owner"),
    [
        # The image in /boot is claimed, that among the modules is in the package.
        (f"kernel-core\t4.18.0-553.el8_10\nkernel-core\t4.18.0-553.el8_10\n"
         f"file /usr/lib/modules/{EL}/vmlinuz is not owned by any package\n", "kernel-core"),
        (f"error: file /boot/vmlinuz-{RT}: No such file or directory\n"
         "kernel-rt-core\t5.14.0-570.12.1.el9_6\n", "kernel-rt-core"),
        ("warning: a configuration file of rpm\nkernel-uek\t5.4.17-2136.330.7.1.el8uek\n", "kernel-uek"),
    ],
)  # fmt: skip
def test_rpm_names_the_owner(answer: str, owner: str) -> None:
    found = read_kernel_packages("redhat", lambda _command: answer, [EL])
    assert found["owners"][EL]["package"] == owner and found["metapackages"] == []


def test_rpm_without_an_owner_and_without_an_answer() -> None:
    nobody = (
        f"file /boot/vmlinuz-{EL} is not owned by any package\nerror: file /lib/modules/x: No such file or directory\n"
    )
    assert read_kernel_packages("redhat", lambda _command: nobody, [EL])["owners"] == {}
    for answer in (
        None,
        "",
        "error: rpmdb: BDB0113 Thread/process 4711 failed\nerror: cannot open Packages database\n",
    ):
        assert read_kernel_packages("redhat", said(answer), [EL])["owners"] is None


def test_another_system_has_no_answer() -> None:
    assert read_kernel_packages("suse", lambda _command: "kernel-core\t1\n", [EL]) == {
        "owners": None,
        "metapackages": [],
    }
