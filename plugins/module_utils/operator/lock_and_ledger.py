# SPDX-License-Identifier: Apache-2.0
"""What a run does with the lock of a host: take it, open the ledger of what it changes, close both again."""

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional

from ansible.module_utils.basic import AnsibleModule

from .record import CLAIM, FOLDER, Answer, release, take


class NotKept(Exception):
    """Why the lock or the ledger cannot be kept, and what to do; nothing was changed."""


def unclaimed(claim: Mapping[str, Any]) -> str:
    """The first key of a claim that is missing or of another kind; "" if it is whole."""
    wrong = (
        name
        for name, kind in sorted(CLAIM.items())
        if not isinstance(claim.get(name), kind) or isinstance(claim.get(name), bool)
    )
    return next(wrong, "")


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """`NotKept` where the record cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise NotKept(
            f"The lock of one run at a time cannot be kept in {FOLDER}: {error}. Nothing was changed here. "
            "Make room there (df -h /run) or mend it, then run again [operator.folder]"
        )


def open_ledger(run: str, names: Optional[Iterable[str]] = None) -> bool:
    """With the lock, before anything changes; whether the first record was made. `NotKept`: the lock is free again.

    names  as for `ledger.begin`
    """
    # Loaded late, since gpu_verify first lets its training begin.
    from ..first_record import ledger

    try:
        return ledger.begin(run, names=names)
    except ledger.Newer as error:
        _release(run)
        raise NotKept(f"{error} [first_record.newer]")
    except ledger.Damaged as error:
        _release(run)
        raise NotKept(f"{error} [first_record.damaged]")
    except OSError as error:
        _release(run)
        raise NotKept(
            f"The state of this host before the first change cannot be recorded in {ledger.FOLDER}: {error}. "
            "Nothing was changed. Make room there (df -h /var/lib) or mend it, then run again [first_record.write]"
        )


def close_ledger(run: str) -> str:
    """What went wrong, "" if nothing: the run is over, and the next one takes up what this one left open."""
    from ..first_record import ledger

    try:
        ledger.end(run)
    except (ledger.Damaged, OSError) as error:
        return f"what this run changed was not noted down: {error}"
    return ""


@contextlib.contextmanager
def holding(module: AnsibleModule, claim: Optional[Dict[str, Any]]) -> Iterator[Callable[[Any], None]]:
    """Hold the host while a module works, without a claim just let it work; end the module if another run holds it.

    Yields what the module has to call before it changes anything, with what it has begun that changes nothing, or None:
    if the module ends there, it waits for the `answer` of that.
    """
    if not claim:
        yield lambda begun: None
        return
    wrong = unclaimed(claim)
    if wrong:
        module.fail_json(msg=f"claim: {wrong} is missing; the action plugin fills it in, where hold is set")
    run = claim["run"]

    def before_changes(begun: Any) -> None:
        try:
            open_ledger(run)
        except NotKept as error:
            if begun:
                begun.answer()
            module.fail_json(msg=str(error))

    try:
        with kept():
            answer = take(claim)
    except NotKept as error:
        module.fail_json(msg=str(error))
    if not answer.held:
        module.exit_json(changed=False, **shown(answer, ""))
    try:
        yield before_changes
    finally:
        problem = close_ledger(run)
        if problem:
            module.warn(problem)
        _release(run)


def shown(answer: Answer, run: str) -> Dict[str, Any]:
    """What a module answers with about the lock; `run` is the one that asked."""
    found = dict(answer._asdict(), run=run if answer.held else "")
    found["work"] = [dict(work._asdict()) for work in answer.work]
    return found


def _release(run: str) -> None:
    with contextlib.suppress(OSError):
        release(run)
