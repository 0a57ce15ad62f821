"""What gpu-run decides on machines that are not this one: sysfs trees, expected bindings written down by hand first."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from gpu_run_machines import a5, build, choose, two_sockets, write
from gpuwright.host.topology import cores_of, find_all_gpus, format_cpu_list, memory_nodes, parse_cpu_list
from gpuwright.launch.decision import Decision
from gpuwright.launch.preload import check_library
from gpuwright.launch.runtime_policy import DEFAULTS, LaunchError, load_policy

# A file that the loader takes and that every test machine has, owned by root.
REAL_LIBRARY = next(Path("/").glob("lib/*/libm.so.6"), None) or Path("/lib64/libm.so.6")


def test_node_without_memory_is_not_a_memory_policy(tmp_path: Path) -> None:
    root = build(tmp_path, {0: "0-3", 1: "4-7", 2: ""}, {"0000:41:00.0": 1}, memory="0,2")
    decision = choose(root, allowed="0-7")
    assert (format_cpu_list(decision.cpus), decision.memory_policy) == ("4-7", "none")
    assert ["memory policy", "unchanged", "NUMA node 1 has no memory that the caller may use"] in decision.rows


def test_memory_nodes_respect_the_cgroup(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    write(root, "proc/self/status", "Name:\tpython\nMems_allowed:\t1\nMems_allowed_list:\t0")
    assert memory_nodes(str(root)) == {0}
    assert choose(root, gpus="1").memory_policy == "none"


@pytest.mark.parametrize("missing", ["sys/devices/system/node", "sys"])
def test_container_without_sysfs_parts_binds_nothing(missing: str, tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    shutil.rmtree(root / missing)
    decision = choose(root, allowed="0-3")
    assert (format_cpu_list(decision.cpus), decision.memory_policy) == ("0-3", "none")
    assert int(decision.environment["OMP_NUM_THREADS"]) >= 1


def test_driver_decides_which_gpus_there_are(tmp_path: Path) -> None:
    """A container sees the host's whole PCI bus, but CUDA numbers only what the driver gives it."""
    root = two_sockets(tmp_path, uuids={"0000:af:00.0": "GPU-5d0e6e2a-0000-0000-0000-000000000001"})
    assert [(gpu.index, gpu.pci_id, gpu.numa_node) for gpu in find_all_gpus(str(root))] == [(0, "0000:af:00.0", 1)]


def test_audio_functions_and_other_vendors_are_no_gpus(tmp_path: Path) -> None:
    root = a5(tmp_path)
    write(root, "sys/bus/pci/devices/0000:3b:00.1/vendor", "0x10de")
    write(root, "sys/bus/pci/devices/0000:3b:00.1/class", "0x040300")
    assert [gpu.pci_id for gpu in find_all_gpus(str(root))] == ["0000:3b:00.0"]


def test_order_is_by_number_and_not_by_text(tmp_path: Path) -> None:
    root = build(tmp_path, {0: "0"}, {"10000:01:00.0": 0, "ffff:01:00.0": 0, "0000:ff:00.0": 0})
    assert [gpu.pci_id for gpu in find_all_gpus(str(root))] == ["0000:ff:00.0", "ffff:01:00.0", "10000:01:00.0"]


UUIDS = {"0000:3b:00.0": "GPU-aaaa1111", "0000:af:00.0": "GPU-bbbb2222"}


@pytest.mark.parametrize(
    ("value", "indices", "warned"),
    [
        ("GPU-bbbb2222", [1], False),
        ("GPU-bb", [1], False),
        ("1,GPU-aaaa1111", [1, 0], False),
        ("GPU-", [], True),
        ("1,7,0", [1], True),
        ("1,1", [1], True),
        ("MIG-41b0", [], True),
        ("-1", [], False),
        ("0,-1,1", [0], False),
        ("", [], False),
    ],
)
def test_visible_devices_are_read_as_cuda_does(value: str, indices: list, warned: bool, tmp_path: Path) -> None:
    decision = choose(two_sockets(tmp_path, uuids=UUIDS), {"CUDA_VISIBLE_DEVICES": value})
    assert [gpu.index for gpu in decision.gpus] == indices
    assert bool(decision.warnings) == warned
    assert decision.environment["CUDA_VISIBLE_DEVICES"] == value


