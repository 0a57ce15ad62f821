# SPDX-License-Identifier: Apache-2.0
"""Whether a node can reach the repositories that it will use; requested as dnf and get_url would request them."""

import configparser
import functools
import http.client
import platform
import re
import ssl
import threading
import time
import urllib.error
from typing import Any, Callable, Dict, List, Mapping, Match, Optional, Sequence

from ..host.files import exists, read_text
from .addresses import open_address, without_login
from .signing_key import refusal

# All addresses are requested at once; a name server that does not answer must not hold up the run.
ANSWER_SECONDS = 20
TRY_SECONDS = 8
TRIES = 2
# Limit of an answer; no vendor's key is as long.
START_BYTES = 65536
# A file that every repository has, and how it begins; flat ones in Debian's format, as NVIDIA's is.
METADATA = {"redhat": ("/repodata/repomd.xml", b"<repomd"), "debian": ("/InRelease", b"-----BEGIN PGP")}
KEY_FILES = {"redhat": "/etc/pki/rpm-gpg/RPM-GPG-KEY-{}", "debian": "/etc/apt/keyrings/{}.asc"}
DNF_CONF = "/etc/dnf/dnf.conf"
# Addresses that urllib cannot open are not checked.
PROXIES = ("http://", "https://")


def read_proxy(root: str, name: str) -> Any:
    """dnf's proxy for a repository: an address, "" for none, or None if the environment decides.

    The repository's own section takes precedence over [main]; the words for none are those of dnf.conf(5).
    """
    settings: Dict[str, str] = {}
    for path, section in ((DNF_CONF, "main"), (f"/etc/yum.repos.d/{name}.repo", name)):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(read_text(root, path) or "")
        except configparser.Error:
            # dnf itself will report what is wrong with its file.
            continue
        if parser.has_section(section):
            settings.update(parser[section])
    proxy = settings.get("proxy")
    if proxy is None or proxy in ("", "_none_"):
        return None if proxy is None else ""
    user, password = settings.get("proxy_username", ""), settings.get("proxy_password", "")
    scheme, separator, place = proxy.rpartition("://")
    login = f"{user}:{password}@" if user and "@" not in place else ""
    return (scheme or "http") + (separator or "://") + login + place


def expand(url: str, root: str, major: Any) -> str:
    """An address with dnf's variables filled in."""

    def value(match: Match[str]) -> str:
        name = match.group(1) or match.group(2)
        own = read_text(root, "/etc/dnf/vars/" + name) or read_text(root, "/etc/yum/vars/" + name)
        machine = platform.machine()
        known = {"basearch": machine, "arch": machine, "releasever": str(major)}
        return own.strip() if own else known.get(name, match.group())

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, url)


def unreachable(
    repositories: Sequence[Mapping[str, Any]],
    major: Any,
    root: str = "/",
    family: str = "redhat",
    passwords: Optional[Mapping[str, str]] = None,
) -> List[Dict[str, Any]]:
    """`[{name, variable, url, why, refused}]` for each address that does not answer as a repository or a key does.

    `refused` means that it has answered, but with something that is not accepted.

    repositories  `[{name, url, user, variable, key_url, key_user, key_variable, key_fingerprint}]`; the key is
                  requested if the node has none yet, and a user is sent with its password
    passwords     `{variable: password}` of the addresses' users
    """
    passwords = passwords or {}
    asked = []
    for row in repositories:
        metadata, mark = METADATA[family]
        url = expand(row["url"], root, major).rstrip("/") + metadata
        judge = functools.partial(why_no_metadata, mark)
        asked.append({"name": row["name"], "variable": row["variable"], "url": url, "judge": judge})
        asked[-1].update(proxy=read_proxy(root, row["name"]), user=row.get("user", ""))
        if not exists(root, KEY_FILES[family].format(row["name"])):
            # get_url, which fetches it, does not know dnf's proxy.
            key = {
                "name": row["name"],
                "variable": row["key_variable"],
                "url": row["key_url"],
                "judge": functools.partial(why_no_key, row.get("key_fingerprint", "")),
                "proxy": None,
                "user": row.get("key_user", ""),
            }
            asked.append(key)
    for row in asked:
        row["password"] = passwords.get(row["variable"], "")
    threads = [threading.Thread(target=_ask, args=(row,), daemon=True) for row in asked]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + ANSWER_SECONDS
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    late = f"no answer within {ANSWER_SECONDS} s"
    answers = [(row, row.get("why", late)) for row in asked]
    return [
        {
            "name": row["name"],
            "variable": row["variable"],
            "url": without_login(row["url"]),
            "why": why,
            "refused": bool(row.get("refused")),
        }
        for row, why in answers
        if why
    ]


def _ask(row: Any) -> Any:
    def judge(start: bytes) -> str:
        row["refused"] = row["judge"](start)
        return row["refused"]

    row["why"] = why_unreachable(row["url"], row["proxy"], judge, row["user"], row["password"])


def why_no_metadata(mark: Any, start: bytes) -> str:
    """One phrase; "" if the first bytes of an answer contain `mark`."""
    return "" if mark in start else "it answers, but with something other than the metadata of a repository"


def why_no_key(fingerprint: str, data: bytes) -> str:
    """One phrase; "" if the answer is only the pinned key, if nothing is pinned, or if keys cannot be read here."""
    try:
        return refusal(data, fingerprint) if fingerprint else ""
    except OSError:
        # The role installs GnuPG, and checks again before it keeps the key.
        return ""


def why_unreachable(
    url: str, proxy: Optional[str], judge: Callable[[bytes], str], user: str = "", password: str = ""
) -> str:
    """One phrase; "" if the address answers and `judge` has no objection to the answer's first bytes."""
    if proxy and not proxy.startswith(PROXIES):
        return ""
    why = ""
    for _attempt in range(TRIES):
        try:
            with open_address(url, user, password, proxy, TRY_SECONDS) as answer:
                start = answer.read(START_BYTES)
        except urllib.error.HTTPError as error:
            # The server has answered; it would give the same answer again.
            return f"HTTP {error.code} {error.reason}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = without_login(_phrase(error))
            continue
        return judge(start)
    return why


def _phrase(error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLError):
        return f"TLS: {reason}"
    return str(getattr(reason, "strerror", None) or reason) or type(error).__name__
