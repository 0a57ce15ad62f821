"""The conditions of tests/world are whole, and `make test` runs in some of them."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY

sys.path[:0] = [str(REPOSITORY / "tests/fleet"), str(REPOSITORY / "tests/world")]

from gpuwright_world import done, finished, job, refused, servers  # noqa: E402
from gpuwright_world.condition import Condition, filled  # noqa: E402

ALL = [*done.CHEAP, *(condition for mix in done.MIXES.values() for condition in mix)]
ALL += [refusal.condition for refusal in refused.REFUSALS]
SCRIPTS = [script for row in ALL for script in (row.host, row.boot, row.seen, row.here) if script]
SCRIPTS += [script for row in finished.FINDINGS for script in (row.script, row.undo)]


def test_every_script_is_one() -> None:
    for script in SCRIPTS:
        read = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True)
        assert read.returncode == 0, f"{script}\n{read.stderr}"


def test_every_condition_is_looked_at() -> None:
    for name, mix in done.MIXES.items():
        assert [row.name for row in mix if not row.seen and not row.here] == [], name
        assert len({row.name for row in mix}) == len(mix)
    assert [refusal.condition.name for refusal in refused.REFUSALS if not all(refusal.says) or not refusal.says] == []
    names = [refusal.condition.name for refusal in refused.REFUSALS]
    assert len(set(names)) == len(names)


def test_a_controller_is_as_its_conditions_say(tmp_path: Path) -> None:
    conditions = (done.zone("Asia/Kolkata"), done.controller_umask(0o077), done.LOCALE, done.NO_TERMINAL)
    shell = job.shell_for(conditions, tmp_path, tmp_path)
    for condition in conditions:
        told = shell.call(["sh", "-c", f"set -e\n{condition.here}"], 60)
        assert told.rc == 0, (condition.name, told.output)
        elsewhere = job.shell_for([], tmp_path).call(
            ["sh", "-c", f"set -e\n{condition.here}"], 60, TZ="UTC", LC_ALL="C"
        )
        assert condition is done.NO_TERMINAL or elsewhere.rc != 0, condition.name


def test_words_are_filled_in() -> None:
    assert filled("a @PROXY@ b @OTHER@", {"PROXY": "http://p:3128"}) == "a http://p:3128 b @OTHER@"


def test_an_outcome_is_read_from_wrapped_output() -> None:
    said = "1. The clock is 600 s ahead\n   of the controller's\n   seen: x\n"
    text = f"{said}PLAY RECAP ***\na5-51  : ok=3 changed=2 failed=1\n"
    outcome = job.Outcome(2, text, 1.0)
    assert outcome.changed == 2 and job.Outcome(1, "", 0).changed == 0
    assert outcome.sentence("The clock") == "The clock is 600 s ahead of the controller's"
    assert outcome.sentence("nothing of that") == ""


@pytest.mark.parametrize("kind", ["lint", "world"])
def test_the_suites_run_in_another_zone_and_under_umask_027(tmp_path: Path, kind: str) -> None:
    code = (
        "import os, subprocess, sys, time; sys.path.insert(0, 'tests'); import run; from pathlib import Path\n"
        f"run.RESULTS = Path({str(tmp_path)!r}); run.NEEDS_FLEET = ()\n"
        "def told(suite):\n"
        "    print(subprocess.run('umask; date +%z', shell=True, capture_output=True, text=True).stdout.split())\n"
        f"run.SUITES[{kind!r}] = told; sys.exit(run.main({kind!r}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, umask=0o022)
    assert ran.returncode == 0 and "['0027', '-0" in ran.stdout, ran.stdout + ran.stderr
    assert "In time zone America/New_York, with umask 027." in ran.stdout


def test_a_scenario_of_make_test_runs_in_conditions() -> None:
    folder = REPOSITORY / "tests/molecule/el8-alternative"
    assert yaml.safe_load((folder / "molecule.yml").read_text())["provisioner"]["playbooks"] == {"create": "create.yml"}
    assert "world/apply" in (folder / "create.yml").read_text()
    assert {row.name for row in done.CHEAP} >= {
        "host with umask 027",
        "hidepid=2",
        "noexec /tmp",
        "host with secure_path",
    }


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "keys").mkdir()
    for key in ("debian", "nvidia"):
        (tmp_path / "keys" / f"RPM-GPG-KEY-{key}").write_text(f"key of {key}\n")
    (tmp_path / "tiny_thing-1.0-py3-none-any.whl").write_text("wheel")
    login = "Basic " + base64.b64encode(b"ci:pw").decode()
    known = {"login": login, "repositories": tmp_path, "wheels": tmp_path}
    yield from serving(type("Known", (servers.Mirror,), {**known, "log_message": lambda *words: None}))


@pytest.fixture
def proxy() -> Iterator[str]:
    yield from serving(type("Quiet", (servers.Proxy,), {"log_message": lambda *words: None}))


def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetch(proxy: str, url: str, login: str = "ci:pw") -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://{proxy}"}))
    header = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    with opener.open(urllib.request.Request(url, headers=header), timeout=20) as answer:
        return answer.read()


def test_the_mirror_answers_who_logs_in_and_the_proxy_passes_it_on(mirror: str, proxy: str) -> None:
    assert fetch(proxy, f"http://{mirror}/site/gpu/keys/two") == b"key of debian\nkey of nvidia\n"
    index = fetch(proxy, f"http://{mirror}/site/gpu/py/simple/tiny-thing/").decode()
    assert '<a href="/site/gpu/wheels/tiny_thing-1.0-py3-none-any.whl">' in index
    assert fetch(proxy, f"http://{mirror}/site/gpu/wheels/tiny_thing-1.0-py3-none-any.whl") == b"wheel"
    for path, login, code in (
        ("site/gpu/keys/two", "ci:no", 401),
        ("keys/two", "ci:pw", 404),
        ("site/gpu/no", "ci:pw", 404),
    ):
        with pytest.raises(urllib.error.HTTPError) as error:
            fetch(proxy, f"http://{mirror}/{path}", login)
        assert error.value.code == code
    with pytest.raises(urllib.error.HTTPError) as error:
        fetch(proxy, "http://127.0.0.1:1/")
    assert error.value.code == 502


def test_conditions_are_of_one_kind() -> None:
    assert {type(row) for row in ALL} == {Condition}
