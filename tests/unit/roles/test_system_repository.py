"""The role system_repository, run by ansible-playbook on temporary folders, with real keys and, for apt, a real apt."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from signing_keys import SigningKey, signing_key
from test_repository_key import primary_keys

CANARY = "c4nary-secret"
VENDOR, OTHER = signing_key("vendor"), signing_key("other")
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
SYSTEM_PYTHON = "/usr/bin/python3"
# rpm of a host on which no key is imported; what is imported is kept.
RPM = """#!/bin/sh
case "$*" in *--import*) for last; do :; done; cat "$last" >> {imported};; esac
"""
# The real apt with the folders of the test: what root starts inherits no APT_CONFIG.
APT = """#!/bin/sh
APT_CONFIG={folder}/apt.conf exec /usr/bin/{name} "$@"
"""


class Handler(SimpleHTTPRequestHandler):
    """Files for those who log in."""

    def do_GET(self) -> None:
        wanted = "Basic " + base64.b64encode(f"mirror:{CANARY}".encode()).decode()
        if self.path.startswith("/locked") and self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="mirror"')
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *arguments: Any) -> None:
        pass


class Site:
    """A mirror, the folders of a node, and runs of the role on them."""

    def __init__(self, folder: Path, port: int) -> None:
        self.mirror, self.node, self.port = folder / "mirror", folder / "node", port
        self.folder = folder
        self.folders = {name: str(self.node / name) for name in ("apt_keys", "sources", "logins", "rpm_keys", "dnf")}
        for path in [
            *map(Path, self.folders.values()),
            self.mirror / "locked",
            self.node / "lists/partial",
            self.node / "cache/archives/partial",
        ]:
            path.mkdir(parents=True)
        self.umask = 0o022
        self.log = ""

    def publish(self, keys: bytes, signer: SigningKey) -> None:
        """A flat repository without packages, signed by one key, and a file with the keys of those who are trusted."""
        (self.mirror / "locked/key").write_bytes(keys)
        (self.mirror / "locked/Packages").write_text("")
        digest = hashlib.sha256(b"").hexdigest()
        date = "Sat, 01 Jan 2022 00:00:00 UTC"
        (self.mirror / "locked/InRelease").write_bytes(signer.sign(f"Date: {date}\nSHA256:\n {digest} 0 Packages\n"))

    def address(self, path: str, login: str = f"mirror:{CANARY}@") -> str:
        return f"http://{login}127.0.0.1:{self.port}/locked/{path}"

    def run(self, family: str, *arguments: str, **variables: Any) -> int:
        python = SYSTEM_PYTHON if family == "debian" else sys.executable
        known = {
            "ansible_facts": {"gpu_node": {"os": {"family": family}}},
            "system_repository_id": "vendor",
            "system_repository_url": self.address(""),
            "system_repository_key_url": self.address("key"),
            "system_repository_key_fingerprint": VENDOR.fingerprint,
            "__system_repository_folders": self.folders,
            "ansible_python_interpreter": python,
            **variables,
        }
        # The filters come with the role preflight, which every play begins with; the packages are there.
        tasks = [{"ansible.builtin.include_role": {"name": "gpuwright.node.system_repository"}, "vars": {}}]
        play = [
            {
                "hosts": "localhost",
                "gather_facts": False,
                "become": False,
                "roles": [{"role": "gpuwright.node.preflight", "when": False}],
            }
        ]
        play[0]["tasks"] = tasks
        (self.folder / "play.yml").write_text(yaml.safe_dump(play))
        (self.folder / "vars.json").write_text(json.dumps(known))
        apt = f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{self.folders["sources"]}";\n'
        apt += f'Dir::Etc::netrcparts "{self.folders["logins"]}";\nDir::State::lists "{self.node}/lists";\n'
        apt += f'Dir::Cache "{self.node}/cache";\nAPT::Sandbox::User "root";\nDir::Etc::trustedparts "/nonexistent";\n'
        apt += 'APT::Update::Error-Mode "any";\n'
        (self.folder / "apt.conf").write_text(apt)
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "no_proxy": "*"}
        environment["PATH"] = f"{self.folder}/bin:{environment['PATH']}"
        command = [str(PLAYBOOK), "-i", "localhost,", "-c", "local", str(self.folder / "play.yml"), *arguments]
        done = subprocess.run(
            [*command, "-e", f"@{self.folder}/vars.json"],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            umask=self.umask,
        )
        self.log = done.stdout + done.stderr
        return done.returncode

    def files(self) -> dict[str, tuple[int, str]]:
        """Mode and text of what was written, by its path."""
        paths = [path for name in self.folders.values() for path in Path(name).rglob("*") if path.is_file()]
        return {
            str(path.relative_to(self.node)): (stat.S_IMODE(path.stat().st_mode), path.read_text()) for path in paths
        }

    @property
    def text(self) -> str:
        return " ".join(self.log.split())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path / "mirror")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = Site(tmp_path, server.server_port)
    (tmp_path / "bin").mkdir()
    programs = {"rpm": RPM.format(imported=tmp_path / "imported")}
    programs.update({name: APT.format(folder=tmp_path, name=name) for name in ("apt-get", "apt-config")})
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    yield made
    server.shutdown()
    server.server_close()


has_apt = subprocess.run([SYSTEM_PYTHON, "-c", "import apt"], capture_output=True).returncode == 0
needs_apt = pytest.mark.skipif(not has_apt, reason="this machine is no Debian with python3-apt")


@needs_apt
def test_apt_accepts_the_pinned_key_alone(site: Site) -> None:
    site.publish(VENDOR.public, VENDOR)
    assert site.run("debian") == 0, site.log
    assert primary_keys(Path(site.folders["apt_keys"]) / "vendor.asc") == [VENDOR.fingerprint]
    assert list((site.node / "lists").glob("*InRelease")), "apt has read nothing"
    assert site.run("debian") == 0 and "changed=0" in site.text, site.log
    site.publish(VENDOR.public + OTHER.public, OTHER)
    done = subprocess.run([f"{site.folder}/bin/apt-get", "update", "-q"], capture_output=True, text=True)
    assert done.returncode != 0 and "NO_PUBKEY" in done.stdout + done.stderr


@needs_apt
def test_a_key_file_with_another_key_is_refused(site: Site) -> None:
    """Whoever owns the other key could sign packages; the metadata are the vendor's all the same."""
    site.publish(VENDOR.public + OTHER.public, VENDOR)
    assert site.run("debian") != 0
    assert "holds 2 primary keys" in site.text and site.files() == {}


