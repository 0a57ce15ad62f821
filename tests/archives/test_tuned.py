"""Our profile lies where the tuned of each release of Debian looks for it; its own code answers, without root."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.tuning import profiles
from ansible_collections.gpuwright.node.plugins.module_utils.tuning.file_texts import tuned_file
from archive import SUITES, Archive, NotAsked

# The folders that tuned takes from its constants and its configuration, and where it finds a profile then.
ASK_TUNED = """
import json, sys
tree = sys.argv[1]
sys.path[:0] = [tree + "/usr/lib/python3/dist-packages"]
from tuned import consts
consts.GLOBAL_CONFIG_FILE = tree + consts.GLOBAL_CONFIG_FILE
from tuned.utils.global_config import GlobalConfig
from tuned.profiles.locator import Locator
if hasattr(consts, "CFG_PROFILE_DIRS"):
    read = GlobalConfig().get_list(consts.CFG_PROFILE_DIRS, consts.CFG_DEF_PROFILE_DIRS)
else:
    read = consts.LOAD_DIRECTORIES
locator = Locator([tree + folder for folder in read])
print(json.dumps([read, locator.get_config("gpuwright"), locator.get_config("balanced")]))
"""


@pytest.fixture(scope="module", params=sorted(SUITES))
def tree(request: pytest.FixtureRequest, archive_of: Callable[[str], Archive]) -> Path:
    try:
        return archive_of(request.param).unpacked("tuned")
    except NotAsked as silent:
        pytest.skip(f"not asked: {silent} did not answer")


def ask_tuned(tree: Path) -> list:
    done = subprocess.run([sys.executable, "-c", ASK_TUNED, str(tree)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "configured", ["", "profile_dirs = /usr/lib/tuned, /usr/lib/tuned/profiles;/etc/tuned/ours # here\n"]
)
def test_tuned_finds_our_profile(tree: Path, configured: str) -> None:
    config = tree / profiles.CONFIG.lstrip("/")
    shipped = config.read_text()
    config.write_text(shipped + configured)
    own = tree / profiles.own_file(str(tree)).lstrip("/")
    try:
        own.parent.mkdir(parents=True)
        own.write_text(tuned_file("balanced", {}, "", "", {}))
        read, found, parent = ask_tuned(tree)
        assert profiles.folders(str(tree)) == read
        assert found == str(own) and parent
    finally:
        config.write_text(shipped)
        own.unlink()
        own.parent.rmdir()
