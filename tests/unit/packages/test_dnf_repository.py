"""A repository of dnf with its key in one step: as Ansible's own modules write them, and nothing before the key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.packages import dnf_repository
from ansible_collections.gpuwright.node.plugins.module_utils.packages.signing_key import key_fingerprints
from signing_keys import signing_key

VENDOR, OTHER = signing_key("vendor"), signing_key("other")
# Keeps what was imported, and tells it as rpm does.
RPM = """#!/bin/sh
case "$*" in
  *--import*) for last; do :; done; cat "$last" >> {0};;
  *) cat {0} 2>/dev/null;;
esac
"""
# As ansible.builtin.yum_repository has written it: its files of earlier versions stay as they are.
WRITTEN = """[vendor]
baseurl = https://mirror.example/x/
gpgcheck = 1
gpgkey = file://{key}
name = A vendor
repo_gpgcheck = 0
sslverify = 1

"""


@pytest.fixture
def configure(run_module: Callable[..., dict], fake_bin: Callable, tmp_path: Path) -> Callable[..., dict]:
    fake_bin("rpm", RPM.format(tmp_path / "imported"))
    (tmp_path / "repos").mkdir()
    (tmp_path / "sent").write_bytes(VENDOR.public)

    def run(check: bool = False, **changes: Any) -> dict:
        arguments = {
            "id": "vendor",
            "description": "A vendor",
            "baseurl": "https://mirror.example/x/",
            "key_url": f"file://{tmp_path}/sent",
            "fingerprint": VENDOR.fingerprint,
            "key_file": str(tmp_path / "key"),
            "gpgcheck": True,
            "repo_gpgcheck": False,
            "reposdir": str(tmp_path / "repos"),
        }
        return run_module("dnf_repository", {**arguments, **changes}, check=check)

    return run


def test_key_trust_and_file_in_one_step(configure: Callable[..., dict], tmp_path: Path) -> None:
    foretold = configure(check=True)
    assert foretold["changed"] and foretold["repository_changed"] and not (tmp_path / "key").exists()
    done = configure()
    assert done["changed"] and done["diff"] == foretold["diff"], done
    assert (tmp_path / "repos/vendor.repo").read_text() == WRITTEN.format(key=tmp_path / "key")
    assert key_fingerprints((tmp_path / "imported").read_bytes()) == [VENDOR.fingerprint]
    again = configure()
    assert (again["changed"], again["repository_changed"], again["diff"]) == (False, False, [])


@pytest.mark.parametrize("lost", ["key", "imported", "repos/vendor.repo"])
def test_what_is_lost_comes_back(configure: Callable[..., dict], tmp_path: Path, lost: str) -> None:
    configure()
    text = (tmp_path / lost).read_text()
    (tmp_path / lost).unlink()
    done = configure()
    assert done["changed"] and done["repository_changed"] is lost.endswith(".repo")
    assert (tmp_path / lost).read_text() == text


def test_no_repository_without_its_key(configure: Callable[..., dict], tmp_path: Path) -> None:
    (tmp_path / "sent").write_bytes(OTHER.public)
    answer = configure()
    assert answer["failed"] and "is not the pinned one alone" in answer["msg"]
    assert not (tmp_path / "repos/vendor.repo").exists() and not (tmp_path / "imported").exists()


def test_rpm_that_takes_no_key(configure: Callable[..., dict], fake_bin: Callable, tmp_path: Path) -> None:
    fake_bin("rpm", '#!/bin/sh\ncase "$*" in *--import*) echo "no room" >&2; exit 1;; esac\n')
    answer = configure()
    assert answer["failed"] and "no room" in answer["msg"] and "[repository.file]" in answer["msg"]
    assert not (tmp_path / "repos/vendor.repo").exists()


def test_a_login_is_for_root_alone(configure: Callable[..., dict], tmp_path: Path) -> None:
    file = tmp_path / "repos/vendor.repo"
    answer = configure(username="mirror", password="c4nary")
    assert (
        "c4nary" not in str(answer) and file.stat().st_mode & 0o777 == 0o600 and "password = c4nary" in file.read_text()
    )
    assert configure()["changed"] and file.stat().st_mode & 0o777 == 0o644 and "c4nary" not in file.read_text()


def test_check_mode_before_a_bundle_has_brought_the_key(configure: Callable[..., dict], tmp_path: Path) -> None:
    (tmp_path / "sent").unlink()
    answer = configure(check=True, key_wanted=False)
    assert answer["repository_changed"] and not answer.get("failed"), answer


def test_sections_and_comments_of_others_stay() -> None:
    before = "# by hand\n[vendor]\nname = V\n\n[vendor-source]\nname = S\nenabled = 0\n"
    assert dnf_repository.repository_text(before, "vendor", {"name": "V"}) == before
    after = dnf_repository.repository_text(before, "vendor", {"name": "W"})
    assert after == "[vendor-source]\nname = S\nenabled = 0\n\n[vendor]\nname = W\n\n"


def test_a_file_that_is_no_file_of_dnf() -> None:
    with pytest.raises(ValueError, match="no section headers"):
        dnf_repository.repository_text("name = V\n", "vendor", {"name": "V"})
