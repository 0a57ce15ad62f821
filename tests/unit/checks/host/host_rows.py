"""Rows of test_checks_sad_paths: processors, memory, disks, limits, settings, InfiniBand of the host."""

from __future__ import annotations

import healthy_node
from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from node_names import Changes
from row_values import TUNING

DISKS = ("file_systems",)
BOOT, STATE, ENVIRONMENT, DATA, RUNS = range(1, 6)
DEAF = {"use": "runs", "folder": "/srv/gan/runs", "unreadable": "the file system does not answer within 5 s"}
TUNED_CPU = {"name": "cpu_governor", "wanted": "schedutil", "found": "schedutil", "reason": "Quiet at night."}
PORTS = ("infiniband",)
DISK = ("disks", 0)
UPDATES = ("held_updates", "updates")


def update(package: str = "kernel-4.18.0-553.el8_10.x86_64") -> dict:
    return {"package": package, "advisory": "RHSA-2026:0001 (Important)"}


def port(**changes: object) -> list[dict]:
    return [{**healthy_node.OTHER_NODES["host.infiniband"][PORTS][0], **changes}]


QUIET = healthy_node.OTHER_NODES["host.infiniband_errors"][("link_errors",)][0]
UNCOUNTED = {**QUIET, "name": "mlx5_1 port 1", "rises": [], "counters": {}}


def rising(since_s: float, *full: str, **rises: object) -> Changes:
    told = [{"counter": counter, "rise": rise} for counter, rise in rises.items()]
    counters = {"symbol_error": 240, **{name: 1 for name in rises}}
    return {("link_errors",): [{**QUIET, "since_s": since_s, "rises": told, "full": [*full], "counters": counters}]}


def hangs(reading: str, **changes: object) -> Changes:
    """A second adapter that does not answer, beside one that does."""
    (port,) = healthy_node.OTHER_NODES["host.infiniband" if reading == "infiniband" else "host.infiniband_errors"][
        (reading,)
    ]
    silent = {"name": "mlx5_1 port 1", "unreadable": "mlx5_1 port 1 does not answer within 3 s"}
    return {(reading,): [silent, {**port, **changes}]}


VENDORS = "/etc/yum.repos.d/cuda-rhel8.repo"
OTHER = {
    "id": "cuda-rhel8-x86_64",
    "place": f"{VENDORS}:1",
    "what": "what dnf takes",
    "wanted": "ours",
    "found": "the vendor's",
}


def asked(**changes: object) -> Changes:
    [(path, reading)] = healthy_node.OTHER_NODES["host.repositories"].items()
    return {path: {**reading, **changes}}


def kept(**changes: object) -> Changes:
    [(path, reading)] = healthy_node.OTHER_NODES["host.repository_files"].items()
    return {path: {**reading, **changes}}


def health(passed: bool | None = True, critical_warning: int | None = 0, percentage_used: int | None = 3) -> dict:
    return {"passed": passed, "critical_warning": critical_warning, "percentage_used": percentage_used}


