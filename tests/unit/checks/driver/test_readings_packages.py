"""The driver's packages, their makers and what belongs to none, from the words of rpm and dpkg."""

from __future__ import annotations

import pytest
from gpuwright.checks.driver.packages_reading import maker_of, parse_packages, read_driver_packages
from gpuwright.checks.standard_readings import read_packages
from gpuwright.host.bounded import Finished
from host_tree import RUNNING, HostTree, answers

LIBRARY = "/usr/lib64/libnvidia-ml.so.580.95.05"
MODULE = f"/lib/modules/{RUNNING}/extra/nvidia.ko.xz"
DKMS = [{"module": "nvidia", "version": "580.95.05", "kernel": RUNNING, "state": "installed"}]
RPMS = [
    "kmod-nvidia-latest-dkms\t580.95.05\t1.el8\tNVIDIA Corporation (none)",
    "nvidia-driver-cuda-libs\t580.95.05\t1.el8\tNVIDIA Corporation (none)",
    "libnvidia-container1\t1.17.8\t1\tNVIDIA CORPORATION cudatools@nvidia.com",
    "nvidia-container-toolkit\t1.17.8\t1\tNVIDIA CORPORATION cudatools@nvidia.com",
    "nvidia-gds-12-9\t12.9.1\t1\tNVIDIA Corporation",
    "dnf-plugin-nvidia\t2.2\t1.el8\tNVIDIA Corporation",
]


@pytest.fixture
def host(tmp_path):
    tree = HostTree(tmp_path)
    tree.put("/var/lib/rpm/rpmdb.sqlite")
    tree.put(LIBRARY)
    tree.link("/usr/lib64/libnvidia-ml.so.1", LIBRARY.rpartition("/")[2])
    tree.put(MODULE)
    return tree


class Manager:
    """A stand-in for rpm or dpkg: packages, and the files that they have."""

    def __init__(self, lines=(), owned=(), rc=0, nobody="file {} is not owned by any package", error=""):
        self.lines, self.owned, self.rc, self.nobody, self.error = lines, owned, rc, nobody, error
        self.commands = []

    def __call__(self, command, seconds):
        self.commands.append(command)
        if command[1] in ("-qf", "-S"):
            if command[2] in self.owned:
                return Finished(0, "nvidia-driver-libs\n", "", False, False, False, "")
            return Finished(1, "", self.error or self.nobody.format(command[2]), False, False, False, "")
        text = "".join(line + "\n" for line in self.lines)
        return Finished(self.rc, text, self.error, self.rc is None, False, False, "late" if self.rc is None else "")


def read(host, manager, dkms=(), modinfo=f"filename: {MODULE}\nversion: 580.95.05\n", family=None):
    return read_driver_packages(host.root, family, answers(modinfo=modinfo), [RUNNING], list(dkms), manager)


def test_packages_of_a_node_that_is_in_order(host):
    found = read(host, Manager(RPMS, {LIBRARY, MODULE}))
    names = [(one["name"], one["version"], one["maker"], one["bound"]) for one in found["packages"]]
    assert names == [
        ("kmod-nvidia-latest-dkms", "580.95.05", "NVIDIA", True),
        ("nvidia-driver-cuda-libs", "580.95.05", "NVIDIA", True),
    ]
    assert (found["manager"], found["unowned"], found["installer"]) == ("rpm", [], [])


@pytest.mark.parametrize(
    ("name", "version", "kept"),
    [
        ("nvidia-fabricmanager", "580.95.05", "580.95.05"),
        ("nvidia-fabric-manager", "575.64", "575.64"),
        ("cuda-drivers-580", "580.95.05", "580.95.05"),
        ("libnvidia-nscq-580", "580.95.05", "580.95.05"),
        ("nvidia-imex", "580.95.05", "580.95.05"),
        ("xorg-x11-drv-nvidia-cuda-libs", "570.172.08", "570.172.08"),
        ("cuda-compat-12-9", "575.57.08", None),
        ("nvidia-cuda-toolkit", "11.8.89~11.8.0", None),
        ("nvidia-docker2", "2.13.0", None),
        ("egl-wayland-nvidia", "1.1.13", None),
        ("kmod-nvidia-580.95.05-4.18.0-477.10.1", "580.95.05", "580.95.05"),
        ("kmod-nvidia-535.183.06-4.18.0-372.9.1", "535.183.06", None),
    ],
)
def test_which_packages_carry_the_drivers_version(name, version, kept):
    found = parse_packages(f"{name}\t{version}\t1.el8\tNVIDIA Corporation\n", [RUNNING])
    assert [one["version"] for one in found] == ([kept] if kept else [])


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("libnvidia-ml1\t535.247.01-1~deb12u1\tii \tDebian NVIDIA Maintainers <x@debian.org>", "535.247.01"),
        ("nvidia-kernel-dkms\t1:580.95.05-0ubuntu0.22.04.1\thi \tUbuntu Developers", "580.95.05"),
        ("nvidia-driver-libs\t535.247.01-1~deb12u1\trc \tDebian NVIDIA Maintainers", None),
        ("nvidia-driver-libs\t535.247.01-1~deb12u1\tun \tDebian NVIDIA Maintainers", None),
        ("nvidia-kernel-common\t20220217+3~deb12u1\tii \tDebian NVIDIA Maintainers", None),
        ("nvidia-firmware-580-580.65.06\t580.65.06-0ubuntu1\tii \tUbuntu Developers", None),
        ("linux-modules-nvidia-580-server-5.15.0-160-generic\t5.15.0-160.170\tii \tCanonical Kernel Team", None),
    ],
)
def test_which_debian_packages_count(line, kept):
    assert [one["version"] for one in parse_packages(line + "\n", (), "dpkg")] == ([kept] if kept else [])


