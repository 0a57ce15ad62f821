# SPDX-License-Identifier: Apache-2.0
"""Accounts that training will use, checked before the driver is changed."""

from typing import Any, Callable, Dict, Iterable, List, Mapping

from .problem import (
    Problem,
    problem,
)

# The comment by which an account that the role system_training made is recognised.
COMMENT = "gpuwright trainer"


def read_accounts(ask: Callable[..., Any], names: Iterable[str]) -> Dict[str, Any]:
    """`{name: [name, password, uid, gid, comment, home, shell]}` of those that exist, locally or in a directory."""
    found = {}
    for name in names:
        fields = (ask(["getent", "passwd", name]) or "").strip().split(":")
        if len(fields) == 7:
            found[name] = fields
    return found


def account_problems(accounts: Mapping[str, Any], trainer: str, researchers: Any) -> List[Problem]:
    """Another account that has the training user's name; a remark for researchers whom the node does not know.

    A server that was installed anew has none of its people's accounts yet, and gets its GPUs back without them.


    trainer  user that will be made; "" if any account of that name will do, or this run makes none
    """
    found = []
    if trainer in accounts and accounts[trainer][4] != COMMENT:
        _name, _password, uid, _gid, comment, home, shell = accounts[trainer]
        step = (
            "Name another one in system_training_user, or set system_training_adopt_user: true to lock its password "
            "and remove its login shell."
        )
        seen = f"uid {uid}, {comment or 'no comment'}, {home}, {shell}"
        found.append(
            problem("account.taken", f"There is an account {trainer} that this toolkit did not create", seen, step)
        )
    unknown = sorted(set(researchers) - set(accounts))
    if unknown:
        text = f"system_training_researchers names {', '.join(unknown)}, without an account here: not let in yet"
        step = (
            f"Create what is missing (`sudo useradd {unknown[0]}`, or join your directory service), then run site.yml "
            "--tags system_training; or correct the name."
        )
        found.append(problem("account.unknown", text, f"getent passwd {' '.join(unknown)}", step, stops=False))
    return found
