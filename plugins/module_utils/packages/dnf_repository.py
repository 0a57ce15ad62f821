# SPDX-License-Identifier: Apache-2.0
"""dnf's file of a repository, as ansible.builtin.yum_repository writes it, and the keys that rpm trusts."""

import configparser
import io
from typing import Callable, Collection, Dict, Sequence

from ..host.bounded import Finished, run_bounded
from .signing_key import key_fingerprints

RPM_SECONDS = 60


def repository_text(before: str, name: str, settings: Dict[str, str], gone: Sequence[str] = ()) -> str:
    """The file's text in which the section `name` has exactly these settings; others stay, but for those of `gone`.

    Where nothing differs it is the text as it was, with its comments. Raises ValueError for a file that is no INI file.
    """
    parser = _parsed(before)
    if parser.has_section(name) and dict(parser.items(name)) == settings and not gone:
        return before
    for section in (name, *gone):
        parser.remove_section(section)
    parser.add_section(name)
    for key, value in sorted(settings.items()):
        parser.set(name, key, value)
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()


def _parsed(text: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error).replace("\n", " ")) from None
    return parser


def is_trusted(fingerprint: str, run: Callable[..., Finished] = run_bounded) -> bool:
    """Whether rpm has this key imported; OSError if rpm or GnuPG does not answer."""
    done = run(["rpm", "-q", "--qf", "%{DESCRIPTION}\\n", "gpg-pubkey"], RPM_SECONDS)
    if done.rc is None:
        raise OSError(f"rpm cannot say which keys it trusts: {done.problem}")
    return done.rc == 0 and _plain(fingerprint) in _fingerprints(done.stdout, run)


def _fingerprints(text: str, run: Callable[..., Finished]) -> Collection[str]:
    return key_fingerprints(text.encode(), run) if "BEGIN PGP" in text else []


def _plain(fingerprint: str) -> str:
    return fingerprint.replace(" ", "").upper()


def trust(file: str, run: Callable[..., Finished] = run_bounded) -> None:
    """Import the key in this file; OSError."""
    command: Sequence[str] = ["rpm", "--import", file]
    done = run(command, RPM_SECONDS)
    if done.rc != 0:
        why = done.problem or done.stderr.strip()[-300:] or f"exit status {done.rc}"
        raise OSError(f"rpm does not take the key {file}: {why}")
