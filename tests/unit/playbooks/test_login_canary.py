"""A password in every address that the inventory may name: it is in nothing that is said, at -vvv either."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.package_manager import package_failure
from conftest import REPOSITORY
from test_plan_questions import make_host
from test_preflight import USE, plan

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
CANARY = "c4nary-secret"
SPECS = [yaml.safe_load(path.read_text()) for path in sorted(REPOSITORY.glob("roles/*/meta/argument_specs.yml"))]
# The role that serves others gets its addresses from them.
ADDRESSES = sorted(
    name
    for spec in SPECS
    for name in spec["argument_specs"]["main"]["options"]
    if name.endswith("_url") and not name.startswith("system_repository_")
)


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, REPOSITORY / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)
    spec.loader.exec_module(module)
    return module


class Handler(BaseHTTPRequestHandler):
    """Repositories for those who log in."""

    def do_GET(self) -> None:
        wanted = "Basic " + base64.b64encode(f"mirror:{CANARY}".encode()).decode()
        self.send_response(200 if self.headers.get("Authorization") == wanted else 401)
        self.end_headers()
        self.wfile.write(b"<repomd")

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def mirror() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://mirror:{CANARY}@127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def run(folder: Path, playbook: str, variables: dict[str, Any], *arguments: str) -> str:
    host = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    (folder / "hosts.yml").write_text(json.dumps({"gpu_nodes": {"hosts": {"a5-01": {**host, **variables}}}}))
    command = [str(PLAYBOOK), "-i", str(folder / "hosts.yml"), playbook, "-vvv", "--diff", *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "no_proxy": "*"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_there_are_addresses() -> None:
    assert len(ADDRESSES) >= 7 and "framework_pytorch_index_url" in ADDRESSES


def test_a_refused_address_does_not_tell_its_login(tmp_path: Path) -> None:
    """Each of them is wrong in its way, and is named without what it held."""
    wrong = ["http://u:{}@mirror:x/", "http://u:{}/{}@mirror/", "u:{}@mirror/x", "http://u:{}@/"]
    variables = {name: wrong[number % 4].replace("{}", CANARY) for number, name in enumerate(ADDRESSES)}
    variables |= {
        "framework_pytorch_wheelhouse": f"https://u:{CANARY}@mirror/",
        "system_cuda_wheelhouse": CANARY + "@m",
    }
    said = run(tmp_path, "playbooks/preflight.yml", variables)
    assert "problem(s) on 1 host(s)" in said
    for name in variables:
        assert f"{name}: must be" in said
    assert CANARY.lower() not in said.lower()


@pytest.mark.parametrize("path", ["", "gone"], ids=["answers", "refused"])
def test_an_address_is_asked_with_its_login_and_shown_without(tmp_path: Path, mirror: str, path: str) -> None:
    """The role's own task, on a node whose packages are missing."""
    node = {**make_host(secure_boot="disabled", module_key={"state": "none"}, module_signature=None, in_use=USE)}
    node["os"] = {**node["os"], "family": "redhat", "major": 8}
    made = plan()
    made["driver"]["present"] = True
    made["cuda"]["package"] = "no-such-package"
    address = mirror if not path else mirror.replace(CANARY, CANARY + "-other")
    variables = {"preflight_space_percent": 0, **dict.fromkeys(ADDRESSES, address)}
    variables |= {"gpu_node": node, "gpu_node_plan": made, "verify_expected_gpu_count": 1}
    facts = {name: f"{{{{ {name} }}}}" for name in ("gpu_node", "gpu_node_plan")}
    tasks = [
        {"ansible.builtin.set_fact": {**facts, "cacheable": True}},
        {"ansible.builtin.include_role": {"name": "gpuwright.node.preflight", "tasks_from": "host", "public": True}},
    ]
    tasks.append(
        {"ansible.builtin.debug": {"msg": "{{ [hostvars[inventory_hostname]] | preflight_problems | problem_table }}"}}
    )
    play = {"hosts": "gpu_nodes", "gather_facts": False, "become": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    said = run(tmp_path, str(tmp_path / "play.yml"), variables)
    assert CANARY not in said.replace(str(tmp_path), "")
    assert ("HTTP 401" in said) is bool(path), said[-3000:]
    assert "nonnumeric" not in said and "Name or service" not in said


def test_what_programs_repeat_is_shown_without() -> None:
    said = f"Failed to download metadata for repo 'x': Cannot download https://u:{CANARY}@mirror/x: Status code: 401"
    told = package_failure({"msg": said}, ["dkms"])["text"]
    assert CANARY not in told and "401" in told
    summary = load("plugins/callback/summary.py")
    assert summary.printable(said).endswith("https://***@mirror/x: Status code: 401")
