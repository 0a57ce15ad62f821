# SPDX-License-Identifier: Apache-2.0
"""Finds obstacles to a plan on this host, before anything is changed.

`read_facts` reads what the probe does not: file systems, clock, the package manager. `find_problems` judges all of it
and is a pure function. A problem says what is wrong, what was seen, and what to do; one that does not stop the run is a
remark.
"""

import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence

from ..gpu.cards import could_be
from ..gpu.devices import describe_device, find_devices
from ..host.files import exists
from ..packages.installed import lock_holder, missing_packages
from ..packages.repositories import unreachable
from ..packages.state import NAMES, read_package_state, state_findings
from ..probe.workloads import describe_all
from .accounts import account_problems, read_accounts
from .driver import downgrade_problems, guard_remarks, read_guarded
from .fapolicyd import fapolicyd_problems, read_fapolicyd
from .other_sources import other_source_problems, read_other_sources
from .own_packages import own_package_problems
from .problem import (
    Problem,
    problem,
)
from .repositories import key_problems, repository_problems
from .secure_boot import secure_boot_problems
from .space import FOLDERS, largest_initramfs_mib, read_filesystem, read_only_problems, space_needed, space_problems
from .unknown_board import platform_problems

NO_SOURCES: Dict[str, Any] = {"others": [], "refuses": "", "refused": "", "broken": []}
# TLS certificates and Kerberos tickets are refused if clocks differ by little more than this many seconds.
MOST_SKEW_SECONDS = 60
# It is not known which of Debian's time services is installed, and chronyd is not the name of a unit there.
SET_CLOCK = {
    "redhat": "sudo systemctl enable --now chronyd && sudo chronyc makestep",
    "debian": "sudo timedatectl set-ntp true",
}
# Written last: an environment without it is built again.
ENVIRONMENT_STAMP = "/opt/gpuwright/venvs/{}/gpuwright.json"


def read_facts(
    plan: Mapping[str, Any],
    ask: Callable[..., Any],
    root: str = "/",
    repositories: Sequence[Mapping[str, Any]] = (),
    system: Optional[Mapping[str, Any]] = None,
    look: Callable[..., Any] = unreachable,
    missing: Callable[..., Any] = missing_packages,
    passwords: Optional[Mapping[str, str]] = None,
    environment: str = "",
    accounts: Sequence[str] = (),
    relied: Sequence[Mapping[str, Any]] = (),
    sources: Callable[..., Any] = read_other_sources,
) -> Dict[str, Any]:
    """What `find_problems` needs besides the probe. `ask(command)` returns a program's output, None if it did not run.

    repositories  `[{name, url, user, variable, key_url, key_user, key_variable, key_fingerprint, packages}]`; `look`
                  contacts those with missing packages           passwords  `{variable: password}` of their users
    system        family and major version of the operating system          environment  name of the planned one
    accounts      names of users that the model layer will need
    relied        repositories that the system layer relies on, as the lookup `asked` has them
    """
    family = (system or {}).get("family", "redhat")
    major = (system or {}).get("major") or 8
    driver = plan["driver"]
    # rpm accepts a version, also as a pattern: under two names, a package would be counted twice.
    version = "-" + (driver["version"] or driver["branch"] + ".*")
    names = sorted({name.split(version)[0] for name in driver["packages"] + driver["version_lock"]})
    by_rpm = family == "redhat"
    rpm = ask(NAMES + (names or ["rpm"])) if by_rpm else ""
    needed = [row for row in repositories if _lacks(row["packages"], family, missing)]
    return {
        "unreachable": look(needed, major, root, family, passwords) if needed else [],
        "unpinned": [row for row in needed if not row.get("key_fingerprint")],
        "sources": sources(relied, family, missing) if relied else NO_SOURCES,
        "packages": read_package_state(ask, root) if needed and by_rpm else None,
        "time": time.time(),
        "filesystems": {folder: read_filesystem(root, folder) for folder in FOLDERS},
        "initramfs_mib": largest_initramfs_mib(root),
        "rpm": rpm,
        "lock_holder": lock_holder(root),
        "guarded": read_guarded(family, root),
        "fapolicyd": read_fapolicyd(ask, root),
        "accounts": read_accounts(ask, accounts),
        "has": {
            "cuda": bool(plan["cuda"]["prefix"]) and exists(root, plan["cuda"]["prefix"]),
            "cudnn": bool(plan["cudnn"]["header"]) and exists(root, plan["cudnn"]["header"]),
            "environment": bool(environment) and exists(root, ENVIRONMENT_STAMP.format(environment)),
        },
    }


