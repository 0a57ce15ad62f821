"""A run folder of somebody else: --check and a start say so, in one sentence, and try as who they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from conftest import TINY

from gan_trainer.runs.folder import RunFolderError, try_folder

NOBODY = 65534
# As the service's user; torch is imported before, from folders that this user may not read.
AS_NOBODY = """
import os, sys
from gan_trainer import cli
import gan_trainer.engine.check, gan_trainer.engine.train
os.setgid(65534), os.setgroups([]), os.setuid(65534)
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """A folder that others reach, in which `run` belongs to us."""
    for path in (tmp_path, *tmp_path.parents[:3]):
        if path.stat().st_uid == os.geteuid() and len(path.parts) > 2:
            path.chmod(0o755)
    return tmp_path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("state", ["there", "below one that is there", "one of its files", "one of its folders"])
def test_check_and_start_say_who_cannot_write_what(state: str, opened: Path, run_trainer) -> None:
    run = opened / "run"
    run.mkdir(mode=0o755)
    blocked = run
    if state == "one of its files":
        run.chmod(0o777)
        blocked = run / "stats.jsonl"
        blocked.touch(0o644)
    elif state == "one of its folders":
        run.chmod(0o777)
        blocked = run / "samples"
        blocked.mkdir(mode=0o755)
    folder = run / "a/b" if state.startswith("below") else run
    config = opened / "c.yml"
    lines = {**TINY, "run_dir": str(folder), "device": "cpu", "steps": 1}
    config.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    config.chmod(0o644)
    for words in (["--check"], []):
        done = run_trainer("-c", AS_NOBODY, "--config", str(config), *words)
        assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr
        said = done.stderr.strip().splitlines()
        assert len(said) == 1 and "Permission denied" in said[0] and "This runs as nobody" in said[0]
        named = folder if state.startswith("below") else blocked
        assert f"run_dir: {named} cannot be written" in said[0] and f"chown -R nobody: {folder}" in said[0]


def test_a_folder_that_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    try_folder(tmp_path / "a/b/run")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "stats.jsonl").write_text("{}")
    try_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["stats.jsonl"]


def test_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    assert stat.S_ISREG((tmp_path / "run").stat().st_mode)
    with pytest.raises(RunFolderError, match="run cannot be written: Not a directory"):
        try_folder(tmp_path / "run")
