# SPDX-License-Identifier: Apache-2.0
"""Repositories whose keys are not known, and addresses that do not answer as expected."""

from typing import Any, List, Mapping

from .problem import Problem, problem


def key_problems(facts: Mapping[str, Any]) -> List[Problem]:
    """Repositories whose key would be trusted whatever it is, since no fingerprint was given."""
    found = []
    for row in facts["unpinned"]:
        text = "The fingerprint of the key of the repository {name} is not known, and no key is trusted without one"
        step = (
            "Read it (`curl -s {key_url} | gpg --show-keys`), compare it with what the vendor says about the key, and "
            "set {variable}."
        )
        variable = row["key_variable"].replace("_key_url", "_key_fingerprint")
        seen = "{key_url}: {variable} is empty".format(key_url=row["key_url"], variable=variable)
        found.append(
            problem(
                "repository.key_unknown",
                text.format(**row),
                seen,
                step.format(key_url=row["key_url"], variable=variable),
            )
        )
    return found


# Where the package manager of each family reads its proxy.
PROXY = {"redhat": "proxy in /etc/dnf/dnf.conf", "debian": "Acquire::http::Proxy in /etc/apt/apt.conf.d"}


def repository_problems(facts: Mapping[str, Any], family: str) -> List[Problem]:
    """Addresses from which something will be installed, and which do not answer, or not as expected."""
    found = []
    for row in facts["unreachable"]:
        seen = "{url}: {why}".format(**row)
        is_key = row["variable"].endswith("_key_url")
        fault = "repository.unreachable"
        if is_key and row["refused"] and " instead of " in row["why"]:
            fault = "repository.key"
            text = "The key of the repository {name} is not the pinned one, and no other key is trusted"
            step = (
                "If the vendor has changed the key, check the new fingerprint with the vendor and set it in {pin}; "
                "otherwise correct {variable}."
            )
        elif is_key and row["refused"]:
            fault = "repository.key_file"
            text = "The key file of the repository {name} is refused: it must hold the pinned key and no other"
            step = (
                "Ask the administrator of that address where the file comes from; or put only the pinned key into a "
                "file that the node can fetch, and name its address in {variable}."
            )
        else:
            text = "The {part} {name} cannot be reached from this host"
            step = (
                "On the node: `curl -I {url}`. Fix the network path (DNS, firewall, {proxy}), or name your mirror in "
                "{variable}."
            )
        words = {
            "part": "key of the repository" if is_key else "repository",
            "proxy": "http_proxy and https_proxy of the node" if is_key else PROXY.get(family, PROXY["redhat"]),
            "pin": row["variable"].replace("_key_url", "_key_fingerprint"),
        }
        found.append(problem(fault, text.format(**dict(row, **words)), seen, step.format(**dict(row, **words))))
    return found