def _lacks(names: Iterable[str], family: str, missing: Callable[..., Any]) -> Any:
    """Whether any of `names` has to be installed; if that cannot be determined, it is assumed."""
    try:
        return bool(missing(names, family))
    except OSError:
        return True


def find_problems(
    host: Mapping[str, Any], plan: Mapping[str, Any], facts: Mapping[str, Any], wishes: Mapping[str, Any]
) -> List[Problem]:
    """Problems and remarks, in the order in which somebody would look at them.

    host    what gpu_probe returned          plan    what gpu_plan returned          facts  what read_facts returned
    wishes  gpu_count (None: not given), gpu_model (""), allow_missing_gpus, allow_unlocked, allow_kernel_update,
            busy (gpuwright_busy), time (s since 1970 on the controller, None: not given), space (rows of the matrix),
            space_percent (of that, 0: not checked), prepare_secure_boot, secure_boot_password_hash (""),
            training_user (""), researchers, packages, packages_lock (own_packages.py)
    """
    found = hardware_problems(host["gpus"], wishes)
    found += platform_problems(host)
    found += secure_boot_problems(host, plan, wishes)
    found += use_problems(host, plan, wishes.get("busy", "skip"))
    found += downgrade_problems(host, plan, wishes)
    found += guard_remarks(host, plan, facts)
    found += fapolicyd_problems(facts)
    found += account_problems(facts["accounts"], wishes["training_user"], wishes["researchers"])
    found += lock_file_problems(plan, wishes)
    found += own_package_problems(plan, wishes)
    found += clock_problems(facts, wishes, _family(host))
    found += package_manager_problems(facts, plan["driver"]["present"])
    found += key_problems(facts)
    found += other_source_problems(facts.get("sources", NO_SOURCES))
    found += repository_problems(facts, _family(host))
    needs = space_needed(plan, facts, wishes)
    found += read_only_problems(facts, needs)
    if wishes["space_percent"] > 0:
        found += space_problems(facts, needs, wishes["space_percent"], _family(host))
    return found


def hardware_problems(gpus: Sequence[Mapping[str, Any]], wishes: Mapping[str, Any]) -> List[Problem]:
    """Compare the cards on the PCI bus with those that the server was bought with."""
    found = []
    names = sorted({gpu["name"] for gpu in gpus})
    seen = f"{len(gpus)} on the PCI bus: {', '.join(gpu['pci_id'] for gpu in gpus) or 'none'}"
    count, model = wishes["gpu_count"], wishes["gpu_model"]
    if count is not None and len(gpus) < count:
        text = f"{len(gpus)} of {count} GPUs are there"
        step = (
            "Look for the missing card: power, seating, firmware, `sudo dmesg | grep -i nvrm`. To continue without "
            "it, set "
            "preflight_allow_missing_gpus: true; if the server has fewer, correct verify_expected_gpu_count."
        )
        found.append(problem("gpu.count", text, seen, step, stops=not wishes["allow_missing_gpus"]))
    elif count == 0 and gpus:
        step = f"Set verify_expected_gpu_count: {len(gpus)} to use them, or leave it: verification warns."
        found.append(problem("gpu.count", "There are GPUs in a node that should have none", seen, step, stops=False))
    elif count is not None and len(gpus) > count:
        text = f"{len(gpus)} GPUs are there, but {count} are expected"
        found.append(
            problem(
                "gpu.count",
                text,
                seen,
                f"Set verify_expected_gpu_count: {len(gpus)}, or check whether this is the right server.",
            )
        )
    strangers = [name for name in names if model and not could_be(name, model)]
    if strangers:
        expected = {describe_device(device_id).architecture for device_id in find_devices(model)}
        # Names are not always nvidia-smi's, which verification uses; but a different chip is certainly a different
        # card.
        other = bool(expected) and any(gpu["architecture"] not in expected for gpu in gpus if gpu["name"] in strangers)
        text = f"{', '.join(strangers)} is there, but {model} is expected"
        right = "Set verify_expected_gpu_model: {!r}" if len(names) == 1 else "Take {!r} out"
        step = right.format(strangers[0]) + ", or check whether this is the right server and card."
        found.append(problem("gpu.model", text, seen, step, stops=other))
    return found


