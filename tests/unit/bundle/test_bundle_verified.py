"""A bundle that is not whole, not signed by the operator, or too old is one clear error, whatever was done to it."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import listing as lists
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.signature import sign
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.verified import verified
from made_bundle import DAYS, FILES, NOW, TARGET, Key, bundle, key, listing, write_list

TORCH, DKMS = "wheels/torch-2.10.0-cp312.whl", f"{TARGET}/epel/dkms-3.0-1.el8.noarch.rpm"


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return key(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return key(tmp_path_factory.mktemp("keys"), "stranger")


@pytest.fixture
def made(tmp_path: Path, operator: Key) -> Path:
    folder = tmp_path / "bundle"
    folder.mkdir()
    return bundle(folder, operator)


def refused(folder: Path, by: Key, now: datetime.datetime = NOW) -> dict[str, Any]:
    with pytest.raises(lists.BundleError) as caught:
        verified(folder, by.fingerprint, now)
    row: dict[str, Any] = caught.value.row
    assert row["problem"] and row["next"] and row["stops"]
    assert "\n" not in row["problem"] + row["next"]
    return row


def test_a_whole_bundle_is_what_was_signed(made: Path, operator: Key) -> None:
    found = verified(made, operator.fingerprint, NOW)
    assert set(found.files) == set(FILES)
    assert found == lists.read_listing(lists.text_of(found).encode())
    assert found.hosts["a5-01"]["target"] in found.targets


def truncated(folder: Path) -> None:
    os.truncate(folder / TORCH, 100)


def one_byte(folder: Path) -> None:
    with (folder / DKMS).open("r+b") as file:
        file.seek(7)
        file.write(b"X")


def swapped(folder: Path) -> None:
    first, second = folder / TORCH, folder / DKMS
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def missing(folder: Path) -> None:
    (folder / TORCH).unlink()


def extra(folder: Path) -> None:
    (folder / TARGET / "epel/evil.rpm").write_bytes(b"evil")


def link_outside(folder: Path) -> None:
    (folder / TORCH).unlink()
    (folder / TORCH).symlink_to("/etc/hostname")


def link_to_the_same_bytes(folder: Path) -> None:
    """Between the check and the use it could lead elsewhere."""
    (folder / TORCH).rename(folder.parent / "torch.whl")
    (folder / TORCH).symlink_to(folder.parent / "torch.whl")


def folder_as_a_link(folder: Path) -> None:
    (folder / "wheels").rename(folder.parent / "wheels")
    (folder / "wheels").symlink_to(folder.parent / "wheels")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "wheels/pipe")


def list_altered(folder: Path) -> None:
    text = (folder / lists.LIST).read_text()
    (folder / lists.LIST).write_text(text.replace("torch-2.10.0", "torch-2.10.1"))


def signature_cut(folder: Path) -> None:
    text = (folder / lists.SIGNATURE).read_text().splitlines()
    (folder / lists.SIGNATURE).write_text("\n".join([text[0], text[1][:12], text[-1]]) + "\n")


def signature_empty(folder: Path) -> None:
    (folder / lists.SIGNATURE).write_text("")


def signature_missing(folder: Path) -> None:
    (folder / lists.SIGNATURE).unlink()


def list_is_a_link(folder: Path) -> None:
    (folder / lists.LIST).rename(folder.parent / "elsewhere.json")
    (folder / lists.LIST).symlink_to(folder.parent / "elsewhere.json")


def no_bundle(folder: Path) -> None:
    shutil.rmtree(folder)


DAMAGES: dict[Callable[[Path], None], tuple[str, str]] = {
    truncated: ("bundle.altered", "100 bytes instead of"),
    one_byte: ("bundle.altered", "SHA-256"),
    swapped: ("bundle.altered", TORCH),
    missing: ("bundle.incomplete", TORCH),
    extra: ("bundle.extra", "evil.rpm: not in the list"),
    link_outside: ("bundle.extra", "link"),
    link_to_the_same_bytes: ("bundle.extra", "link"),
    folder_as_a_link: ("bundle.incomplete", TORCH),
    pipe: ("bundle.extra", "neither a file nor a folder"),
    list_altered: ("bundle.signature", ""),
    signature_cut: ("bundle.signature", ""),
    signature_empty: ("bundle.signature", ""),
    signature_missing: ("bundle.missing", lists.SIGNATURE),
    list_is_a_link: ("bundle.extra", lists.LIST),
    no_bundle: ("bundle.missing", lists.LIST),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_each_damage_is_one_clear_error(made: Path, operator: Key, damage: Callable[[Path], None]) -> None:
    damage(made)
    row = refused(made, operator)
    fault, seen = DAMAGES[damage]
    assert row["id"] == fault and seen in f"{row['problem']} {row['evidence']}", row


def test_every_file_may_lose_any_byte(made: Path, operator: Key) -> None:
    """A stream of damages: each file, at its begin, middle and end."""
    for path in FILES:
        whole = (made / path).read_bytes()
        for at in {0, len(whole) // 2, len(whole) - 1}:
            (made / path).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert path in refused(made, operator)["evidence"]
        (made / path).write_bytes(whole)
    verified(made, operator.fingerprint, NOW)


def test_a_key_that_is_in_the_bundle_alone_is_not_trusted(made: Path, operator: Key, stranger: Key) -> None:
    """All of it is made anew by somebody else, whose public key lies in it, too."""
    shutil.copy(f"{stranger.path}.pub", made / "keys.pub")
    write_list(made, lists.text_of(listing(made)).encode(), stranger)
    row = refused(made, operator)
    assert row["id"] == "bundle.signer"
    assert stranger.fingerprint in row["evidence"] and operator.fingerprint in row["evidence"]
    verified(made, stranger.fingerprint, NOW)


def test_a_key_of_the_right_fingerprint_under_a_signature_of_another(made: Path, operator: Key, stranger: Key) -> None:
    """The operator's public key is no secret: who puts it into his own signature signs nothing."""
    data = (made / lists.LIST).read_bytes().replace(b"torch-2.10.0", b"torch-2.10.1")
    mine, theirs = sign(data, stranger.path), sign(b"something else", operator.path)
    (made / lists.LIST).write_bytes(data)
    (made / lists.SIGNATURE).write_bytes(theirs)
    assert refused(made, operator)["id"] == "bundle.signature"
    (made / lists.SIGNATURE).write_bytes(mine)
    assert refused(made, operator)["id"] == "bundle.signer"


