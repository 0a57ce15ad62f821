"""A package of somebody's own, as `train-gan new` makes it: locked, installed by its hash, trained by the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY, STATE, on_host, play

pytestmark = pytest.mark.usefixtures("finished_host")
NAME = "my_flow"
UNIT = f"train-gan@{NAME}"
CONFIGURATION, RUNS = f"/etc/gpuwright/train-gan/{NAME}.yml", f"/srv/gan/runs/{NAME}"
# So few steps that a CPU has them in seconds; all else is the template's.
SMALL = {"run_dir": RUNS, "steps": 2, "batch_size": 4, "device": "cpu", "log_every": 1, "options": {"images": 16}}
TRAINING_SECONDS = 180


@pytest.fixture
def own_wheel(tmp_path: Path) -> Path:
    """Outside of the repository, built as its author builds it."""
    folder, out = tmp_path / NAME, tmp_path / "dist"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "trainer"), "PYTHONDONTWRITEBYTECODE": "1"}
    for words in (["gan_trainer.cli", "new", folder], ["flit_core.wheel", "--outdir", out, folder]):
        subprocess.run([sys.executable, "-m", *map(str, words)], env=environment, cwd=tmp_path, check=True)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture
def as_before() -> Iterator[None]:
    """Later tests of this host have the environment that it had."""
    yield
    on_host(f"systemctl stop {UNIT}; systemctl reset-failed {UNIT}; rm -rf {RUNS} {CONFIGURATION}", check=False)
    done = play("site.yml")
    assert done.rc == 0, done.output
    for file in (STATE / "locks").glob("*.txt"):
        file.unlink()


def test_a_package_of_ones_own_trains_through_the_service(own_wheel: Path, as_before: None) -> None:
    packages: dict[str, Any] = {"framework_pytorch_packages": [str(own_wheel)]}
    before = on_host("readlink /opt/gpuwright/venvs/current")
    done = play("playbooks/framework.yml", **packages)
    assert done.rc != 0 and "there is no lock file" in done.text and "playbooks/lock.yml" in done.text
    assert on_host("readlink /opt/gpuwright/venvs/current") == before

    done = play("playbooks/lock.yml", **packages)
    assert done.rc == 0, done.output
    (lock,) = (STATE / "locks").glob("*.txt")
    # The trainer that it needs comes with the model layer, and from no index.
    assert [line.split()[0] for line in lock.read_text().splitlines() if "==" in line] == ["my-flow==0.1.0"]
    done = play("site.yml", **packages)
    assert done.rc == 0, done.output
    assert play("playbooks/framework.yml", **packages).changed == 0

    configuration = yaml.safe_load((own_wheel.parents[1] / NAME / "config.yml").read_text())
    text = json.dumps({**configuration, **SMALL})
    on_host(f"echo '{text}' > {CONFIGURATION} && chmod 0644 {CONFIGURATION} && systemctl start {UNIT}")
    end = time.monotonic() + TRAINING_SECONDS
    while on_host(f"systemctl is-active {UNIT}", check=False) in ("active", "activating") and time.monotonic() < end:
        time.sleep(2)
    journal = on_host(f"journalctl -u {UNIT} --no-pager -n 40")
    assert on_host(f"systemctl is-active {UNIT}", check=False) == "inactive", journal
    rows = [json.loads(line) for line in on_host(f"cat {RUNS}/stats.jsonl").splitlines()]
    assert [row["step"] for row in rows if "step" in row][-1] == SMALL["steps"], rows
    assert on_host(f"find {RUNS} -name '*.pt'"), journal
