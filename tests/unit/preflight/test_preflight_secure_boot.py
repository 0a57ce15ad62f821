"""What preflight says of Secure Boot, before a driver is touched or a node is rebooted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_preflight import MATRIX, found, host, key, plan

HASH = "$6$0123456789abcdef$" + "x" * 86
ON = {"secure_boot": "enabled"}
PREPARE: dict[str, Any] = {"prepare_secure_boot": True, "secure_boot_password_hash": HASH}
SIGNED = {"kernel": "4.18.0-477.el8.x86_64", "signer": "Somebody", "trusted": False, "because": ""}


def rows(state: str, because: str = "", **asked: Any) -> list[dict[str, Any]]:
    return found(host(**ON, module_key=key(state, because)), **asked)


@pytest.mark.parametrize("state", ["none", "not_enrolled"])
def test_the_stop_names_the_option_and_no_file_that_is_not_there(state):
    """DKMS makes its key in the first build, and this stop comes before DKMS is there."""
    (row,) = rows(state)
    assert row["stops"] is True and "Secure Boot is on" in row["problem"] and "Nothing was removed" in row["problem"]
    assert "system_kernel_prepare_secure_boot: true" in row["next"] and "openssl passwd -6" in row["next"]
    assert "mokutil --import" not in row["next"]


@pytest.mark.parametrize(
    ("state", "because", "words", "step"),
    [
        ("none", "", "DKMS has no signing key yet", "system_kernel_prepare_secure_boot"),
        ("staged", "", "waits for its confirmation", "Enroll MOK"),
        ("blocked", "", "revoked", "rm /var/lib/dkms/mok.pub"),
        ("unknown", "MokListRT cannot be read", "it is not known", "efivars"),
    ],
)
def test_each_state_has_its_words_and_its_step(state, because, words, step):
    (row,) = rows(state, because)
    assert words in row["problem"] and step in row["next"] and row["stops"] is True
    assert because in row["evidence"]


def test_what_the_run_will_prepare_is_a_remark():
    for state in ("none", "staged", "not_enrolled"):
        (row,) = rows(state, **PREPARE)
        assert row["stops"] is False and "waiting for the console" in row["problem"]


@pytest.mark.parametrize("state", ["blocked", "unknown"])
def test_what_no_key_can_help_stops_the_option_too(state):
    (row,) = rows(state, "x" if state == "unknown" else "", **PREPARE)
    assert row["stops"] is True


@pytest.mark.parametrize("text", ["", "secret", "$y$j9T$abc$def", "$6$short$hash", "$1$salt$" + "x" * 22])
def test_a_hash_of_another_form_stops_before_anything_changes(text):
    (row,) = rows("none", prepare_secure_boot=True, secure_boot_password_hash=text)
    assert row["stops"] is True and "openssl passwd -6" in row["problem"]
    assert not text or text not in json.dumps(row).replace("$6$SALT$HASH", "")


def test_a_hash_from_a_block_of_yaml_may_end_with_a_new_line():
    (row,) = rows("none", prepare_secure_boot=True, secure_boot_password_hash=HASH + "\n")
    assert row["stops"] is False


def test_a_key_that_is_enrolled_needs_nothing():
    assert rows("enrolled") == []
    assert rows("enrolled", prepare_secure_boot=True) == []


def test_unknown_stops_and_says_what_could_not_be_read():
    node = host(secure_boot="unknown", secure_boot_because="efivarfs is not mounted", module_key=key("enrolled"))
    (row,) = found(node)
    assert row["stops"] is True and "It is not known whether Secure Boot is on" in row["problem"]
    assert row["evidence"] == "efivarfs is not mounted" and "mount -t efivarfs" in row["next"]
    assert found(node, plan(present=True)) == [], "a driver that is loaded was accepted"


@pytest.mark.parametrize("state", ["disabled", "unsupported"])
def test_where_any_module_is_taken_there_is_nothing_to_say(state):
    assert found(host(secure_boot=state, module_key=key("not_enrolled"))) == []


@pytest.mark.parametrize(
    ("signer", "words"), [("Somebody", "signed by Somebody, whose key is not"), ("", "not signed")]
)
def test_a_module_that_the_next_boot_refuses_is_told_before_it(signer, words):
    node = host(**ON, module_key=key("enrolled"), module_signature={**SIGNED, "signer": signer})
    (row,) = found(node, plan(present=True))
    assert words in row["problem"] and row["stops"] is True and "Do not reboot" in row["next"]
    for trusted in (True, None):
        node["module_signature"]["trusted"] = trusted
        assert found(node, plan(present=True)) == []


def test_the_module_never_shows_the_hash(run_module):
    node = host(**ON)
    arguments = {
        "host": node,
        "plan": plan(),
        "space": MATRIX["space"],
        "space_percent": 0,
        "prepare_secure_boot": True,
    }
    for text, stops in ((HASH, False), ("a password in clear", True)):
        answer = run_module(
            "preflight_checks", json.loads(json.dumps({**arguments, "secure_boot_password_hash": text}))
        )
        row = next(row for row in answer["problems"] if "Secure Boot" in row["problem"])
        assert row["stops"] is stops and text not in json.dumps(answer)
