"""Readings from a made-up node: there, not there, and not readable are three different things."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import healthy_files
import healthy_node
import pytest
from gpuwright.checks import collect as readings
from gpuwright.checks import shared_readings
from gpuwright.checks import standard_readings as readings_standard
from gpuwright.checks.all import run_checks
from gpuwright.checks.collect import collect
from gpuwright.host.access import allows, read_account, read_password_state, read_unsafe_files, why_unsafe
from gpuwright.host.as_user import find_account, ordinary_account
from gpuwright.readings import software as readings_software
from gpuwright.readings.attempt import attempt
from gpuwright.readings.software import (
    read_cudnn_of_wheel,
    read_environment_stamp,
    read_header_version,
    read_library_version,
    read_link,
    read_nvcc_version,
    read_toolkit_version_file,
    read_venv,
    who_computes,
)
from gpuwright.readings.tensorflow import read_tensorflow
from gpuwright.training import trainer_run
from gpuwright.verdict.check import DEEP, QUICK, STANDARD
from gpuwright.verdict.reading_sources import by_hand
from host_tree import HostTree

# What they write, the user who reads the environment must be able to read.
pytestmark = pytest.mark.usefixtures("open_umask")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of the made-up node must belong to root")


# As whom root reads what it does not run itself; every system has this user.
READER = "nobody"


@pytest.fixture
def host(open_umask):
    """Not below pytest's own folder, into which the user who reads the environment cannot look."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        tree = HostTree(Path(name) / "node")
        tree.put("/etc/passwd", f"root:x:0:0::/root:/bin/sh\n{READER}:x:65534:65534::/:/bin/false\n")
        tree.put("/etc/group", "root:x:0:\nvideo:x:44:nobody\nnogroup:x:65534:\n")
        yield tree


@pytest.fixture
def node(host, fake_bin, monkeypatch):
    healthy_files.put_node(host)
    healthy_files.put_commands(fake_bin)
    folder = fake_bin("true", "#!/bin/sh\n").parent
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    # This machine knows no trainer.
    monkeypatch.setattr(trainer_run, "find_account", lambda name: find_account(pwd.getpwuid(os.geteuid()).pw_name))
    return host


@needs_root
def test_a_healthy_node_passes_from_its_files_on(node):
    expectations = healthy_node.expectations()
    found = collect(expectations, node.root, level=DEEP)
    bad = [r for r in run_checks(found, expectations, healthy_node.smoke(), level=DEEP) if r["status"] != "PASS"]
    assert sorted(r["id"] for r in bad if r["status"] == "SKIP") == sorted(healthy_node.OTHER_NODES)
    assert [r for r in bad if r["status"] != "SKIP"] == []


@needs_root
@pytest.mark.parametrize("cards_train", [False, True])
def test_what_is_read_beside_a_training_is_what_is_read_without_one(node, cards_train):
    expectations = healthy_node.expectations()
    ahead = readings.collect_ahead(expectations, node.root, cards_train)
    alone = collect(expectations, node.root)
    assert ahead == {name: alone[name] for name in ahead} and ("venv" in ahead) is not cards_train
    marked = collect(expectations, node.root, ahead={name: f"ahead: {name}" for name in ahead})
    assert [name for name in ahead if marked[name] != f"ahead: {name}"] == []


def readers(**reads: Any) -> list[readings.Reader]:
    """Of level standard; those whose names begin with "loading" load the environment's libraries."""
    return [
        readings.Reader(
            name=name,
            level=STANDARD,
            read=read,
            source=by_hand("", ""),
            ahead=readings.WITHOUT_CARDS if name.startswith("loading") else "",
        )
        for name, read in reads.items()
    ]


SEEN = readings.Seen("/", {}, {}, {})


