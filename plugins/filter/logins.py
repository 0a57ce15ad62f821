# SPDX-License-Identifier: Apache-2.0
"""Addresses with a login in them: the part that may be shown, and the parts that programs look for elsewhere."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.packages import addresses as _addresses


def address_of(url: str) -> str:
    """The address alone; every program gets this one."""
    return _addresses.split_login(str(url)).url


def login_user(url: str) -> str:
    """The user of the login, decoded; "" if there is none."""
    return _addresses.split_login(str(url)).user


def login_password(url: str) -> str:
    """The password of the login, decoded; "" if there is none."""
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