@needs_apt
def test_a_repository_of_another_signer_is_taken_back(site: Site) -> None:
    site.publish(VENDOR.public, OTHER)
    assert site.run("debian") != 0
    assert "must have the fingerprint" in site.text and site.files() == {}


@needs_apt
def test_what_was_good_before_stays(site: Site) -> None:
    site.publish(VENDOR.public, VENDOR)
    assert site.run("debian") == 0, site.log
    before = site.files()
    assert site.run("debian", system_repository_url=site.address("nowhere/")) != 0
    assert site.files() == before
    assert site.run("debian", system_repository_key_fingerprint=OTHER.fingerprint) != 0
    assert site.files() == before and f"instead of {OTHER.fingerprint}" in site.text


@needs_apt
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_apt_logs_in_and_nobody_reads_how(site: Site, umask: int) -> None:
    site.umask = umask
    site.publish(VENDOR.public, VENDOR)
    assert site.run("debian", "-vvv", "--diff") == 0, site.log
    assert CANARY not in site.log
    files = site.files()
    assert {path for path, (_mode, text) in files.items() if CANARY in text} == {"logins/gpuwright-vendor.conf"}
    assert {path: mode for path, (mode, _text) in files.items()} == {
        "apt_keys/vendor.asc": 0o644,
        "logins/gpuwright-vendor.conf": 0o600,
        "sources/vendor.sources": 0o644,
    }
    assert site.run("debian", "-vvv", system_repository_url=site.address("nowhere/")) != 0
    assert CANARY not in site.log
    assert site.run("debian", "-vvv", system_repository_key_url=site.address("nothing")) == 0


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_dnf_logs_in_and_nobody_reads_how(site: Site, umask: int) -> None:
    site.umask = umask
    site.publish(VENDOR.public, VENDOR)
    assert site.run("redhat", "-vvv", "--diff") == 0, site.log
    assert CANARY not in site.log
    files = site.files()
    mode, text = files["dnf/vendor.repo"]
    assert mode == 0o600 and f"password = {CANARY}" in text and f"baseurl = {site.address('', '')}" in text
    assert [path for path, (_mode, text) in files.items() if CANARY in text] == ["dnf/vendor.repo"]
    assert files["rpm_keys/RPM-GPG-KEY-vendor"][0] == 0o644
    assert primary_keys(site.folder / "imported") == [VENDOR.fingerprint]
    assert site.run("redhat", system_repository_url="https://mirror/x/") == 0
    assert site.files()["dnf/vendor.repo"][0] == 0o644 and CANARY not in str(site.files())


