"""The first record is made once, whole and before the first change; the ledger tells our changes from others'."""

from __future__ import annotations

import stat
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from gpuwright.first_record import ledger
from gpuwright.first_record.ledger import LEDGER, RECORD, Damaged, begin, end
from gpuwright.first_record.look import look as real_look
from provisioned_node import EDITOR, OURS, PACKAGES, Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_it_is_made_once_whole_and_for_root_alone(node: Node) -> None:
    node.write(EDITOR, "before")
    assert node.begin("run-1")
    file = node.root / RECORD[1:]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and len(list(file.parent.iterdir())) == 2
    first = file.read_bytes()
    record = node.record()
    assert record["packages"] == PACKAGES and record["late"] == [] and record["family"] == "redhat"
    words = record["files"][EDITOR].split()
    assert words[:2] == ["file", "0644"] and zlib.decompress(b64decode(record["contents"][words[3]])) == b"before"
    node.write(EDITOR, "after")
    assert not node.begin("run-1"), "the second play of the same run"
    node.end("run-1")
    assert not node.begin("run-2") and file.read_bytes() == first


def test_accounts_are_recorded_without_passwords_and_shadow_not_at_all(node: Node) -> None:
    node.write("/etc/shadow", "root:$6$secret:1::::::\n")
    node.begin("run-1")
    text = (node.root / RECORD[1:]).read_text()
    assert (
        "secret" not in text and "shadow" not in text and node.record()["users"] == {"root": "0:0:root:/root:/bin/bash"}
    )


def test_what_changes_during_a_run_is_the_toolkits_and_what_changes_between_runs_is_not(node: Node) -> None:
    node.begin("run-1")
    node.write(OURS, "nvidia_uvm")
    node.install(**{"nvidia-driver.x86_64": "3:580.1-1"})
    node.end("run-1")
    node.write(EDITOR, "an administrator's")
    node.install(**{"htop.x86_64": "0:3-1"})
    node.begin("run-2")
    node.end("run-2")
    assert set(node.ours("files")) == {OURS} and set(node.ours("packages")) == {"nvidia-driver.x86_64"}
    assert set(node.ledger()["foreign"]) == {f"files {EDITOR}"}


def test_what_somebody_changed_before_a_run_rewrites_it_is_known(node: Node) -> None:
    """Its content of the first record is not what was lost: the administrator's is."""
    daemon = "/etc/docker/daemon.json"
    node.write(daemon, "{}")
    node.begin("run-1")
    node.end("run-1")
    node.write(daemon, '{"registry": 1}')
    node.begin("run-2")
    node.write(daemon, '{"registry": 1, "runtime": 2}')
    node.end("run-2")
    assert f"files {daemon}" in node.ledger()["foreign"] and node.ours("files")[daemon][1] is False


def test_an_edit_of_a_file_of_ours_is_forgotten_once_a_run_has_rewritten_it(node: Node) -> None:
    node.begin("run-1")
    node.write(OURS, "nvidia_uvm")
    node.end("run-1")
    left = node.ours("files")[OURS]
    node.write(OURS, "edited")
    node.begin("run-2")
    assert f"files {OURS}" in node.ledger()["foreign"]
    node.write(OURS, "nvidia_uvm")
    node.end("run-2")
    assert node.ledger()["foreign"] == {} and node.ours("files")[OURS] == left


def test_a_package_that_somebody_has_removed_is_not_ours_any_more(node: Node) -> None:
    node.begin("run-1")
    node.install(**{"jemalloc.x86_64": "0:5-1"})
    node.end("run-1")
    del node.packages["jemalloc.x86_64"]
    node.install()
    node.begin("run-2")
    node.end("run-2")
    assert node.ours("packages") == {}


def test_of_a_killed_run_only_what_the_toolkit_makes_is_its_own(node: Node) -> None:
    node.begin("run-1")
    node.write(OURS, "nvidia_uvm")
    node.write("/etc/yum.repos.d/epel.repo", "[epel]")
    node.install(**{"dkms.noarch": "0:3-1"})
    # It is killed here; somebody works on the node, and then it is run again.
    node.write(EDITOR, "an administrator's")
    node.install(**{"htop.x86_64": "0:3-1"})
    node.write(
        "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\ndkms:x:998:998::/:/bin/false\nalice:x:1001:1001::/:/bin/sh\n"
    )
    node.begin("run-2", by_hand=("htop.x86_64",))
    node.end("run-2")
    assert {OURS, "/etc/yum.repos.d/epel.repo"} <= set(node.ours("files")) and EDITOR not in node.ours("files")
    assert set(node.ours("packages")) == {"dkms.noarch"} and set(node.ours("users")) == {"dkms"}