def test_what_loads_libraries_and_the_other_readings_are_taken_at_once(monkeypatch, tmp_path):
    """Each waits for the other, so one after the other they would never end."""
    for name in ("there", "back"):
        os.mkfifo(tmp_path / name)

    def loading(_seen: Any) -> str:
        (tmp_path / "there").write_text("from the child")
        return (tmp_path / "back").read_text()

    def other(_seen: Any) -> str:
        found = (tmp_path / "there").read_text()
        (tmp_path / "back").write_text("from the caller")
        return found

    monkeypatch.setattr(readings, "READERS", readers(first=lambda _seen: 1, loading=loading, other=other))
    found = readings.collect_level(SEEN, STANDARD)
    assert found == {"first": 1, "loading": "from the caller", "other": "from the child"}
    assert list(found) == ["first", "loading", "other"]


def test_a_reading_whose_process_is_killed_is_unreadable_and_stops_no_other(monkeypatch):
    killed = readers(loading=lambda _seen: os.kill(os.getpid(), 9), loading_too=lambda _seen: 2, other=lambda _seen: 3)
    monkeypatch.setattr(readings, "READERS", killed)
    lost = {"unreadable": readings.NO_ANSWER}
    assert readings.collect_level(SEEN, STANDARD) == {"loading": lost, "loading_too": lost, "other": 3}


def test_a_host_that_starts_no_further_process_takes_its_readings_in_turn(monkeypatch):
    monkeypatch.setattr(readings, "READERS", readers(loading=lambda _seen: os.getpid(), other=lambda _seen: 3))
    monkeypatch.setattr("gpuwright.host.in_child.os.fork", lambda: (_ for _ in ()).throw(BlockingIOError("no process")))
    assert readings.collect_level(SEEN, STANDARD) == {"loading": os.getpid(), "other": 3}


@needs_root
def test_the_readings_of_the_other_tests_are_no_fiction(node):
    """Each value of the healthy node that the checks are tested with is really collected, under that name."""
    found = collect(healthy_node.expectations(), node.root, level=DEEP)
    # Whose the kernels are only a plan has to know, and asking takes longer than a whole check.
    kernel = found["probe"]["kernel"]
    assert (kernel.pop("owners"), kernel.pop("metapackages")) == (None, [])
    # Nobody is asked for what a board without switches has no use for.
    assert found.pop("fabric_manager") is None
    for path in healthy_node.leaves(healthy_node.READINGS):
        if path[0] == "fabric_manager" or path[:3] in (
            ("probe", "kernel", "owners"),
            ("probe", "kernel", "metapackages"),
        ):
            continue
        value: Any = found
        expected: Any = healthy_node.READINGS
        for key in path:
            value, expected = value[key], expected[key]
        # Texts of other modules, and the number of files, are theirs.
        of_this_machine = path[-1] in ("hostname", "message", "looked_at", "free_mib", "free_inodes", "because")
        if not isinstance(expected, (dict, list)) and not of_this_machine:
            assert value == expected, f"{path}: tests/unit/nodes/healthy_files.py has another file, or none"


def test_an_empty_node_gives_findings_and_reasons_but_no_exception(host, monkeypatch):
    shutil.rmtree(host.folder / "etc")
    (host.folder / "dev").mkdir(parents=True)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("gpuwright.host.program_path.SYSTEM_FOLDERS", ())
    expectations = healthy_node.expectations()
    found = collect(expectations, host.root)
    assert found["venv"] is None
    assert found["cuda"] == {"version_file": None, "nvcc": None, "link": None, "prefix": None}
    assert "systemctl is not installed" in found["persistenced"]["unreadable"]
    assert "/etc/passwd" in found["training_user"]["unreadable"]
    passed = [record["id"] for record in run_checks(found, expectations) if record["status"] == "PASS"]
    # True of it: the plan is for as many GPUs as are expected, nothing is set for everybody,
    # without a GPU no reboot would help, nothing has failed or is waived yet.
    assert passed == ["gpu.plan", "reboot.pending", "host.environment", "gpu.strikes", "waivers.valid"]