# (check, {path in the readings: value}, {expectation: value}, status, words of the message)
ROWS: list[tuple[str, Changes, dict[str, object], str, str]] = [
    ("host.environment", {("host", "environment"): ["LANG", "CUDA_LAUNCH_BLOCKING"]}, {}, WARN, "CUDA_LAUNCH_BLOCKING"),
    ("host.clock_source", {("host", "clock_source"): "hpet"}, {}, WARN, "hpet"),
    ("host.cpu_governor", {("host", "governors"): ["performance", "powersave"]}, {}, WARN, "powersave"),
    (
        "host.cpu_governor",
        {("host", "governors"): ["schedutil"], TUNING: TUNED_CPU},
        {},
        PASS,
        "schedutil, as set in",
    ),
    ("host.cpu_governor", {TUNING: TUNED_CPU}, {}, WARN, "performance instead of schedutil, as set in system_tuning"),
    ("host.cpu_governor", {("tuning",): None}, {}, PASS, "run with performance"),
    ("host.cpu_governor", {("tuning",): {"unreadable": "not JSON"}}, {}, UNKNOWN, "not JSON"),
    ("host.cpu_governor", {TUNING: {**TUNED_CPU, "wanted": "unknown"}}, {}, UNKNOWN, "wanted"),
    ("host.clock_source", {("host", "container"): "podman"}, {}, SKIP, "a container (podman)"),
    ("host.cpu_governor", {("host", "container"): "lxc"}, {}, SKIP, "a container (lxc)"),
    ("host.cpu_governor", {("host", "governors"): None}, {}, SKIP, "does not scale"),
    ("host.disk_space", {(*DISKS, STATE, "free_mib"): 511}, {}, FAIL, "511 MiB free on /var"),
    ("host.disk_space", {(*DISKS, STATE, "free_mib"): 512}, {}, WARN, "512 MiB free on /var"),
    ("host.disk_space", {(*DISKS, STATE, "free_mib"): 4095}, {}, WARN, "4095 MiB free on /var"),
    ("host.disk_space", {(*DISKS, STATE, "free_mib"): 4096}, {}, PASS, "600 MiB free on /boot"),
    ("host.disk_space", {(*DISKS, BOOT, "free_mib"): 127}, {}, WARN, "127 MiB free on /boot"),
    ("host.disk_space", {(*DISKS, BOOT, "free_mib"): 0}, {}, WARN, "0 MiB free on /boot"),
    ("host.disk_space", {(*DISKS, BOOT, "free_mib"): 128}, {}, PASS, "128 MiB free on /boot"),
    ("host.disk_space", {(*DISKS, RUNS, "free_mib"): 0}, {}, FAIL, "0 MiB free on /srv/gan/runs (file system of /srv)"),
    ("host.disk_space", {(*DISKS, RUNS, "free_mib"): 2047}, {}, FAIL, "2047 MiB free on /srv/gan/runs"),
    ("host.disk_space", {(*DISKS, RUNS, "free_mib"): 2048}, {}, WARN, "2048 MiB free on /srv/gan/runs"),
    ("host.disk_space", {(*DISKS, DATA, "free_mib"): 0}, {}, WARN, "0 MiB free on /srv/gan/data"),
    ("host.disk_space", {(*DISKS, ENVIRONMENT, "free_mib"): 63}, {}, FAIL, "63 MiB free on /opt/gpuwright"),
    ("host.disk_space", {(*DISKS, ENVIRONMENT, "free_mib"): 64}, {}, WARN, "64 MiB free on /opt/gpuwright"),
    (
        "host.disk_space",
        {(*DISKS, ENVIRONMENT, "free_mib"): 64, (*DISKS, RUNS, "free_mib"): 100},
        {},
        FAIL,
        "100 MiB free on /srv/gan/runs",
    ),
    ("host.disk_space", {DISKS: []}, {}, UNKNOWN, "no file system was checked"),
    ("host.disk_space", {DISKS: [DEAF]}, {}, UNKNOWN, "does not answer within 5 s"),
    ("host.disk_space", {(*DISKS, RUNS): DEAF, (*DISKS, STATE, "free_mib"): 1}, {}, FAIL, "1 MiB free on /var"),
    ("host.inodes", {(*DISKS, RUNS): DEAF, (*DISKS, STATE, "free_inodes"): 0}, {}, FAIL, "0 files"),
    ("host.inodes", {(*DISKS, RUNS): DEAF}, {}, UNKNOWN, "does not answer"),
    ("host.inodes", {DISKS: [DEAF]}, {}, UNKNOWN, "does not answer"),
    ("host.writable", {(*DISKS, RUNS): DEAF, (*DISKS, 0, "read_only"): True}, {}, FAIL, "/ is read-only"),
    ("host.disk_space", {(*DISKS, RUNS): DEAF}, {}, UNKNOWN, "does not answer within 5 s"),
    ("host.disk_space", {(*DISKS, RUNS, "use"): "others"}, {}, UNKNOWN, "others"),
    ("host.inodes", {(*DISKS, STATE, "free_inodes"): 10000}, {}, PASS, "10000 files"),
    ("host.inodes", {(*DISKS, STATE, "free_inodes"): 0}, {}, FAIL, "0 files"),
    ("host.inodes", {(*DISKS, STATE, "free_inodes"): 1}, {}, WARN, "1 files"),
    ("host.inodes", {(*DISKS, DATA, "free_inodes"): 0}, {}, WARN, "0 files can still be created on /srv/gan/data"),
    ("host.inodes", {(*DISKS, RUNS, "free_inodes"): 0}, {}, FAIL, "0 files can still be created on /srv/gan/runs"),
    ("host.inodes", {(*DISKS, STATE, "free_inodes"): 9999}, {}, WARN, "9999 files"),
    ("host.inodes", {(*DISKS, STATE, "free_inodes"): None}, {}, SKIP, "no fixed number of files on /var"),
    (
        "host.inodes",
        {(*DISKS, number, "free_inodes"): None for number in range(6)},
        {},
        SKIP,
        "no file system that was checked",
    ),
    (
        "host.writable",
        {(*DISKS, RUNS, "read_only"): True},
        {},
        FAIL,
        "/srv/gan/runs (file system of /srv) is read-only",
    ),
    ("host.writable", {(*DISKS, 0, "read_only"): True}, {}, FAIL, "/ is read-only"),
    ("host.writable", {(*DISKS, DATA, "read_only"): True}, {}, PASS, "can write"),
    ("host.writable", {(*DISKS, BOOT, "read_only"): True}, {}, PASS, "can write"),
    ("host.writable", {(*DISKS, RUNS, "there"): False}, {}, FAIL, "there is no folder /srv/gan/runs"),
    ("host.writable", {(*DISKS, DATA, "there"): False}, {}, PASS, "can write"),
    ("host.writable", {(*DISKS, RUNS): DEAF}, {}, UNKNOWN, "does not answer"),
    ("host.writable", {DISKS: {"unreadable": "no mountinfo"}}, {}, UNKNOWN, "no mountinfo"),
    ("host.blocked_tasks", {("host", "blocked_tasks", "nvidia"): ["nvidia-smi"]}, {}, WARN, "nvidia-smi"),
    ("host.blocked_tasks", {("host", "blocked_tasks", "others"): ["kworker"]}, {}, PASS, "1 others"),
    ("host.tuning", {(*TUNING, "found"): "60"}, {}, WARN, "vm.swappiness: found 60, wanted 10"),
    ("host.tuning", {("tuning",): None}, {}, SKIP, "is not tuned"),
    ("host.tuning", {("tuning",): []}, {}, UNKNOWN, "no setting"),
    ("host.tuning", {("tuning",): {"unreadable": "tuning.json is not JSON"}}, {}, UNKNOWN, "is not JSON"),
    ("host.tuning", {(*TUNING, "found"): {"unreadable": "this kernel has no x"}}, {}, UNKNOWN, "has no x"),
    ("host.tuning", {(*TUNING, "name"): "vm.unheard_of"}, {}, UNKNOWN, "vm.unheard_of"),
    ("host.infiniband", {PORTS: port(state="DOWN", physical="Polling")}, {}, WARN, "port 1 is DOWN (Polling)"),
    ("host.infiniband", {PORTS: port(link_downed=5)}, {}, WARN, "went down 5 times"),
    ("host.infiniband", {PORTS: port(recovered=5)}, {}, WARN, "recovered from errors 5 times"),
    ("host.infiniband", {PORTS: port(usable=False)}, {}, FAIL, "programs cannot open mlx5_0 port 1"),
    ("host.infiniband", {PORTS: port(link_downed=4)}, {}, PASS, "1 ports are active"),
    ("host.infiniband", {PORTS: port(link_downed=None)}, {}, UNKNOWN, "link_downed"),
    ("host.infiniband", {PORTS: []}, {}, UNKNOWN, "show no port"),
    ("host.infiniband", hangs("infiniband"), {}, UNKNOWN, "mlx5_1 port 1 does not answer within 3 s"),
    (
        "host.infiniband",
        hangs("infiniband", link_downed=9),
        {},
        UNKNOWN,
        "does not answer within 3 s; mlx5_0 port 1 went down 9 times",
    ),
    ("host.infiniband", hangs("infiniband", usable=False), {}, FAIL, "programs cannot open mlx5_0 port 1"),
    ("host.infiniband", {}, {}, SKIP, "no InfiniBand"),
    ("host.infiniband_errors", {}, {}, SKIP, "no InfiniBand"),
    ("host.infiniband_errors", rising(5400.0), {}, PASS, "1 ports do not rise"),
    ("host.infiniband_errors", rising(0.0), {}, PASS, "do not rise"),
    ("host.infiniband_errors", rising(5400.0, symbol_error=15, link_downed=1), {}, PASS, "do not rise"),
    # Within minutes, as over an hour: a few errors are none.
    ("host.infiniband_errors", rising(300.0, symbol_error=10, link_downed=1), {}, PASS, "do not rise"),
    (
        "host.infiniband_errors",
        rising(5400.0, symbol_error=240, link_downed=3),
        {},
        WARN,
        "symbol_error rose by 240 in 1.5 h (160 per hour; limit 10); mlx5_0 port 1: link_downed rose by 3",
    ),
    ("host.infiniband_errors", rising(300.0, link_downed=2), {}, WARN, "link_downed rose by 2 in 0.1 h (2 per hour"),
    ("host.infiniband_errors", rising(86400.0, rx_icrc_encapsulated=264), {}, WARN, "11 per hour; limit 10"),
    (
        "host.infiniband_errors",
        rising(300.0, symbol_error=99, link_downed=3, VL15_dropped=900, port_rcv_errors=11),
        {},
        WARN,
        "limit 100); mlx5_0 port 1: link_downed rose by 3 in 0.1 h (3 per hour; limit 1) and 1 more",
    ),
    (
        "host.infiniband_errors",
        rising(300.0, symbol_error=99, link_downed=3, VL15_dropped=900),
        {},
        WARN,
        "rose by 3 in 0.1 h (3 per hour; limit 1)",
    ),
    (
        "host.infiniband_errors",
        rising(5400.0, "symbol_error", symbol_error=0),
        {},
        WARN,
        "mlx5_0 port 1: symbol_error has stopped at its maximum, 65535",
    ),
    ("host.infiniband_errors", rising(0.0, "link_downed"), {}, WARN, "link_downed has stopped at its maximum, 255"),
    (
        "host.infiniband_errors",
        rising(5400.0, "local_link_integrity_errors", symbol_error=240),
        {},
        WARN,
        "limit 10); mlx5_0 port 1: local_link_integrity_errors has stopped at its maximum, 15",
    ),
    (
        "host.infiniband_errors",
        hangs("link_errors", full=["VL15_dropped"]),
        {},
        UNKNOWN,
        "mlx5_1 port 1 does not answer within 3 s; mlx5_0 port 1: VL15_dropped has stopped",
    ),
    ("host.infiniband_errors", {("link_errors",): []}, {}, UNKNOWN, "show no port"),
    ("host.infiniband_errors", {("link_errors",): [UNCOUNTED]}, {}, SKIP, "drivers of 1 ports have no error counters"),
    (
        "host.infiniband_errors",
        {("link_errors",): [QUIET, UNCOUNTED]},
        {},
        PASS,
        "of 1 ports do not rise, or slowly; the drivers of 1 ports have none",
    ),
    ("host.infiniband_errors", rising(300.0, symbol_error=None), {}, UNKNOWN, "rises[0].rise is not a number"),
    ("host.disks", {(*DISK, "state"): "dead"}, {}, FAIL, "the kernel reports nvme0n1 as dead"),
    ("host.disks", {(*DISK, "health"): health(passed=False)}, {}, FAIL, "nvme0n1 reports that it is failing"),
    ("host.disks", {(*DISK, "health"): health(critical_warning=4)}, {}, FAIL, "critical warning 4"),
    ("host.disks", {(*DISK, "health"): health(percentage_used=100)}, {}, WARN, "has used 100 % of its life"),
    ("host.disks", {(*DISK, "health"): health(percentage_used=99)}, {}, PASS, "1 disks report that they are healthy"),
    (
        "host.disks",
        {DISK: {"name": "sda", "state": "running", "health": health(True, None, None)}},
        {},
        PASS,
        "1 disks",
    ),
    ("host.disks", {(*DISK, "health"): {"unreadable": "permission denied"}}, {}, UNKNOWN, "permission denied"),
    (
        "host.disks",
        {(*DISK, "health"): None},
        {},
        SKIP,
        "can access nvme0n1; smartctl, which reports more, is not",
    ),
    ("host.disks", {("disks",): None}, {}, SKIP, "no disk of its own"),
    ("host.disks", {("disks",): []}, {}, UNKNOWN, "no disk was checked"),
    ("host.disks", {("host", "container"): "podman", (*DISK, "state"): "dead"}, {}, SKIP, "is a container"),
    ("host.training_user", {("training_user",): None}, {}, FAIL, "no local user trainer"),
    ("host.training_user", {("training_user", "uid"): 0}, {}, FAIL, "is root"),
    ("host.training_user", {("training_user", "shell"): "/bin/bash"}, {}, FAIL, "has the shell /bin/bash"),
    ("host.training_user", {("training_user", "shell"): ""}, {}, FAIL, "has the shell /bin/sh"),
    ("host.training_user", {("training_user", "groups"): ["trainer", "wheel"]}, {}, FAIL, "in the group wheel"),
    ("host.training_user", {("training_user", "groups"): []}, {}, UNKNOWN, "no group"),
    ("host.training_user", {("training_user", "password"): "set"}, {}, FAIL, "not locked"),
    ("host.training_user", {("training_user", "password"): "empty"}, {}, FAIL, "not locked"),
    ("host.repositories", asked(), {}, PASS, "dnf uses cuda-rhel8-x86_64, epel as configured"),
    ("host.repositories", asked(relied=[]), {}, PASS, "none of them"),
    ("host.repositories", asked(problems=[OTHER]), {}, FAIL, f"{VENDORS}:1: what dnf takes is the vendor's, not ours"),
    ("host.repositories", asked(problems=[OTHER] * 4, weak=[OTHER]), {}, FAIL, "and 1 more"),
    ("host.repositories", asked(weak=[OTHER]), {}, WARN, "takes what nobody has signed"),
    ("host.repositories", asked(problems=None), {}, UNKNOWN, "problems"),
    ("host.repositories", asked(problems=[{}]), {}, UNKNOWN, "place"),
    ("host.repositories", asked(manager="zypper"), {}, UNKNOWN, "zypper"),
    ("host.repositories", {("repositories",): None}, {}, SKIP, "nobody has said"),
    ("host.repositories", {("repositories",): {"unreadable": "dnf is ill"}}, {}, UNKNOWN, "dnf is ill"),
    ("host.repository_files", kept(), {}, PASS, "1 files are as they were"),
    ("host.repository_files", kept(now={}), {}, WARN, "changed since the last verification: /etc/yum.repos.d/cuda"),
    ("host.repository_files", kept(now={VENDORS: "11"}), {}, WARN, VENDORS),
    ("host.repository_files", kept(problems=[OTHER]), {}, FAIL, f"as the last verification found: {VENDORS}:1"),
    ("host.repository_files", kept(problems=[OTHER], now={}), {}, WARN, "changed since the last verification"),
    ("host.repository_files", kept(problems=None), {}, UNKNOWN, "problems"),
    ("host.repository_files", kept(then=None), {}, UNKNOWN, "then"),
    ("host.repository_files", {**kept(now={}), **asked()}, {}, SKIP, "was asked: host.repositories"),
    ("host.repository_files", {("repository_files",): {"unreadable": "no"}}, {}, UNKNOWN, "no"),
    ("host.repository_files", {("repository_files",): None}, {}, SKIP, "no verification has asked"),
    ("host.held_updates", {UPDATES: [update()]}, {}, WARN, "553.el8_10.x86_64: RHSA-2026:0001 (Important)"),
    ("host.held_updates", {UPDATES: [update(f"p{n}-1-1.noarch") for n in range(6)]}, {}, WARN, "p3-1-1.noarch"),
    ("host.held_updates", {UPDATES: [update(f"p{n}-1-1.noarch") for n in range(6)]}, {}, WARN, "and 2 more"),
    ("host.held_updates", {}, {}, PASS, "from lists of 1 days ago"),
    ("host.held_updates", {("held_updates", "days"): 30}, {}, PASS, "from lists of 30 days ago"),
    (
        "host.held_updates",
        {("held_updates", "days"): 31},
        {},
        SKIP,
        "than 31 days ago (limit 30)",
    ),
    ("host.held_updates", {("held_updates", "days"): None}, {}, SKIP, "how old the package manager's lists are"),
    ("host.held_updates", {("held_updates", "days"): 99, UPDATES: [update()]}, {}, WARN, "held back"),
    ("host.held_updates", {UPDATES: None}, {}, SKIP, "'dnf makecache' fetches them"),
    ("host.held_updates", {UPDATES: None, ("held_updates", "manager"): "apt"}, {}, SKIP, "'apt-get update'"),
    ("host.held_updates", {("held_updates", "manager"): "zypper"}, {}, UNKNOWN, "zypper"),
    ("host.held_updates", {UPDATES: [{"package": "kernel"}]}, {}, UNKNOWN, "advisory"),
    ("host.held_updates", {("held_updates",): None}, {}, SKIP, "neither dnf nor apt holds"),
    ("host.held_updates", {("held_updates",): {"unreadable": "it ended with status 1"}}, {}, UNKNOWN, "status 1"),
]