@pytest.mark.parametrize(
    ("environ", "options", "message"),
    [
        ({}, {"gpus": "2"}, "there is no GPU 2; this host shows GPUs 0 to 1"),
        ({}, {"gpus": ""}, "expected GPU numbers"),
        ({}, {"gpus": "all"}, "expected GPU numbers"),
        ({}, {"gpus": "0,,1"}, "expected GPU numbers"),
        ({}, {"gpus": "-1"}, "expected GPU numbers"),
        ({}, {"gpus": "0, 1"}, "expected GPU numbers"),
        ({}, {"gpus": "\u0661"}, "expected GPU numbers"),
        ({}, {"gpus": "1" * 5000}, "expected GPU numbers"),
        ({}, {"gpus": "0,0"}, "named twice"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, {"gpus": "1"}, "GPU 1 is not among those that the caller may use, 0"),
        ({"LOCAL_RANK": "one"}, {}, "LOCAL_RANK='one': expected a whole number from 0"),
        ({"LOCAL_WORLD_SIZE": "0"}, {}, "LOCAL_WORLD_SIZE='0': expected a whole number from 1"),
    ],
)
def test_what_cannot_be_honoured_is_one_sentence(environ: dict, options: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        choose(two_sockets(tmp_path), environ, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_gpus_on_a_host_without_any(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="this host shows no NVIDIA GPU"):
        choose(tmp_path, gpus="0")


def test_option_gpus_may_narrow_the_callers_choice(tmp_path: Path) -> None:
    decision = choose(two_sockets(tmp_path), {"CUDA_VISIBLE_DEVICES": "0,1"}, gpus="1")
    assert decision.environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert decision.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMP_NUM_THREADS", "1"),
        ("CUDA_DEVICE_ORDER", "FASTEST_FIRST"),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128"),
        ("PYTORCH_ALLOC_CONF", "max_split_size_mb:128"),
        ("LD_PRELOAD", "/opt/other.so"),
    ],
)
def test_what_the_caller_has_set_wins_and_is_reported(name: str, value: str, tmp_path: Path) -> None:
    decision = choose(a5(tmp_path), {name: value})
    assert decision.environment[name] == value
    assert name not in decision.changed
    assert any(row[0] == name and row[1] == value and "set by the caller" in row[2] for row in decision.rows)


