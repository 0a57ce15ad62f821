"""A bundle is made from questions, packages that a builder got, and wheels; made twice, it is the same."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import making, use
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.listing import LIST, BundleError, Listing
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.verified import verified
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.wanted import digest_of, group_of, identity
from made_bundle import NOW, Key, key

RELEASE = "rhel-8-x86_64"
WHEEL = "net-1.0-py3-none-any.whl"


def question(**other: Any) -> dict[str, Any]:
    """What a host with a V100 asks for."""
    plan = {
        "kernel": {"devel": ["kernel-devel-4.18.0-477.el8.x86_64"], "packages": ["gcc", "dkms"]},
        "driver": {"source": "nvidia", "branch": "580", "flavour": "proprietary", "version": "", "stream": "580-dkms",
                   "packages": ["kmod-nvidia-latest-dkms", "nvidia-driver-cuda"]},
        "platform": {"packages": []},
        "cuda": {"package": "cuda-toolkit-12-9", "compiler": []},
        "cudnn": {"packages": ["libcudnn9-cuda-12-9.10.2.21-1"], "wheel": ""},
        "nccl": {"packages": []},
        "python": {"version": "3.11", "packages": ["python3.11"]},
        "pytorch": {"version": "2.10.0", "build": "cu128"},
        "runtime": {"packages": ["jemalloc"]},
    }  # fmt: skip
    rows = [
        {"name": name, "url": f"https://{name}/", "key_url": f"https://{name}/key", "key_fingerprint": "A" * 40}
        for name in ("epel", "cuda-rhel8-x86_64")
    ]
    return {
        "os": {"id": "rhel", "version": "8.8", "major": 8, "family": "redhat", "name": "RHEL 8.8"},
        "machine": "x86_64", "plan": plan, "environment": "abc", "python": "3.11", "lock": "", "cudnn_lock": "",
        "own_wheels": [], "index_url": "", "extra_index_url": "", "packages": [], "containers": False,
        "repositories": rows, **other,
    }  # fmt: skip


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return key(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> making.Places:
    """A connected machine: pip's folder of wheels, and what a builder has fetched."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / WHEEL).write_bytes(b"net")
    monkeypatch.setattr(making, "configuration", lambda: {"no-index": "true", "find-links": str(shelf)})
    found = making.Places(tmp_path / "bundle")
    for name in ("baseos", "epel", "nvidia"):
        folder = found.bundle / "targets" / RELEASE / name
        (folder / "repodata").mkdir(parents=True)
        (folder / "repodata/repomd.xml").write_text("<repomd/>")
    return found


def lock() -> str:
    return f"net==1.0 \\\n    --hash=sha256:{hashlib.sha256(b'net').hexdigest()}\n"


def built(places: making.Places) -> None:
    folder = f"targets/{RELEASE}"
    rows = [
        {"id": name, "folder": f"{folder}/{name}", "key": "", "signed": True} for name in ("baseos", "epel", "nvidia")
    ]
    places.targets.mkdir(parents=True, exist_ok=True)
    (places.targets / f"{RELEASE}.json").write_text(json.dumps({"folder": folder, "repositories": rows}))


def make(places: making.Places, operator: Key, said: list[str], now: datetime.datetime = NOW) -> bool:
    hosts = making.get_wheels(places, making.read_questions(places), said.append, dry=False)
    return making.finished(places, hosts, operator.path, 90, now)


def test_a_bundle_is_made_once_and_found_by_its_plan(places: making.Places, operator: Key, tmp_path: Path) -> None:
    said: list[str] = []
    assert making.write_question(places, "a5-01", question(lock=lock()))
    assert not making.write_question(places, "a5-01", question(lock=lock()))
    built(places)
    assert make(places, operator, said) and said == ["a5-01: 1 wheels to download, 0 MiB"]
    # The second run has nothing to download, and signs nothing.
    assert not make(places, operator, said, NOW + datetime.timedelta(days=1)) and len(said) == 1
    # One that is half as old as it may become is signed anew.
    assert make(places, operator, said, NOW + datetime.timedelta(days=46))

    now = NOW + datetime.timedelta(days=46)
    listing = use.listing_of(places.bundle, operator.fingerprint, now, tmp_path / "cache")
    entry = use.entry_for(listing, "another-name", question(lock=lock()))
    part = use.part_of(listing, entry, places.bundle)
    assert f"wheels/{WHEEL}" in part["files"] and [row["id"] for row in part["repositories"]] == ["baseos"]
    variables = use.variables_of(listing, entry)
    assert variables["system_kernel_epel_url"] == f"file://{use.ON_NODE}/targets/{RELEASE}/epel"
    assert variables["system_driver_repository_key_url"].endswith("/keys/nvidia.asc")
    assert variables["framework_pytorch_wheelhouse"] == f"{use.ON_NODE}/wheels"