@pytest.mark.parametrize("address", ["key-that-is-not-there", ""])
def test_a_failure_tells_no_password(site: Site, address: str) -> None:
    site.publish(OTHER.public, VENDOR)
    assert site.run("redhat", "-vvv", system_repository_key_url=site.address(address)) != 0
    assert CANARY not in site.log and "must have the fingerprint" in site.text and site.files() == {}


@pytest.mark.parametrize(
    ("family", "variables", "refused"),
    [
        ("redhat", {"packages": False, "metadata": False}, True),
        ("redhat", {"packages": False, "metadata": False, "allow": True}, False),
        ("redhat", {"packages": False, "metadata": True}, False),
        ("redhat", {"packages": True, "metadata": False}, False),
    ],
)
def test_plain_http_is_for_what_is_signed(site: Site, family: str, variables: dict[str, bool], refused: bool) -> None:
    site.publish(VENDOR.public, VENDOR)
    names = {"packages": "packages_signed", "metadata": "metadata_signed", "allow": "allow_http"}
    done = site.run(family, **{f"system_repository_{names[name]}": value for name, value in variables.items()})
    assert (done != 0) is refused, site.log
    assert ("is plain http and neither" in site.text) is refused and (site.files() == {}) is refused


@needs_apt
def test_another_source_of_the_address_is_taken_over_once(site: Site) -> None:
    """apt would refuse all of its sources: they have two keys for one address."""
    site.publish(VENDOR.public, VENDOR)
    vendors = Path(site.folders["sources"]) / "vendor-guide.list"
    line = f"deb [signed-by=/usr/share/keyrings/vendor.gpg] http://127.0.0.1:{site.port}/locked /\n"
    vendors.write_text(
        f"# head\n{line}deb [trusted=yes] file:///nonexistent /\n".replace("deb [trusted", "# deb [trusted")
    )
    before = vendors.read_text()
    assert site.run("debian", "--check") == 0 and vendors.read_text() == before, site.log
    # What cannot be read leaves everything as it was.
    assert site.run("debian", system_repository_url=f"http://127.0.0.1:{site.port}/locked/") != 0
    assert "[repository.lists]" in site.text and "must have the fingerprint" not in site.text
    assert site.files().keys() == {"sources/vendor-guide.list"} and vendors.read_text() == before
    assert site.run("debian") == 0, site.log
    assert f"# {line}" in vendors.read_text() and f"\n{line}" not in vendors.read_text()
    assert site.run("debian") == 0 and "changed=0" in site.text, site.log


@needs_apt
def test_a_source_that_cannot_be_parsed_or_belongs_to_a_tool_is_named(site: Site) -> None:
    site.publish(VENDOR.public, VENDOR)
    vendors = Path(site.folders["sources"]) / "vendor-guide.list"
    for text, words in {
        "deb http://127.0.0.1\n": (f"Malformed entry 1 in list file {vendors}", "[repository.sources]"),
        f"# Managed by Puppet\ndeb http://127.0.0.1:{site.port}/locked/ /\n": (
            f"{vendors}:2 names vendor",
            "elsewhere]",
        ),
    }.items():
        vendors.write_text(text)
        vendors.chmod(0o644)
        assert site.run("debian") != 0
        assert all(word in site.text for word in words) and "must have the fingerprint" not in site.text, site.log
        assert site.files() == {"sources/vendor-guide.list": (0o644, text)}
