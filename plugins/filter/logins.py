# SPDX-License-Identifier: Apache-2.0
"""Addresses with a login in them: what may be shown, and what goes where a program looks for it."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.packages import addresses as _addresses


def address_of(url: str) -> str:
    """The address alone; every program gets this one."""
    return _addresses.split_login(str(url)).url


def login_user(url: str) -> str:
    """The user of the login, decoded; "" where there is none."""
    return _addresses.split_login(str(url)).user


def login_password(url: str) -> str:
    """The password of the login, decoded; "" where there is none."""
    return _addresses.split_login(str(url)).password


class FilterModule:
    """Filters of the role preflight, with which every play begins."""

    def filters(self) -> dict[str, Any]:
        return {
            "address_of": address_of,
            "login_user": login_user,
            "login_password": login_password,
            "masked_logins": _addresses.without_login,
        }