def test_what_differs_from_the_plan_is_named(places: making.Places, operator: Key) -> None:
    making.write_question(places, "a5-01", question())
    built(places)
    make(places, operator, [])
    listing = verified(places.bundle, operator.fingerprint, NOW)
    other = question()
    other["plan"]["driver"]["branch"] = "570"
    for asked, seen in (
        (other, "driver: the bundle has nvidia 580 proprietary, the plan asks for nvidia 570 proprietary"),
        (question(environment="def"), "Python environment: the bundle has abc, the plan asks for def"),
        (question(os={**question()["os"], "major": 9}), "release: the bundle has rhel-8-x86_64"),
    ):
        with pytest.raises(BundleError, match=r"\[bundle.plan\]") as caught:
            use.entry_for(listing, "a5-01", asked)
        assert seen in str(caught.value)


def test_what_no_bundle_is_made_for(places: making.Places) -> None:
    debian = {**question()["os"], "family": "debian", "name": "Debian 12"}
    for asked, fault in ((question(os=debian), "bundle.system"), (question(containers=True), "bundle.containers")):
        with pytest.raises(BundleError, match=rf"\[{fault}\]"):
            making.write_question(places, "a5-01", asked)


def test_each_thing_that_is_missing_is_named(places: making.Places, operator: Key) -> None:
    with pytest.raises(BundleError, match=r"\[bundle.question\]"):
        making.read_questions(places)
    making.write_question(places, "a5-01", question())
    with pytest.raises(BundleError, match=r"bundle_builders \[bundle.builder\]"):
        make(places, operator, [])
    (places.plans / "a5-02.json").write_text("{")
    with pytest.raises(BundleError, match=r"a5-02.json.*\[bundle.question\]"):
        making.read_questions(places)


def test_a_full_disk_is_named_before_anything_is_downloaded(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"MiB to download, .*\[bundle.space\]"):
        making.check_room(tmp_path, 10**18)


def test_a_key_that_cannot_sign_leaves_no_bundle(places: making.Places, tmp_path: Path) -> None:
    making.write_question(places, "a5-01", question())
    built(places)
    with pytest.raises(BundleError, match=r"\[bundle.key\]"):
        make(places, Key(tmp_path / "none", ""), [])
    assert not (places.bundle / LIST).exists()


def test_a_wheel_that_no_plan_needs_any_more_goes(places: making.Places, operator: Key) -> None:
    making.write_question(places, "a5-01", question(lock=lock()))
    built(places)
    make(places, operator, [])
    making.write_question(places, "a5-01", question())
    assert make(places, operator, [])
    assert not list((places.bundle / "wheels").iterdir())
    verified(places.bundle, operator.fingerprint, NOW)


def test_what_was_read_once_is_not_read_again_and_a_change_is_found(
    places: making.Places, operator: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making.write_question(places, "a5-01", question(lock=lock()))
    built(places)
    make(places, operator, [])
    cache, read = tmp_path / "cache", list[Path]()
    whole = use.verified

    def counted(folder: Path, fingerprint: str, now: datetime.datetime) -> Listing:
        read.append(folder)
        return whole(folder, fingerprint, now)

    monkeypatch.setattr(use, "verified", counted)
    for _run in range(2):
        use.listing_of(places.bundle, operator.fingerprint, NOW, cache)
    assert len(read) == 1
    (places.bundle / f"wheels/{WHEEL}").write_bytes(b"nex")
    with pytest.raises(BundleError, match=r"\[bundle.altered\]"):
        use.listing_of(places.bundle, operator.fingerprint, NOW, cache)


def test_the_identity_is_that_of_the_plan_and_not_of_what_the_node_has() -> None:
    bare, finished = question(), question()
    finished["plan"]["driver"]["present"] = True
    assert digest_of(identity(bare)) == digest_of(identity(finished))
    group = group_of(bare)
    assert group["modules"] == ["nvidia-driver:580-dkms"]
    assert {"gcc", "nvidia-driver-cuda-580.*-*", "kernel-devel-4.18.0-477.el8.x86_64"} <= set(group["packages"])


def test_a_folder_with_somebodys_files_is_never_emptied(tmp_path: Path) -> None:
    """bundle_folder: /srv, where the operator keeps images."""
    places = making.Places(tmp_path / "srv")
    theirs = places.bundle / "images/mine.tar"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("a year of work")
    for dry in (True, False):
        with pytest.raises(BundleError, match=r"not that of a bundle.*images.*bundle.folder"):
            making.claim(places, dry)
    assert theirs.exists() and not places.work.exists()


def test_a_folder_that_was_begun_is_gone_on_with_but_on_this_machine_alone(tmp_path: Path) -> None:
    places = making.Places(tmp_path / "bundle")
    making.claim(places, dry=True)
    assert not places.bundle.exists() and not places.work.exists()
    making.claim(places, dry=False)
    (places.bundle / "wheels").mkdir()
    (places.bundle / "wheels/half.whl").write_text("x")
    making.claim(places, dry=False)
    # The work folder is carried to another machine, on which the folder of that name is another one.
    places.bundle.rename(tmp_path / "elsewhere")
    (places.bundle / "theirs").mkdir(parents=True)
    with pytest.raises(BundleError, match=r"theirs.*bundle.folder"):
        making.claim(places, dry=False)
    places.bundle.joinpath(LIST).write_text("{}")
    making.claim(places, dry=False)
