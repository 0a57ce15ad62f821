"""Every row that preflight can print, whose next step it is, and how it is followed; docs/checks.md is written from it.

A state is broken by `broken`; what is printed is then read, a variable out of "name: value" or a command out of its
backticks, and done to the state as Ansible or the program would. Where `by_hand` says why, nobody can type it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpuwright.sources.others import Other
from gpuwright.sources.relied import Entry, Relied
from test_preflight import PLENTY, facts, found, host, key, plan, wishes

LOST = {"verify": "error: rpmdbNextIterator: skipping h# 1 blob size(4): BAD", "check": "", "unfinished": None}
NOWHERE: dict[str, object] = {
    "name": "epel",
    "url": "http://m/x",
    "variable": "system_kernel_epel_url",
    "why": "HTTP 404 Not Found",
}
NOWHERE["refused"] = False
TWO_KEYS = {**NOWHERE, "variable": "system_kernel_epel_key_url", "why": "it holds 2 primary keys", "refused": True}
OTHER_KEY = {**TWO_KEYS, "why": "it holds 1111 instead of 2222"}
UNPINNED = {
    "name": "nvidia",
    "key_url": "https://mirror/key.pub",
    "key_variable": "system_driver_repository_key_url",
}
ELSEWHERE = Other(
    Relied("cuda", "https://m/x/", "", "/ours", "/key", "A" * 40, True, True),
    Entry("/etc/yum.repos.d/x.repo", 3, 4, "cuda", (), True, {}),
    "it has come back",
    "Find what writes it",
)
ALICE = ["trainer", "x", "1003", "1003", "Alice Example", "/home/alice", "/bin/bash"]
JOB = {"gpu_processes": [], "users": [], "jobs": ["Slurm job 7"]}
FULL = {**PLENTY, "free_mib": 1}
GUARD = {"permissive": False, "allowed": False, "folder": True, "listed": False}
HERE = 1000.0
# Under which name find_problems is handed a variable of the inventory; test_refusal_advice.py compares the role.
VARIABLES = {
    "preflight_allow_missing_gpus": "allow_missing_gpus",
    "framework_pytorch_allow_unlocked": "allow_unlocked",
    "framework_pytorch_packages": "packages",
    "gpuwright_busy": "busy",
    "preflight_space_percent": "space_percent",
    "system_driver_allow_downgrade": "allow_downgrade",
    "system_kernel_prepare_secure_boot": "prepare_secure_boot",
    "verify_expected_gpu_count": "gpu_count",
    "verify_expected_gpu_model": "gpu_model",
    # Adopted, the account's name is not handed on any more.
    "system_training_adopt_user": "training_user",
}


@dataclass
class State:
    """What find_problems is handed."""

    host: dict[str, Any] = field(default_factory=host)
    plan: dict[str, Any] = field(default_factory=plan)
    facts: dict[str, Any] = field(default_factory=facts)
    wishes: dict[str, Any] = field(default_factory=wishes)

    def stops(self) -> list[dict[str, Any]]:
        asked = {name: value for name, value in self.wishes.items()}
        return [row for row in found(self.host, self.plan, self.facts, **asked) if row["stops"]]


def change_all(state: State, **changes: Any) -> None:
    systems = state.facts["filesystems"]
    state.facts["filesystems"] = {name: {**row, **changes} for name, row in systems.items()}


# What a command does to the node, by its beginning.
EFFECTS: dict[str, Callable[[State], object]] = {
    "ansible-playbook playbooks/lock.yml": lambda state: state.wishes["packages_lock"].update(found=True),
    "systemctl enable --now chronyd && chronyc makestep": lambda state: state.facts.update(time=HERE),
    "timedatectl set-ntp true": lambda state: state.facts.update(time=HERE),
    "rpm --rebuilddb": lambda state: state.facts.update(rpm="kmod.x86_64\n", packages=None),
    "dnf remove --duplicates": lambda state: state.facts.update(rpm="kmod.x86_64\n"),
    "dnf clean packages": lambda state: change_all(state, free_mib=PLENTY["free_mib"]),
    "apt-get clean": lambda state: change_all(state, free_mib=PLENTY["free_mib"]),
    "mount -o remount,rw": lambda state: change_all(state, read_only=False),
    "rm /var/lib/dkms/mok.pub /var/lib/dkms/mok.key": lambda state: state.host.update(module_key=key("none")),
    "mount -t efivarfs": lambda state: state.host.update(secure_boot="disabled"),
    "printf '%s\\n' 'allow perm=any all : dir=/opt/gpuwright": lambda state: state.facts["fapolicyd"].update(
        allowed=True
    ),
}
SETTING = re.compile(r"\b([a-z]+(?:_[a-z]+)+)(?:: |=)(\"[^\"]+\"|'[^']+'|\[\]|[\w.]+)")
COMMAND = re.compile(r"`([^`]+)`")


@dataclass
class Refusal:
    """One row of preflight's table."""

    name: str
    words: str
    broken: Callable[[], State]
    steps: int = 1
    by_hand: str = ""


