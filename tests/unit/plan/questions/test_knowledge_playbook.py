"""playbooks/knowledge.yml of a checkout, started somewhere else: its paths mean the folder of who started it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from conftest import REPOSITORY

PLAYBOOK = REPOSITORY / "playbooks/knowledge.yml"
# Nothing is asked that is not on this machine.
NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
NOWHERE |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
NOWHERE |= {"no_proxy": "", "NO_PROXY": ""}


def test_paths_begin_where_the_playbook_is_started(tmp_path: Path) -> None:
    (tmp_path / "releases.json").write_text('{"580": {"type": "lts branch", "driver_info": []}}')
    options = '{"to": "tables", "knowledge_sources": ["--releases", "releases.json"]}'
    command = [str(Path(sys.executable).parent / "ansible-playbook"), str(PLAYBOOK), "-e", options]
    # A program that starts another one in a folder seldom changes PWD.
    environment = {**os.environ, **NOWHERE, "PWD": "/", "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    content = yaml.safe_load((tmp_path / "tables/knowledge.yml").read_text())
    assert "drivers" in content and "bulletins" not in content


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("/home/me/.ansible/collections/ansible_collections/gpuwright/node/playbooks", "/home/me/.ansible/collections"),
        (
            "/usr/share/ansible/collections/ansible_collections/gpuwright/node/playbooks",
            "/usr/share/ansible/collections",
        ),
        ("/srv/gpuwright/playbooks", ""),
        ("/srv/ansible_collections/gpuwright/node-0.2.0/playbooks", ""),
        ("/playbooks", ""),
    ],
)
def test_only_an_installed_collection_is_named_to_python(folder: str, found: str) -> None:
    (play,) = yaml.safe_load(PLAYBOOK.read_text())
    words = jinja2.Environment()
    words.filters |= {"dirname": os.path.dirname, "ternary": lambda is_so, yes, no: yes if is_so else no}
    words.tests["search"] = lambda text, pattern: re.search(pattern, text) is not None
    known: dict[str, Any] = {"playbook_dir": folder, "lookup": lambda *_: ""}
    collections = words.from_string(play["vars"]["__knowledge_collections"]).render(known)
    path = next(task for task in play["tasks"] if "environment" in task)["environment"]["PYTHONPATH"]
    # An empty part would be the folder of who started it.
    assert words.from_string(path).render(known, __knowledge_collections=collections) == found
