# SPDX-License-Identifier: Apache-2.0
"""Addresses with a login in them, `https://user:secret@mirror:8443/path/`: taken apart, shown, and asked.

A login is never part of an address that is passed on, printed or written to a file; it goes the way that each program
has for it. Only Basic authentication is spoken, as dnf, apt and pip do.
"""

import re
import ssl
import urllib.parse
import urllib.request
from typing import List, NamedTuple

# A login whose password holds an unencoded "/" or "?" reaches beyond what is formally the host.
RAW_LOGIN = re.compile(r"://[^\s/@:]*:(?!\d*(?:/|$))\S*@")
LOGIN = re.compile(r"://[^\s/?#]*@")


class Address(NamedTuple):
    """An address without its login, and the login decoded; user is "" where there is none."""

    url: str
    user: str
    password: str


def split_login(url):
    """`Address` of `url`; without "@" before the path it is the url as it was."""
    scheme, separator, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    login, at, place = authority.rpartition("@")
    if not separator or not at:
        return Address(url, "", "")
    user, _colon, password = login.partition(":")
    plain = scheme + separator + place + rest[len(authority) :]
    return Address(plain, urllib.parse.unquote(user), urllib.parse.unquote(password))


def without_login(text):
    """The text with every login in an address replaced by ***: for messages."""
    return RAW_LOGIN.sub("://***@", LOGIN.sub("://***@", text))


def open_address(url, user="", password="", proxy=None, timeout=30):
    """The answer of a server, as urllib gives it; raises OSError, http.client.HTTPException, ValueError as urllib does.

    url      a login in it is used where no user is given          proxy  None: what the environment names, "": none
    timeout  s. The login is sent to this server alone, wherever it redirects to
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
    return urllib.request.build_opener(*handlers).open(url, timeout=timeout)