def small(**changes: Any) -> State:
    state = State()
    change_all(state, **changes)
    return state


def debian(**changes: Any) -> dict[str, Any]:
    made = host(**changes)
    return {**made, "os": {**made["os"], "family": "debian"}}


UNKNOWN_BOARD = {"known": False, "because": "12 NVSwitches 10de:1ac2 with Tesla V100-SXM3-32GB on x86_64"}
REFUSALS = (
    Refusal(
        "a board that no row knows",
        "does not know the board of this node",
        lambda: State(host={**host(), "platform": UNKNOWN_BOARD}),
        by_hand="whoever keeps the matrix writes the row, with its source",
    ),
    Refusal(
        "a GPU is missing", "0 of 1 GPUs are there", lambda: State(host={**host(), "gpus": []}, plan=plan(present=True))
    ),
    Refusal(
        "more GPUs than expected",
        "GPUs are there, but 1 are expected",
        lambda: State(host=host(gpus="V100 V100")),
    ),
    Refusal("another model", "is there, but Tesla T4 is expected", lambda: State(wishes=wishes(gpu_model="Tesla T4"))),
    Refusal("the GPUs are in use", "The GPUs are in use", lambda: State(host=host(in_use=JOB))),
    Refusal(
        "a newer driver",
        "newer than the planned",
        lambda: State(host=host(nvidia={**host()["nvidia"], "user_space": "999.1"})),
    ),
    Refusal("no lock file", "There is no lock file", lambda: State(plan=plan(locks=[]))),
    Refusal("packages that nobody has locked", "There is no lock file of", lambda: State(wishes=own_packages())),
    Refusal(
        "packages beside an unlocked plan",
        "is for plans with a lock file",
        lambda: State(
            plan=plan(locks=[]), wishes=wishes(packages=["lpips"], packages_lock=own_lock(), allow_unlocked=True)
        ),
    ),
    Refusal(
        "an entry that is no package",
        "An entry of framework_pytorch_packages cannot be used",
        lambda: State(wishes=wishes(packages=["a b"], packages_lock={**own_lock(), "fault": "'a b' is neither"})),
        by_hand="whoever keeps the inventory corrects the entry",
    ),
    Refusal("the clock is off", "The clock is", lambda: State(facts=facts(time=HERE + 900))),
    Refusal("the clock is off, Debian", "The clock is", lambda: State(host=debian(), facts=facts(time=HERE + 900))),
    Refusal("rpm's database", "cannot be read", lambda: State(facts=facts(rpm="error: rpmdb open failed"))),
    Refusal("rpm's database is damaged", "is damaged", lambda: State(facts=facts(packages=dict(LOST)))),
    Refusal(
        "a package twice",
        "installed twice",
        lambda: State(plan=plan(present=True), facts=facts(rpm="kmod x86_64\nkmod x86_64\n")),
    ),
    Refusal("read-only", "mounted read-only", lambda: small(read_only=True)),
    Refusal("too little space", "MiB are needed", lambda: small(free_mib=1)),
    Refusal("too little space, Debian", "MiB are needed", lambda: State(host=debian(), facts=small(free_mib=1).facts)),
    Refusal("too few inodes", "inodes free", lambda: small(free_inodes=5), by_hand="root decides what may go"),
    Refusal(
        "space cannot be read",
        "cannot be read",
        lambda: State(facts=facts(filesystems={"/usr": PLENTY})),
        by_hand="root looks why df fails",
    ),
    Refusal(
        "a repository does not answer",
        "cannot be reached from this host",
        lambda: State(facts=facts(unreachable=[dict(NOWHERE)])),
        by_hand="the network's administrator opens the way, or a mirror is named",
    ),
    Refusal(
        "a key file with two keys",
        "The key file of the repository epel is refused",
        lambda: State(facts=facts(unreachable=[dict(TWO_KEYS)])),
        by_hand="whoever runs the mirror says where the other key comes from",
    ),
    Refusal(
        "another key than the pinned one",
        "is not the pinned one",
        lambda: State(facts=facts(unreachable=[dict(OTHER_KEY)])),
        by_hand="whoever runs the hosts compares the new fingerprint with what the vendor says of it",
    ),
    Refusal(
        "another source of a repository that cannot be taken over",
        "Another source of the repository cuda decides",
        lambda: State(facts=facts(sources={"others": [ELSEWHERE], "refuses": "", "refused": "", "broken": []})),
        by_hand="whoever has the tool or the file leaves that source out",
    ),
    Refusal(
        "apt refuses its sources",
        "apt refuses its sources",
        lambda: State(
            facts=facts(sources={"others": [], "refuses": "Malformed", "refused": "Malformed", "broken": []})
        ),
        by_hand="whoever wrote the source that apt names mends it",
    ),
    Refusal(
        "a repository whose key nobody has named",
        "no key is trusted without one",
        lambda: State(facts=facts(unpinned=[dict(UNPINNED)])),
        by_hand="whoever runs the hosts compares the key with what the vendor says of it",
    ),
    Refusal(
        "an account of somebody else",
        "There is an account trainer that this toolkit did not create",
        lambda: State(facts=facts(accounts={"trainer": ALICE})),
    ),
    Refusal("fapolicyd", "fapolicyd lets only root", lambda: State(facts=facts(fapolicyd=dict(GUARD)))),
    Refusal("Secure Boot, key not enrolled", "not enrolled", lambda: secured("not_enrolled")),
    Refusal("Secure Boot, no key", "no signing key yet", lambda: secured("none")),
    Refusal("Secure Boot, key revoked", "is revoked", lambda: secured("blocked"), steps=2),
    Refusal(
        "Secure Boot, key not confirmed",
        "waits for its confirmation",
        lambda: secured("staged"),
    ),
    Refusal(
        "Secure Boot cannot be read",
        "It is not known whether Secure Boot is on",
        lambda: State(host=host(secure_boot="unknown", secure_boot_because="no efivars")),
    ),
    Refusal(
        "the next module is not trusted",
        "the next boot would end without a driver",
        lambda: State(
            host=host(module_signature={"kernel": "5.14", "signer": "x", "trusted": False, "because": ""}),
            plan=plan(present=True),
        ),
        by_hand="root chooses whether the module or the key is changed",
    ),
)


