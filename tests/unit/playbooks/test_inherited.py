"""Workers get from Ansible's main process what every host needs; asked by a filter, which a worker runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.inherited import LOOKUPS
from conftest import REPOSITORY

SEEN = """
import sys
from ansible.plugins.loader import filter_loader, test_loader
def seen(names):
    there = [name for name in names if f"{plugins}." + name in sys.modules]
    options = sys.modules.get("{plugins}.plugin_utils.role_options")
    inputs = sys.modules.get("{plugins}.plugin_utils.nothing_to_do")
    read = options.defaults.cache_info().currsize if options else 0
    known = [len(loader._cached_non_collection_wrappers) for loader in (filter_loader, test_loader)]
    taken = inputs.code.cache_info().currsize if inputs else 0
    if inputs:
        # As every worker calls them; what is asked for in another way would be worked out by each anew.
        sys.modules["{plugins}.plugin_utils.variables.rules"].problems_by_roles({{}}, ["preflight"])
        inputs.question_of(lambda name: "", {{}}, {{}})
        again = inputs.code.cache_info().misses - taken, inputs.role_specs.cache_info().misses - 1
        assert again == (0, 0), again
    return f"{{len(there)}} loaded, filters {{min(known) > 0}}, defaults read {{read}} times, {{taken}} checksums"
class FilterModule:
    def filters(self):
        return {{"seen": seen}}
"""
PLAY = """
- hosts: "{hosts}"
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {{msg: "{{{{ {names} | seen }}}}"}}
"""


PLUGINS = "ansible_collections.gpuwright.node.plugins"
NAMES = [*(f"lookup.{name}" for name in LOOKUPS), "filter.variables", "filter.problems", "filter.preflight_remarks"]


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (
            "{{ lookup('gpuwright.node.gpu_nodes') }}",
            f"{len(NAMES)} loaded, filters True, defaults read 1 times, 1 checksums",
        ),
        ("gpu_nodes", "0 loaded, filters False, defaults read 0 times, 0 checksums"),
    ],
    ids=["a play of the toolkit", "any other play"],
)
def test_a_worker_has_loaded_nothing_itself(tmp_path: Path, hosts: str, said: str) -> None:
    (tmp_path / "filter_plugins").mkdir()
    (tmp_path / "filter_plugins/seen.py").write_text(SEEN.format(plugins=PLUGINS))
    (tmp_path / "play.yml").write_text(PLAY.format(hosts=hosts, names=NAMES))
    (tmp_path / "hosts.yml").write_text("gpu_nodes: {hosts: {a: {}, b: {}}, vars: {ansible_connection: local}}\n")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(tmp_path / "hosts.yml")]
    done = subprocess.run(
        [*command, str(tmp_path / "play.yml")],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "default", "ANSIBLE_CALLBACKS_ENABLED": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.count(said) == 2, done.stdout + done.stderr