def test_a_reader_that_breaks_is_an_unreadable_value():
    def broken():
        raise KeyError("gpus")

    def silent():
        raise OSError

    assert attempt(broken) == {"unreadable": "KeyError: 'gpus'"}
    assert attempt(silent) == {"unreadable": "OSError"}


def test_a_probe_that_breaks_does_not_stop_the_rest(node, monkeypatch):
    monkeypatch.setattr(readings, "probe", lambda root: [][1])
    found = collect(healthy_node.expectations(), node.root)
    assert "unreadable" in found["probe"] and "unreadable" in found["device_nodes"]
    assert found["cuda"]["nvcc"] == "12.9"


def test_nvidia_smi_gets_the_seconds_it_was_given(node, fake_bin):
    fake_bin("nvidia-smi", "#!/bin/sh\nsleep 20\n")
    found = collect(healthy_node.expectations(), node.root, nvidia_smi_seconds=0.3)
    assert found["nvidia_smi"]["status"] == "timeout"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo inactive; exit 3", "inactive"),
        ("echo failed; exit 3", "failed"),
        ("exit 1", {"unreadable": "systemctl is-active nvidia-persistenced printed nothing"}),
    ],
)
def test_state_of_a_unit(fake_bin, monkeypatch, script, expected):
    monkeypatch.setenv("PATH", f"{fake_bin('systemctl', f'#!/bin/sh{chr(10)}{script}{chr(10)}').parent}:/bin")
    assert attempt(shared_readings.read_unit_state, "nvidia-persistenced") == expected


def test_nothing_planned_means_nothing_read(node):
    expectations = healthy_node.expectations()
    expectations["plan"]["nccl"]["version"] = ""
    expectations["plan"]["cudnn"]["version"] = ""
    expectations["plan"]["runtime"] = {"jemalloc": ""}
    found = collect(expectations, node.root)
    assert found["nccl"] is None and found["cudnn"] is None and found["allocators"] == {}


# --- software


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, None),
        ('{"cuda": {"version": "11.8.20220921"}}', "11.8.20220921"),
        ("not json", ValueError),
        ('{"nvcc": {"version": "1"}}', ValueError),
        ('{"cuda": {"version": 12.9}}', ValueError),
    ],
)
def test_toolkit_version_file(host, content, expected):
    if content is not None:
        host.put("/usr/local/cuda-12.9/version.json", content)
    check(expected, read_toolkit_version_file, host.root, "/usr/local/cuda-12.9")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (None, None),
        ("echo 'Cuda compilation tools, release 11.8, V11.8.89'", "11.8"),
        ("echo hello", ValueError),
        ("exit 1", OSError),
        ("kill -9 $$", OSError),
    ],
)
def test_nvcc(host, script, expected):
    if script is not None:
        healthy_files.put_program(host, "/opt/cuda/bin/nvcc", script)
    check(expected, read_nvcc_version, host.root, "/opt/cuda")


def test_a_hanging_nvcc_is_left_behind(host, monkeypatch):
    monkeypatch.setattr(readings_software, "NVCC_SECONDS", 0.3)
    healthy_files.put_program(host, "/opt/cuda/bin/nvcc", "trap '' TERM; sleep 30")
    with pytest.raises(OSError, match="did not finish"):
        read_nvcc_version(host.root, "/opt/cuda")


def test_links_are_followed_inside_the_node(host):
    host.put("/usr/local/cuda-12.9/x")
    host.link("/etc/alternatives/cuda", "/usr/local/cuda-12.9")
    host.link("/usr/local/cuda", "/etc/alternatives/cuda")
    host.link("/usr/local/broken", "/nowhere")
    assert read_link(host.root, "/usr/local/cuda") == "/usr/local/cuda-12.9"
    assert read_link(host.root, "/usr/local/broken") is None
    assert read_link("/", "/usr") == "/usr"