def own_lock() -> dict[str, Any]:
    return {"path": "/inventory/locks/plan+0.txt", "found": False, "fault": ""}


def own_packages() -> dict[str, Any]:
    return wishes(packages=["lpips"], packages_lock=own_lock())


def secured(state: str) -> State:
    hashed = "$6$saltsalt$" + "a" * 86
    return State(
        host=host(secure_boot="enabled", module_key=key(state)), wishes=wishes(secure_boot_password_hash=hashed)
    )


def follow(state: State, step: str) -> None:
    """Do what is printed: the first variable with its value, else the first command that changes something."""
    for name, value in SETTING.findall(step):
        if name in VARIABLES:
            state.wishes[VARIABLES[name]] = read(value)
            return
    for command in COMMAND.findall(step):
        for beginning, effect in EFFECTS.items():
            if command.replace("sudo ", "").startswith(beginning):
                effect(state)
                return
    raise AssertionError(f"nobody can follow {step!r}")


def read(value: str) -> Any:
    value = value.strip("\"'")
    return [] if value == "[]" else True if value == "true" else int(value) if value.isdigit() else value


def table() -> list[tuple[str, str]]:
    """(row, how many steps or why nobody can type it)."""
    return [(row.name, row.by_hand and f"by hand: {row.by_hand}" or f"followed, {row.steps}") for row in REFUSALS]
