# SPDX-License-Identifier: Apache-2.0
"""Addresses with a login in them, `https://user:secret@mirror:8443/path/`: split, shown without it, and opened.

A login is never part of an address that is passed on, printed or written to a file; each program gets it in the way
provided for that. Only Basic authentication is supported, as in dnf, apt and pip.
"""

import re
import ssl
import urllib.parse
import urllib.request
from typing import Any, List, Mapping, NamedTuple, Optional

from ..host.written.told import without_secrets


class Address(NamedTuple):
    """An address without its login, and the decoded login; user is "" if there is none."""

    url: str
    user: str
    password: str


def split_login(url: str) -> Address:
    """`Address` of `url`; without an "@" before the path, the url is unchanged."""
    scheme, separator, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    login, at, place = authority.rpartition("@")
    if not separator or not at:
        return Address(url, "", "")
    user, _colon, password = login.partition(":")
    plain = scheme + separator + place + rest[len(authority) :]
    return Address(plain, urllib.parse.unquote(user), urllib.parse.unquote(password))


def without_login(text: str) -> str:
    """The text with every login in an address, and every other secret, replaced by ***: for messages."""
    return without_secrets(text)


def open_address(
    url: str,
    user: str = "",
    password: str = "",
    proxy: Optional[str] = None,
    timeout: float = 30,
    headers: Optional[Mapping[str, str]] = None,
    method: str = "GET",
) -> Any:
    """The answer of a server, as urllib gives it; raises OSError, http.client.HTTPException, ValueError as urllib does.

    url      a login in it is used if no user is given          proxy  None: the one in the environment, "": none
    timeout  s. The login is sent to this server only, wherever it redirects to
    """
    if not user:
        url, user, password = split_login(url)
    handlers: List[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler(None if proxy is None else {"http": proxy, "https": proxy} if proxy else {})
    ]
    handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context()))
    if user:
        parts = urllib.parse.urlsplit(url)
        known = urllib.request.HTTPPasswordMgrWithPriorAuth()
        known.add_password(None, f"{parts.scheme}://{parts.netloc}/", user, password, is_authenticated=True)
        handlers.append(urllib.request.HTTPBasicAuthHandler(known))
    request = urllib.request.Request(url, headers=dict(headers or {}), method=method)
    return urllib.request.build_opener(*handlers).open(request, timeout=timeout)
