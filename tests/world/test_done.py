"""The main job brings a bare host to PASS in two mixes of conditions, and a second run changes nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from conftest import World
from gpuwright_world.condition import Condition, as_root
from gpuwright_world.done import MIXES
from gpuwright_world.finished import FINDINGS, Finding
from gpuwright_world.job import Outcome, Shell, run_job, shell_for
from gpuwright_world.network import PASSWORD, QUOTED, requests_of

PAIRS = [pytest.param(mix, condition, id=f"{mix}-{condition.name}") for mix, own in MIXES.items() for condition in own]


class Mix:
    """One host under the conditions of a mix, and the run there."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.conditions = world, name, MIXES[name]
        world.bare(*self.conditions)
        self.shell: Shell = shell_for(self.conditions, world.tree, world.folder)
        self.first = self.run()
        self.second: Outcome | None = None

    def run(self, playbook: str = "site.yml") -> Outcome:
        return run_job(self.shell, self.world.inventory, self.conditions, self.world.words, playbook)


@pytest.fixture(scope="module")
def mixes(make_world: Callable[..., World]) -> Callable[[str], Mix]:
    """The mix of a name; its host lives until another's is asked for."""
    known: dict[str, Mix] = {}

    def find(name: str) -> Mix:
        if name not in known:
            known.clear()
            known[name] = Mix(make_world(f"world-{name}", name == "ipv6"), name)
        return known[name]

    return find


def short(outcome: Outcome) -> str:
    """The last lines before the recap say how it ended."""
    found = re.search(r"GPU nodes, worst first\)?:? *(.{0,200})", outcome.text)
    return f"rc {outcome.rc}, changed={outcome.changed}: {found.group(1) if found else outcome.text[-200:]}"


@pytest.mark.parametrize("name", MIXES)
def test_the_node_is_brought_to_pass_and_stays(
    mixes: Callable[[str], Mix], row: Callable[..., None], name: str
) -> None:
    mix = mixes(name)
    row(f"mix {name}: site.yml", "done", short(mix.first), mix.first.seconds)
    assert mix.first.rc == 0 and mix.first.changed > 0, mix.first.output
    second = mix.run()
    row(f"mix {name}: site.yml again", "done, changed=0", short(second), second.seconds)
    assert second.rc == 0 and second.changed == 0, second.output
    for secret in (PASSWORD, QUOTED):
        assert secret not in mix.first.output + second.output


@pytest.mark.parametrize(("name", "condition"), PAIRS)
def test_the_condition_held(
    mixes: Callable[[str], Mix], row: Callable[..., None], name: str, condition: Condition
) -> None:
    mix = mixes(name)
    said = []
    for script, call in ((condition.here, controller_says), (condition.seen, host_says)):
        if script:
            rc, text = call(mix, f"set -e\n{script}")
            said.append(text.strip().splitlines()[-1] if text.strip() else f"rc {rc}")
            row(condition.name, "done", ("PASS; " if mix.first.rc == 0 else "") + said[-1], 0)
            assert rc == 0, text
    assert said, "a condition that nobody looks at is none"
    assert mix.first.rc == 0, short(mix.first)


def controller_says(mix: Mix, script: str) -> tuple[int, str]:
    outcome = mix.shell.call(["sh", "-c", script], 60)
    return outcome.rc, outcome.output


def host_says(mix: Mix, script: str) -> tuple[int, str]:
    for name, value in mix.world.words.items():
        script = script.replace(f"@{name}@", value)
    return as_root(mix.world.container, script, check=False)


def test_all_came_through_the_proxy(mixes: Callable[[str], Mix], row: Callable[..., None]) -> None:
    mix = mixes("proxy")
    through, direct = requests_of(mix.world.fleet, "proxy"), requests_of(mix.world.fleet, "repo")
    served = [line for line in requests_of(mix.world.fleet, "mirror") if '" 200 ' in line]
    row("requests", "through the proxy alone", f"{len(through)} of the proxy, {len(served)} answered by the mirror", 0)
    assert through and served and len(served) <= len(through)
    assert [line for line in direct if not line.startswith(proxy_address(mix))] == []


def proxy_address(mix: Mix) -> str:
    return re.sub(r"^http://\[?|\]?:3128$", "", mix.world.words["PROXY"])


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.name)
def test_a_finished_node_says_what_is_wrong(
    mixes: Callable[[str], Mix], row: Callable[..., None], finding: Finding
) -> None:
    mix = mixes("ipv6")
    start = time.monotonic()
    rc, text = as_root(mix.world.container, finding.script, check=False)
    as_root(mix.world.container, finding.undo)
    outcome = Outcome(rc, text, time.monotonic() - start)
    row(finding.name, "named", outcome.sentence(finding.says[-2]) or outcome.text[-200:], outcome.seconds)
    assert rc != 0 and [words for words in finding.says if words not in outcome.text] == [], text


def test_an_account_of_somebody_else_is_left_alone(mixes: Callable[[str], Mix], row: Callable[..., None]) -> None:
    mix = mixes("ipv6")
    as_root(mix.world.container, "useradd --create-home --shell /bin/bash --comment 'Bob Example' bob")
    own = Condition(
        "an existing trainer account", variables={"system_training_user": "bob", "system_training_adopt_user": False}
    )
    conditions = [*mix.conditions, own]
    outcome = run_job(mix.shell, mix.world.inventory, conditions, mix.world.words, "playbooks/preflight.yml")
    words = "There is an account bob"
    row(own.name, "refused", outcome.sentence(words) or outcome.text[-200:], outcome.seconds)
    assert outcome.rc != 0 and outcome.changed == 0, outcome.output
    assert words in outcome.text and "system_training_adopt_user: true" in outcome.text
    assert as_root(mix.world.container, "getent passwd bob")[1].endswith("Bob Example:/home/bob:/bin/bash")
