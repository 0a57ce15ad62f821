"""The Python environment is for everybody under every umask of root, and a login for the mirror is for nobody.

The role's own tasks build a real environment in a temporary folder, from a wheel and an index made here.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from given_facts import as_facts
from gpuwright.host.tree_modes import wrong_modes
from own_collection import own_collection, own_module

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
# The system's own, as on a node: an ordinary user can start it, and perhaps not the one that runs the tests.
WITH_VENV = subprocess.run(["/usr/bin/python3", "-c", "import venv, ensurepip"], capture_output=True, check=False)
PYTHON = sys.executable if WITH_VENV.returncode else "/usr/bin/python3"
# In place of it where nothing depends on how an empty environment comes about, which takes as long as all the rest: its
# `-m venv` copies one that was made before, whose scripts and their hashes name the new folder then.
COPYING = """#!{here}
import base64, hashlib, os, shutil, sys
from pathlib import Path

if sys.argv[1:3] != ["-m", "venv"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
made, venv = Path({made!r}), Path(sys.argv[3])
shutil.copytree(made, venv, symlinks=True, dirs_exist_ok=True)
(record,) = venv.glob("lib/*/site-packages/pip-*.dist-info/RECORD")
lines = record.read_text().splitlines()
for script in [venv / "pyvenv.cfg", *venv.glob("bin/[!p]*"), *venv.glob("bin/pip*")]:
    if not script.is_symlink():
        data = script.read_bytes().replace(bytes(made), bytes(venv))
        script.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        name = "../../../bin/" + script.name
        lines = [f"{{name}},sha256={{digest}},{{len(data)}}" if line.startswith(name + ",") else line for line in lines]
record.write_text("\\n".join(lines) + "\\n")
"""
CANARY = "c4nary-secret"
WHEEL = "tiny_thing-1.0-py3-none-any.whl"


def make_wheel(folder: Path) -> str:
    """A package of one module, and its SHA-256."""
    pack_wheel(folder / WHEEL, "tiny_thing", {"tiny_thing/__init__.py": "value = 1\n"})
    return hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest()


def pack_wheel(file: Path, name: str, modules: dict[str, str]) -> None:
    """Version 1.0 of a package with these modules."""
    info = f"{name}-1.0.dist-info"
    files = {
        **modules,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{info}/RECORD,,\n"
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(text)}\n"
    with zipfile.ZipFile(file, "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


@functools.cache
def empty_environment() -> tempfile.TemporaryDirectory[str]:
    """What `python -m venv` makes under root's usual umask; removed when the tests end."""
    folder = tempfile.TemporaryDirectory(prefix="environment-")
    subprocess.run([PYTHON, "-m", "venv", f"{folder.name}/venv"], check=True, umask=0o022)
    return folder


def copying_python(folder: Path) -> str:
    """A program in the folder that is the system's Python, but for `-m venv`."""
    program = folder / "python-that-copies"
    made = f"{empty_environment().name}/venv"
    program.write_text(COPYING.format(here=sys.executable, python=PYTHON, made=made))
    program.chmod(0o755)
    return str(program)


def nobody_works(folder: Path) -> None:
    """Beside a play: nobody is in the way of what it does, whoever works on the machine that runs the tests."""
    answer = {"changed": False, "in_way": [], "who": "", "workloads": [], "users": [], "environments": {}}
    text = f"#!{sys.executable}\n# WANT_JSON\nimport json\nprint(json.dumps({answer}))\n"
    own_module(folder, "workload_info", text)


def own_locks(roles: Path) -> Path:
    """The roles as links in a folder, where framework_pytorch has lock files of the test; the value is their folder."""
    role = roles / "framework_pytorch"
    role.unlink()
    (role / "files/locks").mkdir(parents=True)
    for part in (REPOSITORY / "roles" / role.name).iterdir():
        if part.name != "files":
            (role / part.name).symlink_to(part)
    return role / "files/locks"


class Handler(SimpleHTTPRequestHandler):
    """An index for those who log in."""

    def do_GET(self) -> None:
        wanted = "Basic " + base64.b64encode(f"mirror:{CANARY}".encode()).decode()
        if self.headers.get("Authorization") == wanted:
            super().do_GET()
        else:
            self.send_response(401)
            self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


class Environment:
    """Runs of the role on a folder of environments."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.venvs, self.wheels = folder, folder / "opt/gpuwright/venvs", folder / "wheels"
        (self.wheels / "simple/tiny-thing").mkdir(parents=True)
        self.digest = make_wheel(self.wheels)
        link = f'<a href="/{WHEEL}#sha256={self.digest}">{WHEEL}</a>'
        (self.wheels / "simple/tiny-thing/index.html").write_text(link)
        nobody_works(folder)
        self.locks = own_locks(own_collection(folder) / "roles")
        self.log, self.python = "", PYTHON

    def run(self, umask: int, *arguments: str, **variables: Any) -> int:
        lock = self.locks / "lock.txt"
        lock.write_text(f"tiny-thing==1.0 --hash=sha256:{self.digest}\n")
        torch = {"version": "1.0", "build": "cpu", "lock": "lock.txt", "locked": True, "index_url": ""}
        known = {
            "gpu_node": {"os": {"family": "redhat"}},
            "gpu_node_plan": {
                "python": {"version": "3", "executable": self.python, "packages": []},
                "pytorch": torch,
            },
            "framework_pytorch_wheelhouse": "" if "framework_pytorch_index_url" in variables else str(self.wheels),
            "__framework_pytorch_venvs": str(self.venvs),
            "__framework_pytorch_imports": ["tiny_thing"],
            "ansible_python_interpreter": sys.executable,
            **variables,
        }
        role = {"ansible.builtin.include_role": {"name": "gpuwright.node.framework_pytorch", "tasks_from": "venv"}}
        play = {"hosts": "localhost", "gather_facts": False, "become": False, "tasks": [role]}
        play["roles"] = [{"role": "gpuwright.node.preflight", "when": False}]
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        (self.folder / "vars.json").write_text(json.dumps(as_facts(known)))
        command = [str(PLAYBOOK), "-i", "localhost,", "-c", "local", str(self.folder / "play.yml"), *arguments]
        environment = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
        done = subprocess.run(
            [*command, "-e", f"@{self.folder}/vars.json"],
            cwd=REPOSITORY,
            env={**environment, "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            timeout=400,
            umask=umask,
        )
        self.log = done.stdout + done.stderr
        return done.returncode

    @property
    def venv(self) -> Path:
        return next(path for path in self.venvs.iterdir() if len(path.name) == 16)


@pytest.fixture
def made() -> Iterator[Environment]:
    # Not pytest's own folder, which the ordinary user who imports the packages cannot enter.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Environment(Path(name))


@pytest.fixture
def quick(made: Environment) -> Environment:
    made.python = copying_python(made.folder)
    return made


def closed(top: Path) -> list[str]:
    """What an ordinary user cannot use, or could write; told without the code under test."""
    found = []
    for path in [*top.parents[:2], top, *top.rglob("*")]:
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        needs = 0o555 if path.is_dir() or mode & 0o100 else 0o444
        if mode & needs != needs or mode & 0o022:
            found.append(f"{path} {mode:o}")
    return found


@pytest.mark.parametrize("umask", [0o000, 0o077], ids=oct)
def test_everybody_can_start_it(made: Environment, umask: int) -> None:
    assert made.run(umask) == 0, made.log
    assert closed(made.venv) == []
    # Its packages are compiled: an ordinary user, who may not write there, would compile them in every start.
    assert list(made.venv.glob("lib/*/site-packages/tiny_thing/__pycache__/__init__.*.pyc"))
    # What an earlier run left under another umask is repaired by the next one, which builds nothing anew.
    before = (made.venv / "gpuwright.json").stat().st_mtime_ns
    for path, mode in ((made.venv, 0o700), (made.venv / "bin", 0o750), (made.venv / "pyvenv.cfg", 0o666)):
        path.chmod(mode)
    next(made.venv.glob("lib/*/site-packages/tiny_thing/__init__.py")).chmod(0o600)
    assert made.run(umask) == 0 and "changed=1" in made.log, made.log
    assert closed(made.venv) == [] and (made.venv / "gpuwright.json").stat().st_mtime_ns == before
    assert made.run(umask) == 0 and "changed=0" in made.log, made.log


@pytest.fixture
def index(quick: Environment) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(quick.wheels)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://mirror:{{}}@127.0.0.1:{server.server_port}/simple/"
    server.shutdown()
    server.server_close()


def test_pip_logs_in_and_nobody_reads_how(quick: Environment, index: str) -> None:
    assert quick.run(0o022, "-vvv", "--diff", framework_pytorch_index_url=index.format(CANARY)) == 0, quick.log
    assert CANARY not in quick.log
    holders = [path for path in quick.venvs.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert holders == []


def test_a_refused_login_tells_no_password(quick: Environment, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = CANARY + "%2Fwrong"
    assert quick.run(0o022, "-vvv", framework_pytorch_index_url=index.format(wrong)) != 0
    assert CANARY not in quick.log and "401" in quick.log
    # Nor is it tried again, as a broken connection would be.
    assert "RETRYING" not in quick.log
    assert not list(quick.venvs.rglob("pip-login.conf"))


def test_a_plan_without_a_lock_file_is_a_line_for_each_package(quick: Environment) -> None:
    torch = {"version": "1.0", "build": "cpu", "lock": "none.txt", "locked": False, "index_url": ""}
    plan = {"python": {"version": "3", "executable": quick.python, "packages": []}, "pytorch": torch}
    plan["requirements"] = ["tiny-thing==1.0", "tiny-thing>=1"]
    assert quick.run(0o022, gpu_node_plan=plan, framework_pytorch_lock_file="") == 0, quick.log
    assert (quick.venv / "lock.txt").read_text() == "tiny-thing==1.0\ntiny-thing>=1\n"


def test_modes_are_repaired_as_python_36_does_it(run_module: Callable[..., dict], tmp_path: Path) -> None:
    top = tmp_path / "tree"
    (top / "deep").mkdir(parents=True)
    files = {"program": 0o4700, "text": 0o600, "open": 0o666, "fine": 0o644, "locked": 0o400}
    for name, mode in files.items():
        (top / "deep" / name).write_text("x")
        (top / "deep" / name).chmod(mode)
    (top / "away").symlink_to("/etc/shadow")
    (top / "nowhere").symlink_to("/nonexistent/x")
    top.chmod(0o700)
    (top / "deep").chmod(0o2777)
    shadow = Path("/etc/shadow").stat().st_mode
    assert run_module("tree_modes", {"path": str(top)}, check=True)["repaired"] == len(wrong_modes(str(top))) == 6
    answer = run_module("tree_modes", {"path": str(top)})
    assert answer["changed"] and answer["repaired"] == 6 and len(answer["examples"]) == 5
    modes = {name: oct(stat.S_IMODE((top / "deep" / name).stat().st_mode)) for name in files}
    assert modes == {"program": "0o755", "text": "0o644", "open": "0o644", "fine": "0o644", "locked": "0o444"}
    assert [oct(path.stat().st_mode & 0o7777) for path in (top, top / "deep")] == ["0o755", "0o755"]
    assert Path("/etc/shadow").stat().st_mode == shadow
    assert not run_module("tree_modes", {"path": str(top)})["changed"]
    assert not run_module("tree_modes", {"path": str(tmp_path / "none")})["changed"]


@pytest.mark.parametrize("check", [False, True])
def test_an_environment_that_is_not_whole_is_a_change_in_check_mode_only(
    run_module: Callable[..., dict], tmp_path: Path, check: bool
) -> None:
    """So that a dry run says what a later step would do, which check mode does not carry out."""
    answer = run_module("python_environment", {"path": str(tmp_path / "v"), "mark": "gpuwright.json"}, check=check)
    assert (answer["whole"], answer["changed"]) == (False, check)
    rows = [(one["before"]["content"], one["after"]["content"]) for one in answer["diff"]]
    assert rows == ([(answer["because"], "as it was installed")] if check else [])
