# SPDX-License-Identifier: Apache-2.0
"""A repository's key that is kept on the node: fetched once, and the pinned one alone."""

from typing import Any, List, NamedTuple, Optional, Tuple

from .signing_key import MOST_BYTES, pinned_key, refusal


class Source(NamedTuple):
    """Where the key comes from, without a login, and which one it must be."""

    url: str
    user: str
    password: str
    fingerprint: str
    timeout: float


class KeyRefused(Exception):
    """Nothing is trusted; the message says why and how to look."""


def read_key(path: str) -> Optional[bytes]:
    """The file's bytes, None if there is no file."""
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None


def kept_key(there: Optional[bytes], source: Source) -> Tuple[str, List[str]]:
    """The text that the file must have, and fingerprints of other keys that were in it; KeyRefused.

    Fetched only if it is not there.
    """
    try:
        try:
            return pinned_key(there or b"", source.fingerprint)
        except ValueError:
            return pinned_key(_fetched(source), source.fingerprint)
    except OSError as error:
        raise KeyRefused(f"The key of {source.url} cannot be read: {error} [repository.key_unreadable]") from None


def _fetched(source: Source) -> Any:
    """The pinned key alone from the address, as bytes."""
    # Only here: who just reads a key that is there is not to wait for what a network needs.
    import http.client

    from .addresses import open_address, without_login

    try:
        with open_address(source.url, source.user, source.password, timeout=source.timeout) as answer:
            data = answer.read(MOST_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = without_login(str(getattr(error, "reason", error)))
        raise KeyRefused(
            f"{source.url} cannot be fetched: {reason}. Look on the node with `curl -I {source.url}`. "
            "[repository.unreachable]"
        ) from None
    why = refusal(data, source.fingerprint)
    if why:
        raise KeyRefused(
            f"The key at {source.url} is not the pinned one alone: {why}. Nothing was trusted and nothing was changed. "
            "[repository.key]"
        )
    return data