@pytest.mark.parametrize(
    ("text", "prefix", "expected"),
    [
        ("#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 6\n#define CUDNN_PATCHLEVEL 0\n", "CUDNN", "8.6.0"),
        ("#  define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 5\n", "NCCL", "2.27.5"),
        ("#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 6\n", "CUDNN", ValueError),
        ("// #define CUDNN_MAJOR 8\n", "CUDNN", ValueError),
        ("", "CUDNN", ValueError),
    ],
)
def test_header(host, text, prefix, expected):
    host.put("/usr/include/x.h", text)
    check(expected, read_header_version, host.root, "/usr/include/x.h", prefix)
    assert read_header_version(host.root, "/usr/include/absent.h", prefix) is None


def test_the_library_that_programs_load_counts(host):
    host.put("/usr/lib64/libcudnn.so.8.9.7")
    host.put("/usr/lib64/libcudnn.so.9.10.2")
    host.link("/usr/lib64/libcudnn.so.9", "libcudnn.so.9.10.2")
    assert read_library_version(host.root, "libcudnn", "9") == "9.10.2"
    assert read_library_version(host.root, "libcudnn", "8") is None
    host.put("/usr/lib64/libcudnn.so.8")
    with pytest.raises(ValueError, match="without a version"):
        read_library_version(host.root, "libcudnn", "8")


def check(expected, function, *arguments):
    if isinstance(expected, type):
        with pytest.raises(expected):
            function(*arguments)
    else:
        assert function(*arguments) == expected


# --- the venv, a real one with made-up packages

TORCH = """
class version: cuda = {cuda}
class Card:
    name, major, minor, total_memory, multi_processor_count = "Tesla V100-PCIE-16GB", 7, 0, 16384 * 1048576, 80
class Ones:
    def __init__(self, *shape, device): self.value = 1
    def __matmul__(self, other): return {product}
class Answer:
    def __init__(self, right): self.right = right
    def __eq__(self, other): return self
    def all(self): return self.right
def ones(*shape, device):
    if device == {broken!r}: raise RuntimeError("no kernel image")
    return Ones(*shape, device=device)
class cuda:
    device_count = staticmethod(lambda: 1)
    get_device_properties = staticmethod(lambda index: Card)
    is_available = staticmethod(lambda: {available})
    get_arch_list = staticmethod(lambda: ["sm_70"] if {available} else [])
class backends:
    class cudnn: version = staticmethod(lambda: 91002)
__version__ = "2.10.0+x"
print("torch says hello")
"""


@pytest.fixture(scope="module")
def venv():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        # The system's Python: one below /root can be started by root alone.
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True, umask=0o022)
        yield folder, next(folder.glob("lib/python*/site-packages"))


def test_what_a_venv_reports(venv):
    folder, packages = venv
    (packages / "torch.py").write_text(TORCH.format(cuda='"12.8"', available=True, product="Answer(True)", broken=""))
    (packages / "numpy.py").write_text("raise ImportError('libopenblas: no such file')\n")
    (packages / "gan_trainer.py").write_text("raise SystemExit(3)\n")
    found = read_venv("/", str(folder), READER)
    assert found["imports"] == {
        "torch": "ok",
        "numpy": "ImportError: libopenblas: no such file",
        "gan_trainer": "SystemExit: 3",
    }
    assert found["versions"] == {"torch": "2.10.0+x"}
    assert found["torch"] == {
        "build": "cu128",
        "cudnn": "91002",
        "cuda_available": True,
        "architectures": ["sm_70"],
        "devices": [
            {
                "index": 0,
                "name": "Tesla V100-PCIE-16GB",
                "capability": "7.0",
                "memory_mib": 16384,
                "multiprocessors": 80,
                "tensor_cores": True,
            }
        ],
        "product": "right on cpu, cuda:0",
    }
    assert not list(packages.glob("**/*.pyc"))


