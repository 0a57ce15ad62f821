# SPDX-License-Identifier: Apache-2.0
"""Take the lock of a host for this run, wait for processes that a dead run left working, or say who holds it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpuwright.node.plugins.plugin_utils import operator_run as runs
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import facts_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.role_options import value_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.left_out import left_out_message
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.rules import wrong_takeover

ASK_AGAIN_S = 3.0
DAMAGED = "damaged"
BREAK = "-e gpuwright_lock=break"
# Options that have their default in the role operator_lock alone, under its name.
OF_THE_ROLE = ("wait_minutes", "quiet_minutes")
display = Display()


class Step(NamedTuple):
    """What to do about an answer: `replace` that record, `wait` for the processes that the text names, or refuse.

    judged_s  of a record that is replaced because its run was not heard of: when it was, by the host's uptime
    """

    replace: str = ""
    wait: str = ""
    refusal: str = ""
    next: str = ""
    judged_s: float | None = None


def work_words(work: list[dict[str, Any]]) -> str:
    """For example "dnf (4711), cc1 (4799) and 3 more"."""
    named = ", ".join(f"{one['command']} ({one['pid']})" for one in work[:4])
    return named + (f" and {len(work) - 4} more" if len(work) > 4 else "")


def minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes"


def judge(answer: dict[str, Any], takeover: bool, quiet_limit_s: float, again: str) -> Step:
    """Decide what to do when the module's answer did not give the lock.

    takeover       the operator wants the lock whoever holds it
    quiet_limit_s  seconds without a sign of life after which a run of another controller counts as dead
    again          the command that runs this again
    """
    holder, work = answer["holder"], answer["work"]
    if holder:
        return _about_holder(holder, work, answer["quiet_s"], takeover, quiet_limit_s, again)
    if work:
        return Step(wait=f"{work_words(work)} of a run that has ended are still working on this host")
    if not answer["damaged"]:
        # It was released just now.
        return Step(replace=" ")
    if takeover or answer["quiet_s"] >= quiet_limit_s:
        return Step(replace=DAMAGED)
    return Step(
        refusal=f"The lock of this host is held, but it is not known by whom: {answer['damaged']}.",
        next=f"ask who else works on it, then: {again} {BREAK}",
    )


def _about_holder(
    holder: dict[str, Any], work: list, quiet_s: float, takeover: bool, quiet_limit_s: float, again: str
) -> Step:
    words, state = runs.holder_words(holder), runs.state_of(holder)
    quiet = state == runs.UNKNOWN and not work and quiet_s >= quiet_limit_s
    if state in (runs.LIVES, runs.UNKNOWN) and not takeover and not quiet:
        reason = f"This host is being changed by {words}."
        if state == runs.UNKNOWN:
            reason += (
                f" It is not known whether that run is still alive: {runs.why_unknown(holder)}; it last responded "
                f"{minutes(quiet_s)} ago, and it is considered dead after {minutes(quiet_limit_s)}"
            )
            reason += f", and {work_words(work)} of it are working here." if work else "."
        step = f"wait until it has ended, then: {again}"
        return Step(refusal=reason, next=f"{step} (or, if it should not continue, stop it and add {BREAK})")
    if work:
        # With the run's id, the module ends those of them that only wait for somebody to listen.
        over = holder["run"] if state == runs.GONE else ""
        return Step(wait=f"{work_words(work)} of the run of {words} are still working on this host", replace=over)
    if state == runs.LEFTOVER:
        pids = ", ".join(map(str, runs.leftover_pids(holder))) or "of another user"
        return Step(
            wait=f"the run of {words} was killed, and workers of it are still alive on this controller (process {pids})"
        )
    return Step(replace=holder["run"], judged_s=holder.get("seen_s") if quiet and not takeover else None)


class ActionModule(ActionBase):
    """`operator_lock:` of a task; the module of the same name keeps the record on the host."""

    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("state", "takeover", "wait_minutes", "quiet_minutes"))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(
            {
                "state": {"type": "str", "choices": ["taken", "seen", "released"], "default": "taken"},
                "takeover": {"type": "str", "default": ""},
                **dict.fromkeys(OF_THE_ROLE, {"type": "float"}),
            }
        )
        task_vars = task_vars or {}
        host = task_vars["inventory_hostname"]
        if wrong := wrong_takeover(options["takeover"]):
            raise AnsibleActionFail(wrong)
        claim = runs.own_claim(host)
        again = f"ansible-playbook {claim['playbook']} -l {host}"
        answer = self._ask(claim, options["state"], Step(), task_vars)
        if options["state"] == "taken" and not self._task.check_mode:
            options.update(self._limits(options, task_vars))
            answer = self._insist(answer, claim, options, again, task_vars)
        elif options["state"] != "released":
            self._tell(answer, host)
        elif answer.get("noted"):
            display.warning(f"{host}: {answer['noted']}")
        known = {"gpu_node_lock": {name: answer.get(name) or "" for name in ("run", "holder")}}
        facts = {**answer.pop("ansible_facts", {}), **known}
        if answer.get("refusal"):
            # This task itself leaves the host out: another one for that would take a process on every host.
            told = {"kind": "locked", "reason": f"{answer['refusal']} [operator.busy]", "next": answer["next"]}
            facts["gpu_node_left_out"] = told
            answer = {"failed": True, "msg": left_out_message(host, told)}
        return {**result, **answer, "ansible_facts": facts}

    def _limits(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, float]:
        """The minutes of OF_THE_ROLE: those of the task, else the role's for this host."""
        given = {name: options[name] for name in OF_THE_ROLE if options[name] is not None}
        own = (name for name in OF_THE_ROLE if name not in given)
        return {**given, **{n: float(value_of(f"operator_lock_{n}", task_vars, self._templar)) for n in own}}

    def _ask(self, claim: dict[str, Any], state: str, step: Step, task_vars: dict[str, Any]) -> dict[str, Any]:
        arguments = {"state": state, "claim": claim, "replaces": step.replace.strip(), "judged_s": step.judged_s}
        if names := (facts_of(task_vars).get("gpu_node_settled") or {}).get("names"):
            arguments["names"] = names
        return self._execute_module("gpuwright.node.operator_lock", arguments, task_vars=task_vars)

    def _insist(
        self, answer: dict[str, Any], claim: dict[str, Any], options: dict[str, Any], again: str, task_vars: dict
    ) -> dict[str, Any]:
        """Ask again until the lock is given or refused."""
        host, said = task_vars["inventory_hostname"], ""
        deadline = time.monotonic() + options["wait_minutes"] * 60
        while "held" in answer and not answer["held"]:
            step = judge(answer, options["takeover"] == "break", options["quiet_minutes"] * 60, again)
            if step.wait and time.monotonic() >= deadline:
                refusal = f"Waited {options['wait_minutes']:g} minutes, and {step.wait}."
                return {**answer, "refusal": refusal, "next": f"let them finish or stop them there, then: {again}"}
            if step.refusal:
                return {**answer, "refusal": step.refusal, "next": step.next}
            if step.wait:
                if step.wait != said:
                    display.display(f"  {host}: {step.wait}; waiting for them to end")
                said = step.wait
                time.sleep(ASK_AGAIN_S)
                # What was at work on the host may have ended meanwhile, and nobody takes its answer.
                runs.end_unheard()
            if step.replace == DAMAGED:
                display.warning(f"{host}: {answer['damaged']}. It is set aside, and who held the lock is not known.")
            answer = self._ask(claim, "taken", step, task_vars)
        if answer.get("held") and answer.get("before"):
            how = "lock taken over from" if options["takeover"] else "the last run ended without releasing it:"
            display.display(f"  {host}: {how} {runs.holder_words(answer['before'])}")
        return answer

    def _tell(self, answer: dict[str, Any], host: str) -> None:
        """In check mode, and if a play only reads, another run stops nobody."""
        holder = answer.get("holder")
        if holder and runs.state_of(holder) != runs.GONE:
            display.warning(
                f"{host} is being changed by {runs.holder_words(holder)}; what is read meanwhile may change, and a run "
                "that changes something leaves this host out until that run has ended."
            )
        elif answer.get("damaged"):
            display.warning(f"{host}: it is not known whether another run is changing this host: {answer['damaged']}")
