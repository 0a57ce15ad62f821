"""A finished host, left alone and then changed by hand in ten ways: drift.yml tells each, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import HOST, REPOSITORY, on_host, play
from host_state import host_state

pytestmark = pytest.mark.usefixtures("finished_host")
START = ("playbooks/drift.yml", "--check", "--diff")
CUDNN = ("9.13.0.50-1", "9.10.2.21-1")
# How it is done, how it is undone, and what the table says: what differs, and of it.
CHANGES = {
    "content": ("echo '# by hand' >>/etc/modules-load.d/gpuwright-nvidia.conf", "",
                "/etc/modules-load.d/gpuwright-nvidia.conf", "content"),
    "mode": ("chmod 0700 /usr/local/bin/gpu-run", "", "/usr/local/bin/gpu-run", "mode"),
    "owner": ("chown nobody /usr/local/bin/gpu-doctor", "", "/usr/local/bin/gpu-doctor", "owner"),
    "missing file": ("rm /usr/local/bin/gpu-job", "", "/usr/local/bin/gpu-job", "content"),
    "extra drop-in": ("mkdir /etc/systemd/system/gpuwright-check.service.d; "
                      "printf '[Service]\\nNice=5\\n' >/etc/systemd/system/gpuwright-check.service.d/zz.conf",
                      "rm -r /etc/systemd/system/gpuwright-check.service.d",
                      "/etc/systemd/system/gpuwright-check.service.d/zz.conf", "drop-in of gpuwright-check.service"),
    "stopped unit": ("systemctl stop gpuwright-check.timer", "", "gpuwright-check.timer", "state"),
    "masked unit": ("systemctl mask nvidia-persistenced.service", "systemctl unmask nvidia-persistenced.service",
                    "nvidia-persistenced.service", "start at boot"),
    "another version": (f"dnf -q -y install libcudnn9-cuda-12-{CUDNN[0]} libcudnn9-devel-cuda-12-{CUDNN[0]}",
                        f"dnf -q -y downgrade libcudnn9-cuda-12-{CUDNN[1]} libcudnn9-devel-cuda-12-{CUDNN[1]}",
                        "cudnn.version", "check"),
    # A kernel's settings are the controller's here; limits are settings that a container has.
    "setting of the host": ("sed -i s/1048576/1024/ /etc/security/limits.d/95-gpuwright.conf", "",
                            "/etc/security/limits.d/95-gpuwright.conf", "content"),
    "broken link": ("ln -sfn /nonexistent /usr/bin/gpu-tune", "", "/usr/bin/gpu-tune", "target"),
}  # fmt: skip


@pytest.fixture
def changed_by_hand() -> Iterator[None]:
    on_host("\n".join(done for done, *_rest in CHANGES.values()) + "\nsystemctl daemon-reload")
    yield
    on_host("\n".join(undone for _done, undone, *_rest in CHANGES.values()) + "\nsystemctl daemon-reload")
    mended = play("site.yml")
    assert mended.rc == 0, mended.output


def record() -> dict:
    return json.loads((REPOSITORY / "reports/drift/drift.json").read_text())["hosts"][HOST]


def test_a_host_that_was_left_alone_has_no_drift(tmp_path: Path) -> None:
    before = host_state(tmp_path)
    done = play(*START)
    assert done.rc == 0 and "No drift" in done.output, done.output
    assert (record()["status"], record()["verdict"]) == ("no drift", "PASS")
    assert host_state(tmp_path) == before


def test_each_change_by_hand_is_told_and_nothing_is_changed(changed_by_hand: None, tmp_path: Path) -> None:
    before = host_state(tmp_path)
    done = play(*START)
    assert done.rc == 2 and "[drift.found]" in done.output, done.output
    found = {(row["what"], row["attribute"]) for row in record()["differences"]}
    assert [name for name, (_do, _undo, *told) in CHANGES.items() if tuple(told) not in found] == []
    assert host_state(tmp_path) == before