def test_a_card_that_somebody_uses_is_not_computed_on(venv):
    folder, packages = venv
    broken = TORCH.format(cuda='"12.8"', available=True, product="Answer(True)", broken="cuda:0")
    (packages / "torch.py").write_text(broken)
    found = read_venv("/", str(folder), READER, busy=["python3 (pid 7)", "x (pid 9)"])["torch"]
    assert found["product"] == "right on cpu" and found["busy"] == "python3 (pid 7); x (pid 9)"
    assert [device["name"] for device in found["devices"]] == ["Tesla V100-PCIE-16GB"]


def test_who_computes_on_a_card():
    compute = {"pid": 9, "name": "/opt/x/python", "type": "C"}
    screen = {"pid": 5, "name": "/usr/bin/X", "type": "G"}
    smi = {"gpus": [{"processes": [compute, screen]}, {"processes": None}, {"processes": "unknown"}, {}]}
    opened = [
        {"pid": 7, "name": "python3"},
        {"pid": 9, "name": "python"},
        {"pid": None, "name": "unknown: x"},
    ]
    assert who_computes({"in_use": {"gpu_processes": opened}}, smi) == ["python3 (pid 7)", "python (pid 9)"]
    assert who_computes({"unreadable": "x"}, {"unreadable": "y"}) == []
    assert who_computes({"in_use": {"gpu_processes": []}}, {"gpus": [{"processes": [screen]}]}) == []


def test_a_build_for_the_cpu(venv):
    folder, packages = venv
    (packages / "torch.py").write_text(TORCH.format(cuda="None", available=False, product="Answer(False)", broken=""))
    found = read_venv("/", str(folder), READER)
    assert found["torch"] == {
        "build": "cpu",
        "cudnn": "none",
        "cuda_available": False,
        "architectures": [],
        "devices": [],
        "product": "WRONG on one of cpu",
    }


def test_a_product_that_cannot_be_made_says_why(venv):
    folder, packages = venv
    text = TORCH.format(cuda='"12.8"', available=True, product="Answer(True)", broken="cuda:0")
    (packages / "torch.py").write_text(text)
    assert read_venv("/", str(folder), READER)["torch"]["product"] == "failed: no kernel image"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo broken >&2; exit 1", "ended with 1: broken"),
        ("exit 1", "no error text"),
        ("kill -11 $$", "ended with -11"),
        ("exit 0", ""),
        ("echo hello", ""),
        ("echo 5", "instead of a record"),
        ("trap '' TERM; sleep 30", "did not finish"),
    ],
)
def test_a_venv_that_gives_no_record(host, monkeypatch, script, words):
    monkeypatch.setattr(readings_software, "VENV_SECONDS", 0.5)
    healthy_files.put_program(host, "/venv/bin/python", script)
    assert words in attempt(read_venv, host.root, "/venv", READER)["unreadable"]


NAMED = "W tensorflow/stream_executor: Could not load dynamic library '{}'; dlerror: {}: cannot open shared object file"
LOST = [
    ("", []),
    (NAMED.format("libcudnn.so.8", "libcudnn.so.8"), ["libcudnn.so.8"]),
    ("gpu_device.cc:2433] Cannot dlopen some GPU libraries. Please make sure", ["Cannot dlopen some GPU libraries"]),
]


@pytest.mark.parametrize(("told", "lost"), LOST)
def test_libraries_that_tensorflow_does_not_find_are_named(host, told, lost):
    """It goes on without cards, and says so only on its way."""
    script = f"cat >&2 <<'E'\n{told}\nE\necho '{{\"cards\": 0}}'"
    healthy_files.put_program(host, "/venv/bin/python", script)
    assert read_tensorflow(host.root, "/venv", "/no/launcher", READER) == {"cards": 0, "lost": lost}


def test_tensorflow_is_started_as_training_is_and_leaves_busy_cards_alone(host):
    healthy_files.put_program(host, "/venv/bin/python", 'echo "{\\"python\\": \\"$5\\"}"')
    healthy_files.put_program(host, "/usr/bin/gpu-run", '[ "$1" = -- ] && shift && exec "$@"')
    for busy, word in (((), ""), (("x (pid 7)",), "cpu")):
        found = read_tensorflow(host.root, "/venv", "/usr/bin/gpu-run", READER, busy)
        assert (found["python"], found.get("busy")) == (word, "x (pid 7)" if busy else None)
    assert read_tensorflow(host.root, "/no/venv", "/usr/bin/gpu-run", READER) is None