def test_an_old_branch_beside_the_current_one_is_no_mixture():
    old = "libnvidia-tesla-470-cuda1\t470.256.02-1\tii \tDebian NVIDIA Maintainers\n"
    new = "libcuda1\t535.247.01-1~deb12u1\tii \tDebian NVIDIA Maintainers\n"
    assert [one["name"] for one in parse_packages(old + new, (), "dpkg")] == ["libcuda1"]
    assert [one["name"] for one in parse_packages(old, (), "dpkg")] == ["libnvidia-tesla-470-cuda1"]


@pytest.mark.parametrize(
    ("line", "maker"),
    [
        ("nvidia-driver\t575.51.02\t1.fc43\tnegativo17.org negativo17.org", "negativo17"),
        ("dkms-nvidia\t575.64\t1.el8\t(none) (none)", "negativo17"),
        ("xorg-x11-drv-nvidia\t570.172.08\t1.el8\tRPM Fusion RPM Fusion", "RPM Fusion"),
        ("akmod-nvidia\t570.172.08\t1.el8\t(none) (none)", "RPM Fusion"),
        ("kmod-nvidia\t470.223.02\t1.el8_9.elrepo\tThe ELRepo Project (http://elrepo.org)", "ELRepo"),
        ("nvidia-driver-580\t580.95.05-0ubuntu0~gpu22.04.1\tii \tUbuntu Developers", "graphics-drivers PPA"),
        ("nvidia-driver\t535.247.01-1~deb12u1\tii \tDebian NVIDIA Maintainers", "distribution"),
        ("nvidia-driver-580\t580.95.05-0ubuntu0.22.04.2\tii \tUbuntu Developers", "distribution"),
        ("nvidia-driver\t580.95.05-1\tii \tNVIDIA Corporation <linux-bugs@nvidia.com>", "NVIDIA"),
        ("nvidia-driver\t580.95.05\t1.el8\tNVIDIA Corporation NVIDIA", "NVIDIA"),
        ("nvidia-driver\t580.95.05\t1.el8\t(none) (none)", "unnamed"),
    ],
)
def test_makers(line, maker):
    assert maker_of(line.partition("\t")[0], line) == maker


@pytest.mark.parametrize(
    ("line", "manager", "bound"),
    [
        ("nvidia-persistenced\t535.171.04-1~deb12u1\tii \tDebian NVIDIA Maintainers", "dpkg", False),
        ("nvidia-settings\t510.47.03-0ubuntu1\tii \tUbuntu Developers", "dpkg", False),
        ("nvidia-persistenced\t580.95.05-1\tii \tNVIDIA Corporation <x@nvidia.com>", "dpkg", True),
        ("nvidia-persistenced\t580.95.05\t1.el8\tNVIDIA Corporation", "rpm", True),
        ("nvidia-persistenced\t580.95.05\t1.el8\t(none) (none)", "rpm", True),
        ("nvidia-modprobe\t570.124.04\t1.el8\tRPM Fusion RPM Fusion", "rpm", False),
    ],
)
def test_tools_of_distributions_have_their_own_pace(line, manager, bound):
    assert [one["bound"] for one in parse_packages(line + "\n", (), manager)] == [bound]


def test_what_nvidias_installer_leaves(host):
    host.put("/usr/bin/nvidia-uninstall")
    host.put("/var/log/nvidia-installer.log", "nvidia-installer log file '/var/log/nvidia-installer.log'\n")
    found = read(host, Manager())
    assert found["packages"] == []
    assert found["unowned"] == [MODULE, LIBRARY]
    assert found["installer"] == ["/usr/bin/nvidia-uninstall", "/var/log/nvidia-installer.log"]