def test_a_signature_for_another_purpose_is_none(made: Path, operator: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key signs commits of git, too."""
    from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import signature

    data = (made / lists.LIST).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(signature, "NAMESPACE", "git")
        (made / lists.SIGNATURE).write_bytes(sign(data, operator.path))
    assert refused(made, operator)["id"] == "bundle.signature"


@pytest.mark.parametrize("fingerprint", ["", "SHA256:", "MD5:00:11", "SHA256:" + "A" * 42, "ssh-ed25519 AAAA"])
def test_without_a_fingerprint_nothing_is_trusted(made: Path, fingerprint: str) -> None:
    assert refused(made, Key(Path(), fingerprint))["id"] == "bundle.signer_unknown"


def test_dates(made: Path, operator: Key) -> None:
    assert refused(made, operator, NOW + DAYS)["id"] == "bundle.expired"
    assert refused(made, operator, NOW - datetime.timedelta(days=2))["id"] == "bundle.clock"
    verified(made, operator.fingerprint, NOW + DAYS - datetime.timedelta(seconds=1))


def changed(folder: Path, **parts: Any) -> bytes:
    return json.dumps({**json.loads((folder / lists.LIST).read_text()), **parts}).encode()


SIZE = {"size": 1, "sha256": "0" * 64}
# What is added to a list that is good without it, and what is said of it.
ODD_FILES = {
    "leaves the bundle": (
        "../evil", "/etc/passwd", "a/../../b", "a//b", "", ".", "a/.", "..", ".hidden", "a/.b", "a\\b", "a\nb", "a b",
        "a\x00b", "~/../b/", "bundle.json", "bundle.json.sig",
    ),
    "has no size or no SHA-256": (
        {"size": -1, "sha256": "0" * 64}, {"size": True, "sha256": "0" * 64}, {"size": 1.5, "sha256": "0" * 64},
        {"size": 1, "sha256": "0" * 63}, {"size": 1, "sha256": "0" * 65}, {"size": 1, "sha256": "A" * 64},
    ),
    "Error": ({}, {"size": 1}, {"size": 1, "sha256": 7}, 7, None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("odd", "words"), [pytest.param(odd, words, id=repr(odd)) for words, found in ODD_FILES.items() for odd in found]
)
def test_a_signed_list_is_read_strictly(made: Path, operator: Key, odd: Any, words: str) -> None:
    """Who has the key by mistake or by theft still writes nothing outside of the bundle's folder."""
    good = json.loads((made / lists.LIST).read_text())["files"]
    more = {odd: SIZE} if isinstance(odd, str) else {"more": odd}
    write_list(made, changed(made, files={**good, **more}), operator)
    row = refused(made, operator)
    assert row["id"] == "bundle.list" and words in row["evidence"]


def test_only_what_is_odd_is_refused_in_a_list(made: Path, operator: Key) -> None:
    """So that the test above fails for its own reason alone."""
    for path in ("more", "a/b-1.0~rc1+x_y@z.whl", "a/[b](c),d=e%f^g:h!.rpm"):
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_bytes(b"x")
        write_list(made, lists.text_of(listing(made)).encode(), operator)
        assert path in verified(made, operator.fingerprint, NOW).files


@pytest.mark.parametrize("files", [[], None, "text"])
def test_files_that_are_no_table(made: Path, operator: Key, files: Any) -> None:
    write_list(made, changed(made, files=files), operator)
    assert refused(made, operator)["id"] == "bundle.list"


@pytest.mark.parametrize(
    "other", [{"target": "rhel-9"}, {"wheels": ["wheels/none.whl"]}, {"digest": ""}, {"digest": "0" * 65}]
)
def test_a_host_that_disagrees(made: Path, operator: Key, other: dict[str, Any]) -> None:
    hosts = json.loads((made / lists.LIST).read_text())["hosts"]
    write_list(made, changed(made, hosts={"a5-01": {**hosts["a5-01"], **other}}), operator)
    row = refused(made, operator)
    assert row["id"] == "bundle.list" and "the host a5-01 names" in row["evidence"]


@pytest.mark.parametrize(
    ("folder", "repositories", "words"),
    [
        ("../x", [], "the folder of"),
        ("/x", [], "the folder of"),
        (7, [], "the folder of"),
        (TARGET, ["../x"], "is not in the bundle"),
        (TARGET, [f"{TARGET}/none"], "is not in the bundle"),
        # A number makes a path of a file, but is none.
        (TARGET, [7], "is not in the bundle"),
    ],
)
def test_a_target_that_disagrees(
    made: Path, operator: Key, folder: object, repositories: list[object], words: str
) -> None:
    target = {"folder": folder, "repositories": [{"id": "x", "folder": each} for each in repositories]}
    files = {**json.loads((made / lists.LIST).read_text())["files"], "7/repodata/repomd.xml": SIZE}
    write_list(made, changed(made, files=files, targets={"rhel-8-x86_64": target}), operator)
    row = refused(made, operator)
    assert row["id"] == "bundle.list" and words in row["evidence"]


def test_a_list_without_end_is_none(made: Path, operator: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import verified as module

    monkeypatch.setattr(module, "MOST_BYTES", (made / lists.LIST).stat().st_size - 1)
    row = refused(made, operator)
    assert row["id"] == "bundle.list" and "too long" in row["problem"]


def test_a_list_that_is_a_link_is_not_opened(made: Path, operator: Key) -> None:
    """Hosts after the first read the list alone."""
    from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.verified import signed_listing

    signed_listing(made, operator.fingerprint)
    list_is_a_link(made)
    with pytest.raises(lists.BundleError, match=r"is no file.*\[bundle.extra\]"):
        signed_listing(made, operator.fingerprint)


def test_a_link_that_comes_after_the_look_is_not_followed(made: Path, operator: Key) -> None:
    from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.verified import why_not

    entry = listing(made).files[TORCH]
    assert why_not(made / TORCH, entry) == ""
    link_to_the_same_bytes(made)
    assert why_not(made / TORCH, entry).startswith("cannot be read")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"null", b'{"format": 1}', b"\xff\xfe", b"[" * 100_000])
def test_a_list_that_is_none(made: Path, operator: Key, data: bytes) -> None:
    write_list(made, data, operator)
    assert refused(made, operator)["id"] in ("bundle.list", "bundle.format")


def test_a_format_of_a_later_release_says_so(made: Path, operator: Key) -> None:
    write_list(made, changed(made, format=2), operator)
    row = refused(made, operator)
    assert row["id"] == "bundle.format" and "collection/" in row["next"]


def test_a_key_that_cannot_sign_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(lists.BundleError, match=r"\[bundle.key\]"):
        sign(b"data", tmp_path / "none")