@needs_root
def test_root_does_not_import_what_lies_in_the_environment(venv, monkeypatch):
    """Code of the packages runs as the training user, without root's groups, environment, folder and capabilities."""
    folder, packages = venv
    for name in ("torch", "numpy"):
        (packages / f"{name}.py").write_text("raise ImportError('absent')\n")
    (packages / "gan_trainer.py").write_text(
        "import json, os\n"
        "import pathlib\n"
        "lines = [line.split() for line in pathlib.Path('/proc/self/status').read_text().splitlines()]\n"
        "status = {words[0]: words[1] for words in lines if words[0] in ('CapEff:', 'CapPrm:')}\n"
        "__version__ = json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), status['CapEff:'],\n"
        "    status['CapPrm:'], os.getcwd(), os.getcwd() == os.environ['HOME'], os.access(os.getcwd(), os.W_OK),\n"
        "    sorted(os.environ)])\n"
    )
    monkeypatch.setenv("SECRET_OF_ROOT", "x")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/root/lib")
    os.setgroups([0, 4, 27])
    uids, gids, groups, effective, permitted, here, home, writable, names = json.loads(
        read_venv("/", str(folder), READER)["versions"]["gan_trainer"]
    )
    account = pwd.getpwnam(READER)
    assert uids == [account.pw_uid] * 3 and gids == [account.pw_gid] * 3 and groups == [account.pw_gid]
    assert int(effective, 16) == int(permitted, 16) == 0
    assert home and writable
    assert set(names) <= {"HOME", "PATH", "LANG", "USER", "LOGNAME", "LC_CTYPE"}
    assert not Path(here).exists()


@needs_root
@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("trainer", "there is no user trainer"),
        ("root", "user root has uid 0, but this process does not run as root"),
        ("toor", "user toor has uid 0, but this process does not run as root"),
    ],
)
def test_without_an_ordinary_user_the_environment_is_unknown(host, user, words):
    host.put("/etc/passwd", "root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/root:/bin/sh\n")
    mark = host.folder / "mark"
    healthy_files.put_program(host, "/venv/bin/python", f"touch {mark}; echo '{{}}'")
    assert attempt(read_venv, host.root, "/venv", user)["unreadable"] == words
    assert not mark.exists()


@pytest.mark.parametrize(("name", "uid"), [("negative", -1), ("no-change", 2**32 - 1), ("too-large", 2**40)])
def test_a_uid_that_would_change_nothing_is_refused(host, name, uid):
    host.put("/etc/passwd", f"{name}:x:{uid}:7::/:/bin/sh\n")
    if os.geteuid() == 0:
        with pytest.raises(ValueError, match="but this process does not run as root"):
            ordinary_account(name, host.root)


def test_groups_of_a_user_below_a_root(host):
    account = find_account(READER, host.root)
    assert account == (READER, 65534, 65534, [44, 65534])


def test_no_venv(host):
    assert read_venv(host.root, "/venv", READER) is None


# --- access


@pytest.mark.parametrize(
    ("mode", "owner", "group", "uid", "gids", "expected"),
    [
        (0o666, 0, 0, 991, [991], True),
        (0o660, 0, 0, 991, [991], False),
        (0o660, 0, 44, 991, [991, 44], True),
        (0o640, 0, 44, 991, [991, 44], False),
        # The owner's bits decide for the owner, even where the others have more.
        (0o066, 991, 0, 991, [991], False),
        (0o606, 0, 44, 991, [991, 44], False),
        (0o000, 0, 0, 0, [0], True),
    ],
)
def test_who_may_open_a_device_file(mode, owner, group, uid, gids, expected):
    account = {"uid": uid, "gids": gids}
    assert (allows(mode, owner, group, account, 4) and allows(mode, owner, group, account, 2)) is expected