USE_STEPS = {
    "skip": "Drain the node or wait for the jobs, then run again; -e gpuwright_busy=wait lets the run wait for them.",
    "later": "Nothing: the rollout drains this node, waits for the work or skips the node before it changes anything.",
}


def use_problems(host: Mapping[str, Any], plan: Mapping[str, Any], busy: Any) -> List[Problem]:
    """Work that a new driver would break; a driver that stays does no harm.

    With `busy` wait, force or later, this is a remark: the step itself checks again, and waits or is skipped.
    """
    use = host["in_use"]
    workers = [dict(process, what=process["name"]) for process in use["gpu_processes"]]
    workers += [dict(pid=None, name=job, what=job, user=None, since=None) for job in use["jobs"]]
    if plan["driver"]["present"] or not workers:
        return []
    step = USE_STEPS.get(str(busy), f"Nothing: as gpuwright_busy={busy} says, the run checks again before that.")
    text = "The GPUs are in use and the driver would be replaced"
    return [dict(problem("host.busy", text, describe_all(workers), step, stops=busy == "skip"), kind="busy")]


def lock_file_problems(plan: Mapping[str, Any], wishes: Mapping[str, Any]) -> List[Problem]:
    """An environment whose packages are not pinned."""
    if plan["pytorch"]["locked"]:
        return []
    return [
        problem(
            "framework.lock_file",
            "There is no lock file for PyTorch {version} {build} with Python {}".format(
                plan["python"]["version"], **plan["pytorch"]
            ),
            plan["pytorch"]["lock"] + " is not in roles/framework_pytorch/files/locks",
            "Pin versions that have one, make it (playbooks/lock.yml), name your own in framework_pytorch_lock_file, "
            "or set framework_pytorch_allow_unlocked: true to install without hashes.",
            stops=not wishes["allow_unlocked"],
        )
    ]


def _family(host: Mapping[str, Any]) -> str:
    return (host.get("os") or {}).get("family", "redhat")


def clock_problems(facts: Mapping[str, Any], wishes: Mapping[str, Any], family: str = "redhat") -> List[Problem]:
    """A clock that is off makes certificates and signatures invalid, in messages that do not mention the clock."""
    if wishes["time"] is None or abs(facts["time"] - wishes["time"]) <= MOST_SKEW_SECONDS:
        return []
    skew = facts["time"] - wishes["time"]
    text = f"The clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the controller's"
    seen = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(facts["time"])) + " on the node"
    return [problem("clock.skew", text, seen, f"On the node: `{SET_CLOCK[family]}`; or correct the controller's.")]


def package_manager_problems(facts: Mapping[str, Any], stays: bool) -> List[Problem]:
    """An rpm database that cannot be read or lists a package twice, and who is installing at this moment.

    stays  whether the driver that is there is the planned one, so that no package of it will be installed
    """
    found = []
    said = facts["rpm"]
    if said is None or "error:" in said:
        seen = "rpm did not answer" if said is None else " ".join(said.split())[:200]
        step = (
            "Look at `rpm -qa | head`; with no other package manager running, `sudo rpm --rebuilddb` mostly repairs it."
        )
        found.append(problem("packages.database", "The rpm database cannot be read", seen, step))
    else:
        lines = said.splitlines()
        twice = sorted({line for line in lines if lines.count(line) > 1})
        if twice:
            text = "Packages of the driver are installed twice, as after an interrupted transaction"
            step = "Nothing: a run that installs the driver removes the old versions first."
            if stays:
                step = "On the node: `sudo dnf remove --duplicates`, then run again."
            found.append(problem("packages.twice", text, ", ".join(twice), step, stops=stays))
    if facts["packages"]:
        found += [problem(*row) for row in state_findings(facts["packages"], facts["lock_holder"])]
    if facts["lock_holder"]:
        text = "Another package manager is running; the roles wait for it for a few minutes"
        found.append(
            problem("packages.locked", text, str(facts["lock_holder"]), "Nothing, unless it hangs.", stops=False)
        )
    return found