def test_what_dkms_built_belongs_to_no_package_and_its_sources_do(host):
    sources = "/usr/src/nvidia-580.95.05/dkms.conf"
    host.put(sources)
    assert read(host, Manager(RPMS, {LIBRARY, sources}), DKMS)["unowned"] == []
    assert read(host, Manager(RPMS, {LIBRARY}), DKMS)["unowned"] == [sources]


def test_a_library_of_the_installer_over_packages(host):
    assert read(host, Manager(RPMS, {MODULE}))["unowned"] == [LIBRARY]


def test_a_merged_usr_gives_a_file_two_names(host):
    assert read(host, Manager(RPMS, {"/lib64/libnvidia-ml.so.580.95.05", "/usr" + MODULE}))["unowned"] == []


def test_a_module_that_ubuntu_links_on_the_node_belongs_to_its_folders_package(host):
    place = f"/lib/modules/{RUNNING}/kernel/nvidia-580srv"
    host.put(place + "/nvidia.ko")
    modinfo = f"filename: {place}/nvidia.ko\nversion: 580.95.05\n"
    assert read(host, Manager(RPMS, {LIBRARY, place}), modinfo=modinfo)["unowned"] == []
    # The installer's own place is a folder of the kernel's package, which says nothing.
    usual = f"/lib/modules/{RUNNING}/kernel/drivers/video"
    host.put(usual + "/nvidia.ko")
    modinfo = f"filename: {usual}/nvidia.ko\nversion: 580.95.05\n"
    assert read(host, Manager(RPMS, {LIBRARY, usual}), modinfo=modinfo)["unowned"] == [usual + "/nvidia.ko"]


@pytest.mark.parametrize(
    ("family", "asked"), [("redhat", "rpm"), ("debian", "dpkg"), ("other", "dpkg"), (None, "dpkg")]
)
def test_the_systems_own_manager_is_asked_where_both_are_there(host, family, asked):
    """EPEL has dpkg, and Debian has rpm; what is no system's own shows only by its database."""
    host.put("/var/lib/dpkg/status")
    assert read(host, Manager(), family=family)["manager"] == asked


@pytest.mark.parametrize(
    ("os", "asked"), [({"family": "redhat"}, "rpm"), ({"family": "debian"}, "dpkg"), (None, "dpkg")]
)
def test_a_verification_asks_the_manager_of_the_system_that_it_found(host, fake_bin, monkeypatch, os, asked):
    host.put("/var/lib/dpkg/status")
    folders = {fake_bin(name, "#!/bin/sh\nexit 0\n").parent for name in ("rpm", "dpkg", "dpkg-query", "modinfo")}
    monkeypatch.setenv("PATH", str(folders.pop()), prepend=":")
    found = read_packages(
        host.root, {"kernel": {"running": RUNNING, "next_boot": RUNNING}, "nvidia": {"dkms": []}, "os": os}
    )
    assert found["manager"] == asked


def test_debian_is_asked_in_its_own_words(host):
    host.put("/var/lib/dpkg/status")
    manager = Manager(
        ["libcuda1\t535.247.01-1~deb12u1\tii \tDebian NVIDIA Maintainers"],
        {MODULE},
        1,
        "dpkg-query: no path found matching pattern {}",
    )
    found = read(host, manager)
    assert (found["manager"], found["unowned"]) == ("dpkg", [LIBRARY])
    assert {command[0] for command in manager.commands} == {"dpkg-query", "dpkg"}


@pytest.mark.parametrize(
    ("manager", "words"),
    [
        (Manager(rc=1, error="error: cannot open Packages database"), "cannot open Packages"),
        (Manager(rc=None), "late"),
        (Manager(rc=-9), "rpm: -9"),
        (Manager(RPMS, error="error: rpmdb: damaged"), "the package that owns .*damaged"),
    ],
)
def test_a_package_manager_that_cannot_answer_is_no_clean_node(host, manager, words):
    with pytest.raises(OSError, match=words):
        read(host, manager)


def test_dpkg_that_fails_is_no_clean_node(host):
    host.put("/var/lib/dpkg/status")
    with pytest.raises(OSError, match="dpkg: parsing file"):
        read(host, Manager(rc=2, error="parsing file '/var/lib/dpkg/status'"))


def test_a_system_without_either(tmp_path):
    with pytest.raises(OSError, match="neither rpm nor dpkg"):
        read(HostTree(tmp_path), Manager())