def test_a_node_that_was_provisioned_before_says_so_and_knows_what_only_the_toolkit_makes(node: Node) -> None:
    node.write(OURS, "nvidia_uvm")
    node.write("/etc/gpuwright/plan.json", "{}")
    node.write("/etc/docker/daemon.json", "{}")
    comment = "trainer:x:990:990:gpuwright trainer:/var/lib/gpuwright-trainer:/sbin/nologin\n"
    node.write("/etc/passwd", f"root:x:0:0:root:/root:/bin/bash\n{comment}")
    node.begin("run-1")
    node.end("run-1")
    record = node.record()
    assert record["late"] == ["/etc/gpuwright"]
    assert OURS not in record["files"] and "/etc/docker/daemon.json" in record["files"]
    assert {OURS, "/etc/gpuwright/plan.json"} <= set(node.ours("files")) and set(node.ours("users")) == {"trainer"}


def test_packages_are_listed_again_only_after_a_transaction(node: Node) -> None:
    asked = []

    def look(family: str, root: str, known: Any = None) -> dict[str, Any]:
        return real_look(family, root, known, lambda family: asked.append(family) or dict(node.packages))  # type: ignore[func-returns-value]

    for run in ("run-1", "run-2", "run-3"):
        begin(run, str(node.root), look)
        end(run, str(node.root), look)
    assert len(asked) == 1
    node.install(**{"dkms.noarch": "0:3-1"})
    begin("run-4", str(node.root), look)
    assert len(asked) == 2


def test_a_damaged_record_stops_the_run_and_is_left_as_it_is(node: Node) -> None:
    node.begin("run-1")
    node.end("run-1")
    file = node.root / LEDGER[1:]
    file.write_text('{"schema": 1')
    with pytest.raises(
        Damaged, match=r"changes.json, from which .* is damaged: .*Nothing was changed.*move the record"
    ):
        node.begin("run-2")
    assert file.read_text() == '{"schema": 1'
    file.unlink()
    with pytest.raises(Damaged, match="it is missing"):
        node.begin("run-2")


def test_a_record_that_cannot_be_written_leaves_none(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledger, "write_whole", full)
    with pytest.raises(OSError, match="No space"):
        node.begin("run-1")
    assert not list((node.root / "var/lib/gpuwright").iterdir())
    monkeypatch.undo()
    assert node.begin("run-1") and node.record()["late"] == []


def test_a_run_whose_record_is_gone_at_its_end_notes_nothing_down(node: Node) -> None:
    """As after an uninstallation, which removes it last."""
    node.begin("run-1")
    (node.root / RECORD[1:]).unlink()
    (node.root / LEDGER[1:]).unlink()
    node.end("run-1")
    assert not (node.root / LEDGER[1:]).exists()


def test_a_record_that_was_begun_and_not_finished_is_made_anew_and_is_not_late(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ledger.write_whole

    def cut(path: str, *arguments: Any) -> None:
        if path.endswith(RECORD):
            raise OSError(5, "the power is cut")
        whole(path, *arguments)

    monkeypatch.setattr(ledger, "write_whole", cut)
    with pytest.raises(OSError, match="power"):
        node.begin("run-1")
    monkeypatch.undo()
    assert node.begin("run-2") and node.record()["late"] == [] and node.ledger()["run"] == "run-2"


@pytest.mark.parametrize("path", [LEDGER, RECORD])
def test_a_record_of_a_later_version_is_refused_with_that_reason_and_left_alone(node: Node, path: str) -> None:
    node.begin("run-1")
    node.end("run-1")
    file = node.root / path[1:]
    text = file.read_text().replace('"schema":1', '"schema":2')
    file.write_text(text)
    with pytest.raises(ledger.Newer, match=r"schema 2: a later version .* which knows schema 1,.* Nothing was changed"):
        ledger.load(path, str(node.root))
    assert file.read_text() == text


@pytest.mark.parametrize("schema", ["true", '"2"', "null", "0", "1.5"])
def test_what_is_no_schema_is_damage(node: Node, schema: str) -> None:
    node.begin("run-1")
    file = node.root / LEDGER[1:]
    file.write_text(file.read_text().replace('"schema":1', f'"schema":{schema}'))
    with pytest.raises(Damaged) as told:
        ledger.load(LEDGER, str(node.root))
    assert not isinstance(told.value, ledger.Newer)


def test_a_node_of_an_earlier_version_is_read(node: Node) -> None:
    """Its looks have no units, settings, accounts and trees."""
    node.begin("run-1")
    node.write(OURS, "nvidia_uvm")
    node.end("run-1")
    before = node.ours("files")
    begin("run-2", str(node.root), node.look, lambda family, root: ())
    end("run-2", str(node.root), node.look)
    assert node.ours("files") == before and node.ledger()["foreign"] == {}