def test_one_cuda_allocator_setting_of_the_caller_keeps_the_other_name_unset(tmp_path: Path) -> None:
    decision = choose(a5(tmp_path), {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"})
    assert "PYTORCH_CUDA_ALLOC_CONF" not in decision.environment
    both = choose(a5(tmp_path)).environment
    assert both["PYTORCH_CUDA_ALLOC_CONF"] == both["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"


@pytest.mark.parametrize(
    ("asked", "allowed", "warned"),
    [("8", "3", True), ("2", "3", True), ("2", "3,4", False), ("", "3", False), ("x", "3", False)],
)
def test_fewer_cpus_than_slurm_was_asked_for_are_told(asked: str, allowed: str, warned: bool, tmp_path: Path) -> None:
    decision = choose(a5(tmp_path), {"SLURM_CPUS_PER_TASK": asked}, allowed=allowed)
    assert any("SLURM_CPUS_PER_TASK" in warning for warning in decision.warnings) == warned


@pytest.mark.parametrize(("name", "value"), [("GOMP_CPU_AFFINITY", "0-19"), ("OMP_PROC_BIND", "close")])
def test_affinity_that_serialises_data_loading_is_warned_of(name: str, value: str, tmp_path: Path) -> None:
    decision = choose(a5(tmp_path), {name: value})
    assert len(decision.warnings) == 1 and f"{name}={value}" in decision.warnings[0]
    assert choose(a5(tmp_path), {"OMP_PROC_BIND": "false"}).warnings == []


class TestAllocator:
    """Files are made below a root folder that only root can write, as the loader's own folders are."""

    LIBRARY = "/usr/lib64/libjemalloc.so.2"

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        if os.getuid() != 0:
            pytest.skip("needs root: a library must belong to root")
        file = a5(tmp_path) / self.LIBRARY.lstrip("/")
        file.parent.mkdir(parents=True, mode=0o755)
        shutil.copy(REAL_LIBRARY, file)
        file.chmod(0o755)
        return tmp_path

    def choose(self, root: Path, environ: dict | None = None, option: str | None = None, **policy: Any) -> Decision:
        return choose(
            root,
            environ,
            allowed="0",
            **{"allocator_option": option, "malloc_conf": "background_thread:true", **policy},
        )

    def test_the_policy_chooses(self, root: Path) -> None:
        environment = self.choose(root, allocator="jemalloc").environment
        assert environment["LD_PRELOAD"] == self.LIBRARY
        assert environment["MALLOC_CONF"] == "background_thread:true"

    def test_a_policy_without_the_path_finds_the_distributions_file(self, root: Path) -> None:
        libraries = {"jemalloc": ""}
        assert self.choose(root, allocator="jemalloc", libraries=libraries).environment["LD_PRELOAD"] == self.LIBRARY

    def test_nothing_is_preloaded_unless_chosen(self, root: Path) -> None:
        environment = self.choose(root).environment
        assert "LD_PRELOAD" not in environment and "MALLOC_CONF" not in environment

    def test_the_option_beats_the_policy(self, root: Path) -> None:
        assert "LD_PRELOAD" not in self.choose(root, option="none", allocator="jemalloc").environment
        assert self.choose(root, option="jemalloc").environment["LD_PRELOAD"] == self.LIBRARY

    def test_the_callers_preload_beats_the_policy_and_joins_the_option(self, root: Path) -> None:
        theirs = {"LD_PRELOAD": "/opt/trace.so"}
        assert self.choose(root, theirs, allocator="jemalloc").changed.get("LD_PRELOAD") is None
        joined = self.choose(root, theirs, option="jemalloc").environment["LD_PRELOAD"]
        assert joined == self.LIBRARY + ":/opt/trace.so"
        again = self.choose(root, {"LD_PRELOAD": joined}, option="jemalloc").environment["LD_PRELOAD"]
        assert again == joined

    def test_the_callers_malloc_conf_stays(self, root: Path) -> None:
        decision = self.choose(root, {"MALLOC_CONF": "narenas:2"}, allocator="jemalloc")
        assert decision.environment["MALLOC_CONF"] == "narenas:2"

    def test_missing_library_names_the_package(self, root: Path) -> None:
        with pytest.raises(LaunchError, match="there is no such file; install gperftools-libs"):
            self.choose(root, option="tcmalloc")

    @pytest.mark.parametrize("path", ["libjemalloc.so.2", "lib/jemalloc.so", "/opt/my lib.so", "/a.so:/b.so"])
    def test_path_that_the_loader_would_misread(self, path: str, root: Path) -> None:
        with pytest.raises(LaunchError, match="an absolute path without spaces and colons"):
            self.choose(root, allocator="jemalloc", libraries={"jemalloc": path})

    @pytest.mark.parametrize(("where", "mode"), [("file", 0o757), ("file", 0o775), ("folder", 0o777)])
    def test_library_that_others_can_replace(self, where: str, mode: int, root: Path) -> None:
        file = root / self.LIBRARY.lstrip("/")
        (file if where == "file" else file.parent).chmod(mode)
        with pytest.raises(LaunchError, match="writable by nobody else"):
            self.choose(root, allocator="jemalloc")

    def test_library_of_another_owner(self, root: Path) -> None:
        os.chown(root / self.LIBRARY.lstrip("/"), 65534, 0)
        with pytest.raises(LaunchError, match="must be owned by root"):
            self.choose(root, allocator="jemalloc")

    def test_link_is_judged_by_its_target(self, root: Path) -> None:
        target = root / "home" / "evil.so"
        target.parent.mkdir()
        shutil.copy(REAL_LIBRARY, target)
        os.chown(target, 65534, 65534)
        link = root / self.LIBRARY.lstrip("/")
        link.unlink()
        link.symlink_to("/home/evil.so")
        with pytest.raises(LaunchError, match="must be owned by root"):
            self.choose(root, allocator="jemalloc")

    @pytest.mark.parametrize(
        ("offset", "byte", "fault"),
        [
            (0, 0x2F, "is not an ELF library"),
            (4, 1, "is 32-bit"),
            (16, 2, "not a shared library"),
            (18, 40, "a processor other than"),
        ],
    )
    def test_file_that_the_loader_would_skip(self, offset: int, byte: int, fault: str, root: Path) -> None:
        file = root / self.LIBRARY.lstrip("/")
        content = bytearray(file.read_bytes())
        content[offset] = byte
        file.write_bytes(content)
        with pytest.raises(LaunchError, match=fault):
            self.choose(root, allocator="jemalloc")

    @pytest.mark.parametrize(
        "content", [b"", b"\x7fELF", b"/* GNU ld script */\nGROUP ( /usr/lib64/libjemalloc.so.2 )"]
    )
    def test_file_that_is_no_library(self, content: bytes, root: Path) -> None:
        (root / self.LIBRARY.lstrip("/")).write_bytes(content)
        with pytest.raises(LaunchError, match="is not an ELF library"):
            check_library(self.LIBRARY, "jemalloc", str(root))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[]", "expected an object, found list"),
        ('{"schema": 2}', "schema is 2; expected 1"),
        ('{"allocator": "mimalloc"}', 'allocator is "mimalloc"; expected one of calibrated, jemalloc, tcmalloc, none'),
        ('{"allocator": ["none"]}', "expected one of calibrated"),
        ('{"memory_policy": "interleave"}', "expected one of preferred, bind, none"),
        ('{"omp_num_threads": -1}', "expected a whole number"),
        ('{"omp_num_threads": true}', "expected a whole number"),
        ('{"omp_num_threads": "4"}', "expected a whole number"),
        ('{"libraries": {"mimalloc": "/x"}}', "expected paths for jemalloc, tcmalloc"),
        ('{"libraries": {"jemalloc": 1}}', "expected paths for"),
        ('{"nccl": {"NCCL_P2P_LEVEL": 1}}', "expected variables NCCL_... with strings"),
        ('{"nccl": {"IFNAME": "ib0"}}', "expected variables NCCL_... with strings"),
        ('{"malloc_conf": null}', "malloc_conf is null; expected text"),
        ('{"alocator": "none"}', "expected one of the keys allocator,"),
    ],
)
def test_bad_policy_names_file_key_and_expectation(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, "etc/gpuwright/runtime.json", text)
    with pytest.raises(LaunchError) as caught:
        load_policy(str(tmp_path))
    assert str(caught.value).startswith("/etc/gpuwright/runtime.json: ")
    assert message in str(caught.value)


def test_policy_is_completed_from_the_defaults(tmp_path: Path) -> None:
    assert load_policy(str(tmp_path)) == DEFAULTS
    write(tmp_path, "etc/gpuwright/runtime.json", json.dumps({"schema": 1, "memory_policy": "bind"}))
    assert load_policy(str(tmp_path)) == {**DEFAULTS, "memory_policy": "bind"}


@pytest.mark.parametrize("text", ["0-", "a", "3-1", "1-2-3", "-"])
def test_list_that_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cpu_list(text)


def test_cores_of_unreadable_cpus_are_counted_singly(tmp_path: Path) -> None:
    assert cores_of({0, 1, 2}, str(tmp_path)) == [[0], [1], [2]]
