"""Building the driver's module where it is missing: a made-up DKMS, whose folders and answers are those of a node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from gpuwright.driver_change import module_build
from gpuwright.driver_change.module_build import Wanted

OLD, NEW = "4.18.0-477.10.1.el8_8.x86_64", "4.18.0-513.5.1.el8_9.x86_64"
DRIVER = "580.95.05"


class Dkms:
    """A node's DKMS and modinfo; `fails` are kernels for which nothing can be built."""

    def __init__(self, root: Path, *sources: str) -> None:
        self.root, self.fails, self.calls = root, set[str](), list[list[str]]()
        self.built: dict[tuple[str, str], str] = {}
        self.links = set[str]()  # Kernels to which weak-modules has linked the module of OLD.
        self.added: set[tuple[str, str]] = set()
        for source in sources:
            self.source(source)
        library = root / "usr/lib64"
        library.mkdir(parents=True, exist_ok=True)
        (library / f"libnvidia-ml.so.{DRIVER}").touch()
        (library / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{DRIVER}")

    def source(self, name: str) -> None:
        folder = self.root / "usr/src" / name
        folder.mkdir(parents=True)
        (folder / "dkms.conf").touch()

    def has(self, module: str, version: str, *kernels: str) -> None:
        self.added.add((module, version))
        for kernel in kernels:
            (self.root / f"var/lib/dkms/{module}/{version}/{kernel}").mkdir(parents=True, exist_ok=True)
            self.built[(module, kernel)] = version

    def ask(self, argv: Sequence[str]) -> str | None:
        if argv[0] == "modinfo":
            found = [
                version for (_, kernel), version in self.built.items() if kernel == argv[2] and argv[3] == "nvidia"
            ]
            if argv[2] in self.links and argv[3] == "nvidia" and not found:
                place = f"/lib/modules/{argv[2]}/weak-updates/nvidia.ko"
                return f"filename: {place}\nversion: {DRIVER}\nlicense: NVIDIA\nvermagic: {OLD} SMP modversions\n"
            return f"version: {found[0]}\nlicense: Dual MIT/GPL\n" if found else "modinfo: not found"
        lines = [f"{name}/{v}, {kernel}, x86_64: installed" for (name, kernel), v in self.built.items()]
        known = {(name, version) for (name, _), version in self.built.items()}
        return "\n".join(lines + [f"{name}/{version}: added" for name, version in self.added - known])

    def run(self, argv: Sequence[str]) -> str:
        self.calls.append(list(argv))
        if argv[1] == "autoinstall":
            kernel, names = argv[3], [name for name, _ in self.added]
        else:
            kernel, names = argv[8], [argv[4]]
        for name in names:
            folder = self.root / f"var/lib/dkms/{name}/{DRIVER}/{kernel}"
            if folder.exists() or kernel in self.fails:
                continue
            folder.mkdir(parents=True)
            self.built[(name, kernel)] = DRIVER
            if argv[1] == "install":
                (self.root / f"var/lib/dkms/{name}/original_module/{kernel}").mkdir(parents=True)
        return "Error! Bad return status" if kernel in self.fails else ""


@pytest.fixture
def dkms(tmp_path: Path) -> Dkms:
    node = Dkms(tmp_path, f"nvidia-{DRIVER}")
    node.has("nvidia", DRIVER, OLD)
    return node


def built(node: Dkms, *kernels: str, version: str = DRIVER, flavour: str = "", check: bool = False):
    wanted = Wanted(list(kernels), version, flavour)
    return module_build.build(str(node.root), wanted, node.ask, node.run, check)


def test_what_is_built_is_left_alone(dkms: Dkms) -> None:
    found = built(dkms, OLD)
    assert (found.built, found.unbuilt, dkms.calls) == ([], [], [])


def test_what_is_missing_is_built_by_name_and_version(dkms: Dkms) -> None:
    found = built(dkms, OLD, NEW)
    assert (found.built, found.unbuilt) == ([NEW], [])
    assert dkms.calls == [["dkms", "install", "--force", "-m", "nvidia", "-v", DRIVER, "-k", NEW]]


def test_the_folder_of_a_killed_build_is_in_nobodys_way(dkms: Dkms) -> None:
    (dkms.root / f"var/lib/dkms/nvidia/{DRIVER}/{NEW}/build").mkdir(parents=True)
    assert built(dkms, NEW).unbuilt == []


def test_a_copy_of_another_version_is_not_kept_as_somebody_elses(dkms: Dkms) -> None:
    built(dkms, NEW)
    assert not (dkms.root / "var/lib/dkms/nvidia/original_module").exists()


def test_what_dkms_had_found_before_stays(dkms: Dkms) -> None:
    kept = dkms.root / "var/lib/dkms/nvidia/original_module" / OLD
    kept.mkdir(parents=True)
    built(dkms, NEW)
    assert kept.exists()


def test_a_source_that_dkms_has_never_heard_of_is_added(tmp_path: Path) -> None:
    """As after a transaction that was killed before its scriptlets."""
    node = Dkms(tmp_path, f"nvidia-current-{DRIVER}", "nvidia-570.172.08")
    assert built(node, NEW).dkms == "" and node.calls[0][3:7] == ["-m", "nvidia-current", "-v", DRIVER]


@pytest.mark.parametrize(("flavour", "name"), [("open", "nvidia-open"), ("proprietary", "nvidia"), ("", "nvidia")])
def test_of_two_sources_the_one_of_the_flavour_is_built(tmp_path: Path, flavour: str, name: str) -> None:
    node = Dkms(tmp_path, f"nvidia-{DRIVER}", f"nvidia-open-{DRIVER}")
    built(node, NEW, flavour=flavour)
    assert node.calls[0][4] == name


def test_a_driver_under_other_names_is_left_to_dkms(tmp_path: Path) -> None:
    """Somebody else's installer: DKMS builds what it knows, under whatever name."""
    node = Dkms(tmp_path)
    node.has("nvidia-srv", "1.0", OLD)
    built(node, NEW)
    assert node.calls == [["dkms", "autoinstall", "--kernelver", NEW]]


@pytest.mark.parametrize("version", ["580.", DRIVER])
def test_a_branch_or_one_version_may_be_asked_for(dkms: Dkms, version: str) -> None:
    assert built(dkms, OLD, version=version).unbuilt == []


@pytest.mark.parametrize("version", ["570.", "580.9", "580.95.0", "580.95.055"])
def test_another_version_is_not_taken_for_it(dkms: Dkms, version: str) -> None:
    dkms.fails.add(OLD)
    assert built(dkms, OLD, version=version).unbuilt == [OLD]


def test_the_other_flavour_is_not_taken_for_it(dkms: Dkms) -> None:
    dkms.fails.add(OLD)
    assert built(dkms, OLD, flavour="proprietary").unbuilt == [OLD]


def log_of(node: Dkms, place: str, end: str) -> Path:
    log = node.root / "var/lib/dkms/nvidia" / place / "make.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(f"line {number}\n" for number in range(99)) + end)
    return log


def test_a_build_that_fails_is_told_with_its_words_and_the_end_of_its_own_log(
    dkms: Dkms, monkeypatch: pytest.MonkeyPatch
) -> None:
    dkms.fails.add(NEW)
    log_of(dkms, "570.1/log", "an older one\n")
    ran = dkms.run

    def run(argv: Sequence[str]) -> str:
        log_of(dkms, f"{DRIVER}/build", "the disk ate the headers\n")
        return ran(argv)

    monkeypatch.setattr(dkms, "run", run)
    found = built(dkms, NEW)
    assert found.unbuilt == [NEW] and found.built == []
    assert found.log.startswith("Error! Bad return status") and found.log.endswith("the disk ate the headers")
    assert len(found.log.splitlines()) == 41


def test_the_log_of_an_earlier_build_is_no_evidence(dkms: Dkms) -> None:
    """Without the kernel's headers, DKMS stops before it writes one."""
    dkms.fails.add(NEW)
    log_of(dkms, f"{DRIVER}/{OLD}/x86_64/log", "# exit code: 0\n")
    assert built(dkms, NEW).log == "Error! Bad return status"


def test_a_module_that_is_linked_from_another_kernel_is_built_where_dkms_can(dkms: Dkms) -> None:
    dkms.links = {NEW}
    assert built(dkms, OLD, NEW, check=True).unbuilt == [NEW]
    found = built(dkms, OLD, NEW)
    assert (found.built, found.unbuilt, len(dkms.calls)) == ([NEW], [], 1)
    assert built(dkms, OLD, NEW).built == []


@pytest.mark.parametrize(("flavour", "unbuilt"), [("", []), ("proprietary", []), ("open", [NEW])])
def test_a_packages_link_is_what_a_node_without_dkms_has(tmp_path: Path, flavour: str, unbuilt: list[str]) -> None:
    node = Dkms(tmp_path)
    node.links = {NEW}
    assert built(node, NEW, flavour=flavour, check=True).unbuilt == unbuilt


def test_a_link_does_not_hide_a_build_that_fails(dkms: Dkms) -> None:
    dkms.links, dkms.fails = {NEW}, {NEW}
    assert built(dkms, NEW).unbuilt == [NEW]


def test_check_mode_says_what_is_missing_and_touches_nothing(dkms: Dkms) -> None:
    half = dkms.root / f"var/lib/dkms/nvidia/{DRIVER}/{NEW}"
    half.mkdir(parents=True)
    assert built(dkms, OLD, NEW, check=True).unbuilt == [NEW] and dkms.calls == [] and half.exists()


def test_a_link_in_the_place_of_a_killed_build_is_not_followed(dkms: Dkms, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").touch()
    (dkms.root / f"var/lib/dkms/nvidia/{DRIVER}/{NEW}").symlink_to(outside)
    built(dkms, NEW)
    assert (outside / "theirs").exists()
