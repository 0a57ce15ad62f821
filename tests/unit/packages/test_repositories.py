"""Repositories are asked before anything is changed: what answers, what does not, through which proxy, how long."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from gpuwright.packages import repositories
from gpuwright.packages.repositories import expand, read_proxy, unreachable, why_unreachable, without_login
from host_tree import HostTree
from signing_keys import signing_key
from test_plan_questions import MATRIX
from test_preflight import host as make_probe
from test_preflight import plan as make_plan

KEY = "etc/pki/rpm-gpg/RPM-GPG-KEY-epel"


@pytest.fixture
def node(tmp_path: Any) -> HostTree:
    return HostTree(tmp_path / "node")


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server() -> Iterator[Any]:
    """A web server; `seen` holds what it was asked for, an absolute address where it was asked as a proxy."""

    class Server(ThreadingHTTPServer):
        def __init__(self) -> None:
            super().__init__(("127.0.0.1", 0), Handler)
            self.seen: list[tuple[str, str | None]] = []
            self.url = f"http://127.0.0.1:{self.server_port}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.seen.append((self.path, self.headers.get("Proxy-Authorization")))
            known = {"/repo/repodata/repomd.xml": b'<?xml version="1.0"?>\n<repomd xmlns=""/>', "/key": b"a key"}
            known["/portal/repodata/repomd.xml"] = b"<html>Please log in</html>"
            path = self.path.replace("http://mirror.invalid", "")
            if path.startswith("/locked"):
                path = path.replace("/locked", "/repo" if "xml" in path else "")
                if self.headers.get("Authorization") != "Basic " + base64.b64encode(b"u:canary").decode():
                    path = "401"
            self.send_response(200 if path in known else 401 if path == "401" else 404)
            self.end_headers()
            self.wfile.write(known.get(path, b""))

        def log_message(self, *arguments: Any) -> None:
            pass

    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def silence() -> Iterator[str]:
    """Address of a port that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


VENDOR, OTHER = signing_key("vendor"), signing_key("other")


def epel(url: str, key_url: str) -> list[dict[str, Any]]:
    names = {"variable": "system_kernel_epel_url", "key_variable": "system_kernel_epel_key_url"}
    return [{"name": "epel", "url": url, "key_url": key_url, "packages": ["dkms"], **names}]


def test_what_answers_is_no_finding(node: HostTree, server: Any) -> None:
    assert unreachable(epel(server.url + "/repo/", server.url + "/key"), 8, node.root) == []
    assert {path for path, _login in server.seen} == {"/repo/repodata/repomd.xml", "/key"}


def test_a_login_is_sent_and_never_told(node: HostTree, server: Any) -> None:
    rows = epel(server.url + "/locked/", server.url + "/locked/key")
    rows[0] |= {"user": "u", "key_user": "u"}
    passwords = {"system_kernel_epel_url": "canary", "system_kernel_epel_key_url": "canary"}
    assert unreachable(rows, 8, node.root, passwords=passwords) == []
    refused = unreachable(rows, 8, node.root, passwords={**passwords, "system_kernel_epel_key_url": "other"})
    assert [row["why"] for row in refused] == ["HTTP 401 Unauthorized"] and "other" not in str(refused)
    for url in ("http://u:canary@mirror.invalid:x/", "https://u:canary@"):
        assert "canary" not in why_unreachable(url, None, str)


def test_a_key_that_is_there_is_not_asked_for(node: HostTree, server: Any) -> None:
    node.put("/" + KEY)
    assert unreachable(epel(server.url + "/repo", "http://nowhere.invalid/key"), 8, node.root) == []


def test_each_address_is_a_finding_of_its_own(node: HostTree, server: Any) -> None:
    found = unreachable(epel(server.url + "/portal", server.url + "/no-key"), 8, node.root)
    assert [row["variable"] for row in found] == ["system_kernel_epel_url", "system_kernel_epel_key_url"]
    assert "something other than the metadata" in found[0]["why"] and found[1]["why"] == "HTTP 404 Not Found"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (VENDOR.public, ""),
        (VENDOR.public + OTHER.public, f"only {VENDOR.fingerprint} is expected; also in it: {OTHER.fingerprint}"),
        (OTHER.public, f"it holds {OTHER.fingerprint} instead of {VENDOR.fingerprint}"),
        (b"<html>log in</html>", "it holds no key at all"),
    ],
    ids=["alone", "two", "another", "portal"],
)
def test_a_key_file_is_the_pinned_key_alone(node: HostTree, tmp_path: Path, sent: bytes, words: str) -> None:
    """Before anything is changed: who holds another key of the file could sign packages."""
    (tmp_path / "key").write_bytes(sent)
    (tmp_path / "repodata").mkdir()
    (tmp_path / "repodata/repomd.xml").write_text("<repomd>")
    rows = epel(f"file://{tmp_path}", f"file://{tmp_path}/key")
    found = unreachable([{**rows[0], "key_fingerprint": VENDOR.fingerprint}], 8, node.root)
    assert [row["refused"] for row in found] == [True] * bool(words)
    assert all(words in row["why"] for row in found)
    # Nobody has told which one is meant, or nobody can read keys: the module that keeps it looks again.
    assert unreachable(rows, 8, node.root) == []