@pytest.mark.parametrize(
    ("mode", "owner", "group", "expected"),
    [
        (0o100755, 0, 0, ""),
        (0o100775, 0, 0, ""),
        (0o100757, 0, 0, "writable by everybody (mode 0757)"),
        (0o100775, 0, 10, "writable by group 10 (mode 0775)"),
        (0o100755, 991, 0, "owned by uid 991"),
        (0o041777, 0, 0, "writable by everybody (mode 1777)"),
    ],
)
def test_what_is_unsafe(mode, owner, group, expected):
    assert why_unsafe(mode, owner, group) == expected


def test_accounts(host):
    host.put("/etc/passwd", "# comment\nalice:x:1000:1000:A:/home/alice:/bin/bash\n\nbob:x:broken\n")
    host.put("/etc/group", "alice:x:1000:\nwheel:x:10:bob,alice\nvideo:x:44:bob\nbroken\n")
    alice = {"uid": 1000, "gids": [10, 1000], "groups": ["alice", "wheel"], "shell": "/bin/bash"}
    assert read_account(host.root, "alice") == alice
    assert read_account(host.root, "carol") is None
    with pytest.raises(ValueError, match="bob"):
        read_account(host.root, "bob")


@pytest.mark.parametrize(
    ("field", "expected"),
    [("!!", "locked"), ("*", "locked"), ("!$6$x", "locked"), ("", "empty"), ("$6$x$y", "set")],
)
def test_password_state(host, field, expected):
    host.put("/etc/shadow", f"trainer:{field}:19000::::::\n")
    assert read_password_state(host.root, "trainer") == expected
    with pytest.raises(ValueError, match="no line for bob"):
        read_password_state(host.root, "bob")


@needs_root
def test_what_only_root_may_read_is_unreadable_with_that_reason():
    with tempfile.TemporaryDirectory() as folder:
        host = HostTree(Path(folder))
        host.put("/etc/shadow", "trainer:!!:19000::::::\n")
        (host.folder / "etc/shadow").chmod(0o600)
        host.folder.chmod(0o755)
        try:
            os.seteuid(65534)
            found = attempt(read_password_state, host.root, "trainer")
        finally:
            os.seteuid(0)
    assert found == {"unreadable": "/etc/shadow is readable by root only", "only_root": True}


@needs_root
def test_unsafe_files_are_counted_and_some_are_named(host):
    for number in range(12):
        host.put(f"/opt/gpuwright/venvs/a/file{number:02}")
        (host.folder / f"opt/gpuwright/venvs/a/file{number:02}").chmod(0o666)
    host.link("/opt/gpuwright/venvs/current", "a")
    os.lchown(host.folder / "opt/gpuwright/venvs/current", 991, 991)
    found = read_unsafe_files(host.root, ["/opt/gpuwright", "/usr/local/bin/gpu-run"])
    assert (found["unsafe_count"], len(found["unsafe"])) == (12, 10)
    assert found["unsafe"][0] == "/opt/gpuwright/venvs/a/file00: writable by everybody (mode 0666)"
    assert found["missing"] == ["/usr/local/bin/gpu-run"]
    # The folders gpuwright, venvs and a, twelve files and a link, whose own owner means nothing.
    assert found["looked_at"] == 16


@needs_root
def test_a_stray_program_of_ours_is_looked_at(node):
    healthy_files.put_program(node, "/usr/local/bin/gpu-bench", "exit 0")
    os.chown(node.folder / "usr/local/bin/gpu-bench", 991, 991)
    found = readings_standard.read_permissions(node.root)
    assert found["unsafe"] == ["/usr/local/bin/gpu-bench: owned by uid 991"]


