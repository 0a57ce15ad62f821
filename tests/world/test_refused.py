"""What must stop the main job stops it before anything is changed, in words that say what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import World
from gpuwright_world.condition import Refusal, as_root
from gpuwright_world.job import run_job, shell_for
from gpuwright_world.refused import REFUSALS


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    return make_world("world")


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.condition.name)
def test_it_is_refused(world: World, row: Callable[..., None], refusal: Refusal) -> None:
    condition = refusal.condition
    world.bare(condition)
    outcome = run_job(shell_for([condition], world.tree), world.inventory, [condition], world.words, refusal.playbook)
    said = "; ".join(filter(None, map(outcome.sentence, refusal.says)))
    row(condition.name, "refused", said or f"rc {outcome.rc}: {outcome.text[-200:]}", outcome.seconds)
    assert outcome.rc != 0, outcome.output
    assert [words for words in refusal.says if words not in outcome.text] == [], outcome.output
    assert outcome.changed == 0, outcome.output
    assert "/opt/gpuwright" not in as_root(world.container, "ls -d /opt/* /usr/local/lib/*", check=False)[1]


def test_the_host_without_a_condition_is_not_refused(world: World, row: Callable[..., None]) -> None:
    """Else each of the refusals above might be another's."""
    world.bare()
    outcome = run_job(shell_for([], world.tree), world.inventory, [], world.words, "playbooks/preflight.yml")
    row("none of them", "done", f"preflight, rc {outcome.rc}", outcome.seconds)
    assert outcome.rc == 0, outcome.output
