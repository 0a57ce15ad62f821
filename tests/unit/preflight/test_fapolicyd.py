"""fapolicyd on a node: whether it would keep everybody but root from the environment, read from its own files."""

from __future__ import annotations

import pytest
from gpuwright.preflight.fapolicyd import fapolicyd_problems, is_allowed, read_fapolicyd
from host_tree import HostTree

# The shape of the shipped policy (rules.d of fapolicyd 1.3): what counts is the order.
SHIPPED = {
    "20-dracut": "allow perm=any uid=0 : dir=/var/tmp/\nallow perm=any uid=0 trust=1 : all\n",
    "30-patterns": "deny_audit perm=any pattern=ld_so : all\n",
    "41-shared-obj": "allow perm=open all : ftype=application/x-sharedlib trust=1\n"
    "deny_audit perm=open all : ftype=application/x-sharedlib\n",
    "90-deny-execute": "deny_audit perm=execute all : all\n",
    "95-allow-open": "allow perm=open all : all\n",
}
OURS = "allow perm=any all : dir=/opt/gpuwright/\n"


def node(tmp_path, rules: dict[str, str], permissive: str = "0", folder: bool = True) -> HostTree:
    host = HostTree(tmp_path)
    host.put("/etc/fapolicyd/fapolicyd.conf", f"# conf\npermissive = {permissive}\nnice_val = 14\n")
    if folder:
        for name, text in rules.items():
            host.put(f"/etc/fapolicyd/rules.d/{name}.rules", text)
    else:
        host.put("/etc/fapolicyd/fapolicyd.rules", "".join(rules.values()))
    return host


def asked(active: str, enabled: str):
    return lambda command: {"is-active": active, "is-enabled": enabled}[command[1]]


@pytest.mark.parametrize(
    ("states", "runs"),
    [
        (("active\n", "enabled\n"), True),
        (("active\n", "disabled\n"), True),
        (("inactive\n", "enabled\n"), True),
        (("activating\n", "disabled\n"), True),
        (("inactive\n", "disabled\n"), False),
        (("failed\n", "disabled\n"), False),
        ((None, None), False),
    ],
)
def test_it_counts_where_it_runs_now_or_after_a_reboot(tmp_path, states: tuple, runs: bool) -> None:
    host = node(tmp_path, SHIPPED)
    assert (read_fapolicyd(asked(*states), host.root) is not None) is runs


def test_without_it_nobody_is_asked(tmp_path) -> None:
    assert read_fapolicyd(lambda command: pytest.fail("asked"), HostTree(tmp_path).root) is None


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        (SHIPPED, False),
        ({**SHIPPED, "35-gpuwright": OURS}, True),
        ({**SHIPPED, "35-site": "allow perm=any all : dir=/opt/\n"}, True),
        ({**SHIPPED, "35-site": "allow perm=any trust=1 : dir=/opt/gpuwright/\n"}, True),
        ({**SHIPPED, "00-all": "allow perm=any all : all\n"}, True),
        ({**SHIPPED, "42-late": OURS}, False),
        ({**SHIPPED, "35-site": "# " + OURS}, False),
        ({**SHIPPED, "35-site": "allow perm=execute all : dir=/opt/gpuwright/\n"}, False),
        ({**SHIPPED, "35-site": "allow perm=any uid=0 : dir=/opt/gpuwright/\n"}, False),
        ({**SHIPPED, "35-site": "allow perm=any all : dir=/opt/other/\n"}, False),
        ({}, False),
    ],
)
def test_the_first_rule_that_decides_counts(tmp_path, rules: dict, allowed: bool) -> None:
    for number, folder in enumerate((True, False)):
        ordered = dict(sorted(rules.items()))
        host = node(tmp_path / str(number), ordered, folder=folder)
        state = read_fapolicyd(asked("active", "enabled"), host.root)
        assert state is not None and state["allowed"] is allowed
        assert [row["stops"] for row in fapolicyd_problems({"fapolicyd": state})] == [True] * (not allowed)


def test_what_it_asks_to_type_is_what_it_looks_for(tmp_path) -> None:
    state = read_fapolicyd(asked("active", "enabled"), node(tmp_path, SHIPPED).root)
    (row,) = fapolicyd_problems({"fapolicyd": state})
    assert "/etc/fapolicyd/rules.d/35-gpuwright.rules && fagenrules --load" in row["next"]
    typed = row["next"].split("printf '%s\\n' ")[1].split(" > ")[0]
    rules = [each for each in typed.split("'") if each.strip()]
    assert all(path in typed for path in ("/opt/gpuwright/", "/usr/local/lib/gpuwright/", "/usr/local/bin/gpu-run"))
    host = node(tmp_path / "after", {**SHIPPED, "35-gpuwright": "\n".join(rules) + "\n"})
    state = read_fapolicyd(asked("active", "enabled"), host.root)
    assert state is not None and state["allowed"]


def test_where_it_only_watches_or_a_list_of_trust_is_kept_it_is_a_remark(tmp_path) -> None:
    watching = read_fapolicyd(asked("active", "enabled"), node(tmp_path / "a", SHIPPED, "1").root)
    (row,) = fapolicyd_problems({"fapolicyd": watching})
    assert not row["stops"] and "permissive = 1" in row["evidence"]
    host = node(tmp_path / "b", SHIPPED)
    host.put("/etc/fapolicyd/trust.d/site", "/opt/gpuwright/venvs/abc/bin/train-gan 200 " + "0" * 64 + "\n")
    (row,) = fapolicyd_problems({"fapolicyd": read_fapolicyd(asked("active", "enabled"), host.root)})
    assert not row["stops"] and "fapolicyd-cli --file add /opt/gpuwright/" in row["next"]


def test_nothing_is_said_where_nothing_was_read() -> None:
    assert fapolicyd_problems({}) == fapolicyd_problems({"fapolicyd": None}) == []
    assert not is_allowed("")
