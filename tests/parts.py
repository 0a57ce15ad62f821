"""What `.ci/run` adds to `make test`: the slower tests in parts of about ten minutes, of which the commit chooses two.

A commit always has the same ones, and a few commits together have had all.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cores.releases_of_core import RELEASES

# Seconds from the start of `.ci/run` to its end: where everything is downloaded and built, and where nothing is.
MOST_WARM, MOST_COLD = 30 * 60, 60 * 60
# How many a commit chooses.
AT_ONCE = 2


@dataclass(frozen=True)
class Part:
    """One kind of tests/kinds.py.

    seconds    it takes on 2 cores that nobody else uses, with everything downloaded
    first      seconds more where nothing is: downloads, containers' images, environments
    megabytes  of those downloads, besides what `make test` needs
    """

    kind: str
    title: str
    seconds: int
    first: int = 0
    megabytes: int = 0


def core(minor: str, first: int = 60, megabytes: int = 15) -> Part:
    return Part(f"core-{minor}", f"the collection under ansible-core {RELEASES[minor]}", 600, first, megabytes)


# Neighbours run together: a long one beside a short one. A part more or less changes which ones a commit has.
PARTS = (
    Part("hardened", "every variable changed, on a hardened EL 8", 420),
    core("2.16"),
    Part("archives", "what apt would install of Debian's archives today", 100),
    Part("el9", "EL 9, from bare to verified and once more", 240),
    core("2.17"),
    Part("el10", "EL 10, from bare to verified and once more", 240, 240, 3106),
    Part("debian13", "Debian 13, from bare to verified and once more", 400, 300, 3270),
    Part("ubuntu", "Ubuntu 24.04, from bare to verified and once more", 400, 300, 3106),
    core("2.18"),
    Part("page", "the fleet's page in a browser", 120, 180, 300),
    Part("plays-fleet", "plays over several hosts: rollouts, drains, the words of a run", 350),
    core("2.19"),
    Part("interruptions", "three interrupted runs, each repaired by a plain one", 300),
    Part("guards", "each guard taken out, and its test failing", 130),
    Part("tensorflow", "TensorFlow beside PyTorch on Debian 12, from bare to verified, which uses it", 330, 120, 1170),
    Part("trainer-long", "what the trainer compiles, traces and trains for long", 130),
    Part("deep", "mutants of the checks, damaged answers and state files, every card", 430),
    core("2.20", 200, 140),
    Part("plays-node", "plays and programs of one host: repositories, environments, locks, gates", 330),
    core("2.21", 200, 140),
    Part("digits", "the default model on 1,797 digits, as its pictures are drawn", 540, 30, 9),
)
# Files of tests/unit that mostly run whole playbooks, pip or slow programs: 4 to 80 processor seconds each, together
# more than half of what all of tests/unit take. So they are parts; `make plays-fleet plays-node` runs them on any
# commit.
PLAYS = {
    "plays-fleet": (
        "rollout/test_rollout_runs.py",
        "rollout/test_upgrade_runs.py",
        "schedulers/test_drain_role.py",
        "rollout/test_patch_runs.py",
        "playbooks/test_left_out.py",
        "drift/test_drift_runs.py",
        "accept/test_accept_playbook.py",
        "playbooks/test_screen_callback.py",
        "playbooks/test_summary_callback.py",
        "kickstart/test_kickstart_playbook.py",
        "playbooks/test_gpu_nodes_lookup.py",
        "playbooks/test_any_folder.py",
        "playbooks/test_scan_playbook.py",
        "playbooks/test_mixed_hosts.py",
        "playbooks/test_newer_controller.py",
        "page/test_report_playbook.py",
        "playbooks/test_platform_tasks.py",
        "playbooks/test_bad_inventory.py",
        "rollout/test_patch_kernels.py",
        "playbooks/test_fact_cache.py",
        "playbooks/test_nothing_done.py",
        "software/test_advisories_playbook.py",
        "docs/test_readme_output.py",
    ),
    "plays-node": (
        "roles/test_system_repository.py",
        "training/test_environment_switch.py",
        "operator/test_operator_lock.py",
        "plan/test_matrix_refresh.py",
        "roles/test_busy_layers.py",
        "training/test_environment_modes.py",
        "doctor/test_acceptance_gate.py",
        "training/test_package_lock.py",
        "training/test_environment_damage.py",
        "checks/waivers/test_acknowledge.py",
        "schedulers/test_drains.py",
        "roles/test_system_busy.py",
        "training/test_trainer_wheel.py",
        "packages/test_one_transaction.py",
        "roles/test_check_mode_reboot.py",
        "roles/test_xid_overrides_role.py",
        "roles/test_training_account.py",
        "roles/test_reboot_host_key.py",
        "bundle/test_bundle_action.py",
        "roles/test_after_reboot.py",
        "checks/gpu/test_kept_plan.py",
        "gpu_evidence/test_gpu_evidence_run.py",
        "gpu_evidence/test_gpu_evidence_supervise.py",
        "bundle/test_bundle_carried.py",
    ),
}


@dataclass(frozen=True)
class Turn:
    """What is done with a part: `run`, or left out with the reason."""

    part: Part
    run: bool
    why: str


def chosen(commit: str, parts: Sequence[Part] = PARTS) -> list[Part]:
    """The parts of a commit: neighbours in the ring, the first one is the remainder of the id by their number.

    A tree without a commit, as an archive, has the first ones.
    """
    start = int(commit or "0", 16) * AT_ONCE % len(parts)
    return [parts[(start + step) % len(parts)] for step in range(min(AT_ONCE, len(parts)))]


def turns(commit: str, spent: float, have_run: set[str], parts: Sequence[Part] = PARTS) -> list[Turn]:
    """Which of the commit's parts are run after `spent` seconds.

    have_run  kinds that were run on this machine before: what these need is there, and the shorter limit holds
    """
    found = []
    for part in chosen(commit, parts):
        cold = part.kind not in have_run
        needs = part.seconds + (part.first if cold else 0)
        most = MOST_COLD if cold else MOST_WARM
        fits = spent + needs <= most
        found.append(Turn(part, fits, f"about {needs} s after {spent:.0f} s, of {most} s at most"))
        spent += needs if fits else 0
    return found


def line(turn: Turn, commit: str) -> str:
    """One line for the screen: the part, whether it is run, what it costs, and how it is run on any commit."""
    who = f"commit {commit[:12]} chooses it" if commit else "no commit is here that could choose another"
    cost = f"{turn.why}; {turn.part.megabytes} MB at first" if turn.part.megabytes else turn.why
    done = "" if turn.run else "LEFT OUT: "
    return f"{done}{turn.part.title}: {who} ({cost}). On any commit: make {turn.part.kind}"


def commit_of(repository: Path) -> str:
    """The id of the commit that is checked out; empty where there is none, as in an archive without history."""
    command = ["git", "-C", str(repository), "rev-parse", "--quiet", "--verify", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


class HaveRun:
    """Kinds that were run on this machine with this cache, as files of a folder in it."""

    def __init__(self, cache: Path) -> None:
        self.folder = cache / "have-run"

    def __call__(self) -> set[str]:
        return {file.name for file in self.folder.iterdir()} if self.folder.is_dir() else set()

    def add(self, kind: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / kind).touch()