def test_nobody_is_waited_for_beyond_the_deadline(
    node: HostTree, silence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "ANSWER_SECONDS", 1)
    found = unreachable(epel(silence, silence), 8, node.root)
    assert [row["why"] for row in found] == ["no answer within 1 s"] * 2


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9/x", "refused"),
        ("http://nowhere.invalid/x", "not known"),
        ("file:///nonexistent/x", "o such file"),
        ("x://y", "unknown url type"),
        ("no address", "unknown url type"),
    ],
)
def test_reasons_are_words(url: str, words: str) -> None:
    assert words in why_unreachable(url, None, str)


def test_a_server_without_tls_is_named(server: Any) -> None:
    assert why_unreachable(server.url.replace("http", "https"), None, str).startswith("TLS: ")


def test_a_folder_of_the_node_is_a_repository_too(node: HostTree) -> None:
    node.put("/mirror/repodata/repomd.xml", "<repomd>")
    url = f"file://{node.root}/mirror"
    assert unreachable(epel(url, url + "/repodata/repomd.xml"), 8, node.root) == []


def test_the_proxy_of_dnf_is_used(node: HostTree, server: Any) -> None:
    node.put("/etc/dnf/dnf.conf", f"[main]\nproxy={server.url}\nproxy_username=me\nproxy_password=secret\n")
    node.put("/" + KEY)
    assert unreachable(epel("http://mirror.invalid/repo", ""), 8, node.root) == []
    assert server.seen == [("http://mirror.invalid/repo/repodata/repomd.xml", "Basic bWU6c2VjcmV0")]


@pytest.mark.parametrize(
    ("main", "own", "proxy"),
    [
        ("", "", None),
        ("proxy=http://p:3128", "", "http://p:3128"),
        ("proxy=http://p:3128", "proxy=_none_", ""),
        ("proxy=", "", ""),
        ("proxy=p:3128", "proxy_username=a\nproxy_password=b", "http://a:b@p:3128"),
        ("proxy=http://a:b@p:3128\nproxy_username=c", "", "http://a:b@p:3128"),
        ("proxy=socks5://p", "", "socks5://p"),
        ("[broken", "", None),
    ],
)
def test_proxies_of_dnf(node: HostTree, main: str, own: str, proxy: str | None) -> None:
    node.put("/etc/dnf/dnf.conf", "[main]\n" + main + "\n")
    node.put("/etc/yum.repos.d/epel.repo", "[epel]\nname=x\n" + own + "\n")
    assert read_proxy(node.root, "epel") == proxy


def test_a_proxy_that_cannot_be_spoken_to_is_not_judged() -> None:
    assert why_unreachable("http://nowhere.invalid", "socks5://p", str) == ""


def test_variables_of_dnf_are_filled_in(node: HostTree) -> None:
    node.put("/etc/dnf/vars/site", "berlin\n")
    assert expand("http://m/$releasever/${basearch}/$site/$other", node.root, 8) == "http://m/8/x86_64/berlin/$other"


def test_a_password_is_not_shown() -> None:
    assert without_login("https://me:secret@mirror/x") == "https://***@mirror/x"


def test_the_module_asks_where_packages_are_missing(
    run_module: Callable[..., dict], fake_bin: Callable, server: Any
) -> None:
    """As the node runs it; where nothing is missing nobody is asked."""
    rpm = '#!/bin/sh\ncase "$*" in *dkms*) echo package dkms is not installed; exit 1;; esac\n'
    arguments = {"host": make_probe(), "plan": make_plan(), "space": MATRIX["space"], "space_percent": 0}
    (row,) = epel(server.url + "/nothing", server.url + "/key")
    arguments["repositories"] = [{**row, "key_fingerprint": "9" * 40}]
    fake_bin("rpm", rpm)
    rows = run_module("preflight_checks", json.loads(json.dumps(arguments)))["problems"]
    # The test machine may have a key of EPEL or none, so only the repository is looked at.
    row = next(row for row in rows if "epel" in row["problem"])
    assert row["problem"] == "The repository epel cannot be reached from this host" and row["stops"]
    assert row["evidence"] == server.url + "/nothing/repodata/repomd.xml: HTTP 404 Not Found"
    assert "system_kernel_epel_url" in row["next"] and "curl -I" in row["next"]
    server.seen.clear()
    fake_bin("rpm", "#!/bin/sh\n")
    assert run_module("preflight_checks", json.loads(json.dumps(arguments)))["problems"] == []
    assert server.seen == []
