"""Hosts whose minor release or kernel is not that of the others are named, and stop nothing."""

from __future__ import annotations

import pytest
from ansible_collections.gpuwright.node.plugins.filter import preflight_remarks as releases

KERNELS = {
    "8.8": "4.18.0-477.10.1.el8_8.x86_64",
    "8.9": "4.18.0-513.5.1.el8_9.x86_64",
    "8.10": "4.18.0-553.el8_10.x86_64",
}


def host(name: str, version: str, kernel: str = "", os_id: str = "rhel", family: str = "redhat") -> dict:
    system = {"id": os_id, "version": version, "major": int(version.split(".")[0]), "family": family}
    node = {"os": system, "kernel": {"running": kernel or KERNELS.get(version, "6.1.0-50-amd64")}}
    return {"inventory_hostname": name, "ansible_facts": {"gpu_node": node}}


def said(*hosts: dict) -> list[tuple[str, str]]:
    rows = releases.release_remarks(hosts)
    assert not any(row["stops"] for row in rows)
    return [(row["host"], row["problem"]) for row in rows]


def test_hosts_alike_say_nothing() -> None:
    assert said(host("a", "8.10"), host("b", "8.10")) == []
    assert said(host("a", "8.9")) == []
    assert said() == said({"inventory_hostname": "away"}) == []
    assert said(host("a", "8.8"), host("b", "12", os_id="debian", family="debian")) == []


def test_the_host_that_is_not_like_most_is_named() -> None:
    rows = said(host("a", "8.9"), host("b", "8.9"), host("c", "8.10"))
    assert [name for name, _text in rows] == ["c"]
    assert "Release 8.10 here, 8.9 on a, b" in rows[0][1]
    # Of two the newer release is where the fleet goes: 8.10 comes after 8.9.
    remarks = releases.release_remarks([host("a", "8.9"), host("b", "8.10")])
    assert [row["host"] for row in remarks] == ["a"]
    assert "subscription-manager release --set=8.10" in remarks[0]["next"] and KERNELS["8.9"] in remarks[0]["evidence"]
    (rocky,) = releases.release_remarks([host("a", "8.9", os_id="rocky"), host("b", "8.10", os_id="rocky")])
    assert "/etc/dnf/vars/releasever" in rocky["next"]


def test_kernels_of_one_release() -> None:
    other = "4.18.0-553.22.1.el8_10.x86_64"
    rows = said(host("a", "8.10"), host("b", "8.10", other), host("c", "8.10", other))
    assert len(rows) == 1 and rows[0][0] == "a" and f"Kernel {KERNELS['8.10']} here, {other} on b, c" in rows[0][1]
    many = said(*[host(f"n{number}", "8.10", other) for number in range(9)], host("z", "8.10"))
    assert many == [("z", many[0][1])] and "n0, n1, n2 and 6 more" in many[0][1]


@pytest.mark.parametrize(
    ("version", "kernel", "words"),
    [
        ("8.10", KERNELS["8.9"], "from release 8.9, but the system is 8.10"),
        ("8.10", KERNELS["8.10"], ""),
        ("8.6", "4.18.0-372.9.1.el8.x86_64", ""),
        ("12", "6.1.0-50-amd64", ""),
    ],
)
def test_an_update_that_is_half_done(version: str, kernel: str, words: str) -> None:
    rows = said(host("a", version, kernel))
    assert len(rows) == bool(words)
    assert all(words in text and "unfinished" in text for _name, text in rows)


@pytest.mark.parametrize("asked", [True, False])
def test_remarks_on_a_host_alone_come_first_and_those_on_releases_only_where_asked(asked: bool) -> None:
    row = {"problem": "somebody works there", "evidence": "", "next": "", "stops": False}
    other = host("a", "8.9")
    other["ansible_facts"]["gpu_node_preflight"] = {"rows": [row, {**row, "stops": True}]}
    rows = releases.preflight_remarks(iter([other, host("b", "8.10")]), asked)
    assert [one["problem"][:20] for one in rows] == ["somebody works there", "Release 8.9 here, 8."][: 1 + asked]
