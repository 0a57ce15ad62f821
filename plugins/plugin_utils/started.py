# SPDX-License-Identifier: Apache-2.0
"""How the toolkit was started: from its checkout, or as an installed collection beside a site's own playbooks."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.commands import CHECKOUT, COLLECTION, as_started

ROOT = Path(__file__).resolve().parents[2]
# Links were resolved above: the checkout's own link below collections/ does not make it an installed collection.
INSTALLED = ROOT.parts[-3:] == ("ansible_collections", "gpuwright", "node")
STARTED_AS = COLLECTION if INSTALLED else CHECKOUT


def told(text: str) -> str:
    """The text with commands in the form in which this run of the toolkit was started."""
    return as_started(text, STARTED_AS)


def is_own_playbook(file: str) -> bool:
    """Whether this is a playbook of the toolkit, and not one of a site's own that uses its roles or callbacks."""
    return Path(file).resolve().is_relative_to(ROOT)


def report_folder() -> Path:
    """Where reports and logs go by default: beside site.yml, or where ansible-playbook was started.

    An installed collection may belong to another user, and is replaced as a whole when it is upgraded.
    """
    return (Path.cwd() if INSTALLED else ROOT) / "reports"


# Callbacks of this run. A checkout's are found both beside its playbooks, whatever ansible.cfg says, and by full name.
_callbacks: set[str] = set()
OWN_CONTINUATION = "a continuation of its own"


def first_callback(name: str) -> bool:
    """Whether no callback of this name was loaded before; a second one must stay silent."""
    known = name in _callbacks
    _callbacks.add(name)
    return not known


def callback_enabled(name: str) -> bool:
    """Whether this run has that callback: somebody else's ansible.cfg may not name it."""
    return name in _callbacks


def continues_otherwise() -> None:
    """This run says itself how it is continued, so the summary does not."""
    _callbacks.add(OWN_CONTINUATION)


def is_continued_otherwise() -> bool:
    return OWN_CONTINUATION in _callbacks
