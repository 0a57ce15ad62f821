"""Reading below a root folder: links stay inside it, and what cannot be read is None or empty."""

from __future__ import annotations

import os

import pytest
from gpuwright.host.files import (
    exists,
    link_target,
    names_in,
    read_assignments,
    read_bytes,
    read_int,
    read_text,
    resolve,
)
from host_tree import HostTree


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path / "root")


def test_an_absolute_link_starts_again_at_the_root(host):
    host.put("/usr/src/kernels/k/Makefile", "ours\n")
    host.link("/lib/modules/k/build", "/usr/src/kernels/k")
    assert read_text(host.root, "/lib/modules/k/build/Makefile") == "ours"


def test_links_cannot_lead_out_of_the_root(host, tmp_path):
    (tmp_path / "secret").write_text("outside")
    host.link("/a", "../../../../../../secret")
    host.put("/secret", "inside")
    assert read_text(host.root, "/a") == "inside"


def test_a_chain_of_relative_links_through_folders(host):
    host.put("/usr/lib64/libx.so.1.2", "x")
    host.link("/usr/lib64/libx.so.1", "libx.so.1.2")
    host.link("/lib64", "usr/lib64")
    assert str(resolve(host.root, "/lib64/libx.so.1")).endswith("/usr/lib64/libx.so.1.2")


@pytest.mark.parametrize("target", ["/loop", "loop", "/nowhere", "../.."])
def test_links_that_lead_nowhere(host, target):
    host.put("/file")
    host.link("/loop", target)
    assert read_text(host.root, "/loop") is None


def test_the_host_itself():
    assert resolve("/", "/proc/self/stat")
    assert exists("/", "/") and exists("/", "/etc/passwd") and not exists("/", "/etc/passwd/x")


@pytest.mark.parametrize("path", ["/absent", "/folder", "/file/below", "/nul\0byte", "/" + "x" * 5000, "/\udcff"])
def test_what_cannot_be_read_is_nothing(host, path):
    host.put("/folder/file")
    host.put("/file")
    assert read_text(host.root, path) is None
    assert read_bytes(host.root, path) is None
    assert read_int(host.root, path) is None
    assert read_assignments(host.root, path) == {}
    assert link_target(host.root, path) is None


def test_a_pipe_is_not_opened(host):
    host.put("/x")
    os.mkfifo(host.folder / "pipe")
    assert read_text(host.root, "/pipe") is None


def test_a_huge_file_is_cut(host):
    host.put("/big", b"x" * 3_000_000)
    assert read_bytes(host.root, "/big") == b"x" * 1024 * 1024


def test_names(host):
    host.put("/folder/b")
    host.put("/folder/a")
    assert names_in(host.root, "/folder") == ["a", "b"]
    assert names_in(host.root, "/absent") == names_in(host.root, "/folder/a") == []


def test_numbers(host):
    for text, expected in {
        "-1\n": -1,
        "16": 16,
        "": None,
        "0x10": None,
        "1 2": None,
        "1_0": None,
        "\u00b2": None,
        "\xff": None,
    }.items():
        host.put("/n", text)
        assert read_int(host.root, "/n") == expected


def test_assignments(host):
    host.put("/f", "# c=1\nA=\"x y\"\nB='z'\nnothing\nC=d=e\n#N=1\n")
    assert read_assignments(host.root, "/f") == {"A": "x y", "B": "z", "C": "d=e"}