def test_a_folder_that_cannot_be_listed_makes_the_reading_unreadable(host, monkeypatch):
    host.put("/opt/gpuwright/venvs/a/file")

    def walk(top, onerror):
        onerror(PermissionError(13, "Permission denied", top))
        return iter(())

    monkeypatch.setattr("gpuwright.host.access.os.walk", walk)
    assert "Permission denied" in attempt(read_unsafe_files, host.root, ["/opt/gpuwright"])["unreadable"]


@pytest.mark.parametrize("text", ["", "{", "[]", '"locked"', "null"])
def test_a_stamp_that_is_no_record_is_not_readable(host, text):
    host.put("/venv/gpuwright.json", text)
    assert "unreadable" in attempt(read_environment_stamp, host.root, "/venv")


def test_a_stamp_that_is_not_there_is_none(host):
    assert read_environment_stamp(host.root, "/venv") is None
    host.put("/elsewhere", "{}")
    (host.folder / "venv/gpuwright.json").mkdir(parents=True)
    assert "cannot be read" in attempt(read_environment_stamp, host.root, "/venv")["unreadable"]


CUDNN = """
#include <stddef.h>
size_t cudnnGetVersion(void) { return %d; }
"""


@pytest.mark.parametrize(("number", "version"), [(91002, "9.10.2"), (8500, "8.5.0"), (8907, "8.9.7")])
def test_cudnn_of_a_wheel_is_asked_itself(host, monkeypatch, number, version):
    """Its files have no version in their names; here a real library with that one function stands for it."""
    folder = host.folder / "opt/gpuwright/cudnn/x/lib"
    folder.mkdir(parents=True)
    host.put("/cudnn.c", CUDNN % number)
    library = folder / f"libcudnn.so.{version.split('.')[0]}"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, host.folder / "cudnn.c"], check=True)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert read_cudnn_of_wheel(host.root, "/opt/gpuwright/cudnn/x", READER) == version


def test_root_does_not_load_the_library_itself(host, monkeypatch):
    folder = host.folder / "opt/cudnn/lib"
    folder.mkdir(parents=True)
    host.put("/cudnn.c", "#include <unistd.h>\n" + CUDNN.replace("%d", "90000 + (getuid() ? 100 : 200)"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libcudnn.so.9", host.folder / "cudnn.c"], check=True)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert read_cudnn_of_wheel(host.root, "/opt/cudnn", READER) == "9.1.0"
    if os.geteuid() == 0:
        with pytest.raises(ValueError, match="there is no user trainer"):
            read_cudnn_of_wheel(host.root, "/opt/cudnn", "trainer")


def test_a_damaged_cudnn_is_no_version(host, monkeypatch):
    folder = host.folder / "opt/cudnn/lib"
    folder.mkdir(parents=True)
    assert read_cudnn_of_wheel(host.root, "/opt/cudnn", READER) is None
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    (folder / "libcudnn.so.9").write_text("half a download")
    with pytest.raises(OSError, match="cannot be loaded"):
        read_cudnn_of_wheel(host.root, "/opt/cudnn", READER)
    (folder / "libcudnn.so.9").unlink()
    (folder / "libcudnn.so.9").symlink_to("libcudnn.so.9.10.2")
    with pytest.raises(OSError, match=r"libcudnn\.so\.9 is a dangling link"):
        read_cudnn_of_wheel(host.root, "/opt/cudnn", READER)


def test_level_quick_does_not_ask_dkms_and_the_others_do(node, fake_bin):
    """A shell script that takes longer than the rest, and no check of that level needs its answer."""
    fake_bin("dkms", "#!/bin/sh\necho 'nvidia/580.95.05, 4.18.0-477.10.1.el8_8.x86_64, x86_64: installed'\n")
    asked = {
        level: collect(healthy_node.expectations(), node.root, level=level)["probe"]["nvidia"]["dkms"]
        for level in (QUICK, STANDARD)
    }
    assert asked[QUICK] is None and [row["module"] for row in asked[STANDARD]] == ["nvidia"]
