"""Other sources of a repository: found however they are written, put into comments, and named where that is no use."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuwright.sources import apt_files, dnf_files
from gpuwright.sources.others import Known, Other, apt_others, digest_of, dnf_others, taken_texts, words
from gpuwright.sources.relied import Relied, is_address, plain_address, relied_of

CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
ROW = {"fingerprint": "A" * 40, "packages_signed": True, "metadata_signed": True}
EL = relied_of(
    {"id": "cuda-rhel8-x86_64", "url": f"{CUDA}/rhel8/x86_64/", "also": f"{CUDA}/rhel8/x86_64/", **ROW}, "redhat"
)
MIRROR = EL._replace(url="https://mirror.example/cuda/rhel8/")
DEBIAN = relied_of(
    {"id": "cuda-debian12-x86_64", "url": f"{CUDA}/debian12/x86_64/", "also": f"{CUDA}/debian12/x86_64/", **ROW},
    "debian",
)
TOOLKIT = DEBIAN._replace(id="nvidia-container-toolkit", url="https://nvidia.github.io/x/deb/amd64/", also="")
FREE = Known({}, lambda path: "")
VENDORS = "/etc/yum.repos.d/cuda-rhel8.repo"
SECTION = "[cuda-rhel8-x86_64]\nname=x\nbaseurl=https://elsewhere/\n"
LIST = "/etc/apt/sources.list.d/cuda-debian12-x86_64.list"
LINE = f"deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {CUDA}/debian12/x86_64/ /\n"


@pytest.mark.parametrize(
    "url",
    [
        f"{CUDA}/rhel8/x86_64", f"{CUDA}/rhel8//x86_64/", f"{CUDA}/rhel8/./x86_64/", f"{CUDA}/rhel9/../rhel8/x86_64",
        "http://developer.download.nvidia.com/compute/cuda/repos/rhel8/x86_64/",
        "HTTPS://Developer.Download.NVIDIA.com:443/compute/cuda/repos/rhel8/x86%5F64/",
        "https://me:secret@developer.download.nvidia.com/compute/cuda/repos/rhel8/x86_64/",
        "tor+https://developer.download.nvidia.com./compute/cuda/repos/rhel8/x86_64/",
        "file:///var/cuda-repo-rhel8-12-4-local", "file:/var/nvidia-driver-local-repo-rhel8-580.95.05/",
        "copy:///var/cuda-repo-rhel8-12-4-local/",
    ],
)  # fmt: skip
def test_one_address_has_many_spellings(url: str) -> None:
    assert is_address(plain_address(url), MIRROR)


@pytest.mark.parametrize(
    "url", [f"{CUDA}/rhel9/x86_64/", f"{CUDA}/rhel8/", "https://mirror.example/cuda/rhel8/x", "file:///var/other", "x"]
)
def test_another_address_is_another_repository(url: str) -> None:
    assert not is_address(plain_address(url), MIRROR)


def el(text: str, path: str = VENDORS, relied: Relied = EL, known: Known = FREE) -> list[Other]:
    return dnf_others([relied], [dnf_files.parse(path, text, "/nonexistent", "8")], known)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (SECTION, [1]),
        (SECTION.replace("name=x", "enabled=0\ngpgcheck=0"), [1]),
        (f"# x\n\n[other]\nbaseurl=http://o/\n\n{SECTION}", [6]),
        (f"{SECTION}\n{SECTION}", [1, 5]),
        (f"[x]\nname=x\nbaseurl={CUDA}/rhel$releasever/x86_64\ngpgcheck=0\n", [1]),
        (f"[x]\nname=x\nbaseurl=http://o/, {CUDA}/rhel8/x86_64\n", [1]),
        (f"[x]\nname=x\nbaseurl=http://o/\n  {CUDA}/rhel8/x86_64\n", [1]),
        (f"[x]\nname=x\nbaseurl={CUDA}/rhel8/x86_64\nenabled = False\n", []),
        ("[cuda-rhel8-12-4-local]\nbaseurl=file:///var/cuda-repo-rhel8-12-4-local\n", [1]),
        ("[other]\nbaseurl=http://o/\n", []),
        ("[main]\nreposdir=/x\n", []),
    ],
)
def test_dnfs_sections_are_found(text: str, lines: list[int]) -> None:
    assert [other.entry.line for other in el(text)] == lines
    assert [other.why for other in el(text)] == [""] * len(lines)


@pytest.mark.parametrize("path", ["/etc/dnf/dnf.conf", "/etc/yum/repos.d/a.repo", "/etc/yum.repos.d/zz.repo", EL.file])
def test_in_whichever_file_they_are(path: str) -> None:
    assert [other.entry.place for other in el("[main]\n" * path.endswith("conf") + SECTION, path)] == [
        f"{path}:{2 if path.endswith('conf') else 1}"
    ]


def test_what_we_have_written_is_no_other_whatever_somebody_did_to_it() -> None:
    ours = f"{SECTION}gpgkey = file://{EL.key_file}\ngpgcheck = 1\n"
    assert el(ours, EL.file) == [] and el(ours.replace("gpgcheck = 1", "enabled = 0"), EL.file) == []
    assert el(ours, "/etc/yum.repos.d/copy.repo"), "a copy elsewhere is another one"


def test_the_vendors_own_address_is_no_second_source_beside_a_mirror() -> None:
    assert el(f"[x]\nbaseurl={CUDA}/rhel8/x86_64/\n", relied=MIRROR)


def test_a_section_goes_into_comments_and_all_else_stays() -> None:
    text = f"# head\n[other]\nbaseurl=http://o/\n\n# about it\n{SECTION}proxy=\n  _none_\n\n# foot\n[last]\nname=l"
    after = taken_texts(el(text), {VENDORS: text})[VENDORS]
    assert el(after) == [] and dnf_files.parse(VENDORS, after).problem == ""
    assert [entry.id for entry in dnf_files.parse(VENDORS, after).entries] == ["other", "last"]
    kept = [
        line for line in text.splitlines() if line not in SECTION.splitlines() and line not in ("proxy=", "  _none_")
    ]
    assert [line for line in after.splitlines() if line in kept] == kept
    assert "# [cuda-rhel8-x86_64]\n# name=x\n" in after and f"is in {EL.file}" in after


@pytest.mark.parametrize(
    ("text", "line"), [("hello\n", 1), (f"{SECTION}gpgcheck 0\n", 4), ("[x\n", 1), (" gpgcheck=0\n", 1), ("=1\n", 1)]
)
def test_a_file_that_dnf_cannot_parse_is_named_where_it_is_about_ours(text: str, line: int) -> None:
    [other] = el(text + SECTION)
    assert f"{VENDORS}:{line} names" in words(other) and "Mend that line" in words(other)
    assert el("hello\n") == [] and dnf_files.parse(VENDORS, "hello\n").problem.startswith("line 1: ")


def apt(text: str, path: str = LIST, relied: Relied = DEBIAN, known: Known = FREE) -> list[Other]:
    return apt_others([relied], {path: text}, "amd64", known)


def stanza(**fields: str) -> str:
    values = {"Types": "deb", "URIs": f"{CUDA}/debian12/x86_64/", "Suites": "/", **fields}
    return "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in values.items())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (LINE, [1]),
        (f"# x\n\n{LINE}", [3]),
        (f"deb {CUDA}/debian12/x86_64 /\n", [1]),
        (f"deb {CUDA}/ debian12/x86_64/\n", [1]),
        (f"deb [ arch=amd64,i386 trusted=yes ] {CUDA}/debian12/x86_64 ./ # why\n", [1]),
        (f"deb-src [lang=none] {CUDA}/debian12/x86_64 /\n{LINE}", [1, 2]),
        (f"# {LINE}", []),
        (f"deb {CUDA}/debian12/x86_64 stable main\n", []),
        ("deb https://mirror.example.org/debian bookworm main\n", []),
        ("deb [signed-by=/x.gpg] file:///var/cuda-repo-debian12-12-4-local /\n", [1]),
        ("deb https://nvidia.github.io/x/deb/$(ARCH) /\n", []),
        ("nonsense\n", []),
    ],
)
def test_apts_lines_are_found(text: str, lines: list[int]) -> None:
    assert [other.entry.line for other in apt(text)] == lines
    after = taken_texts(apt(text), {LIST: text}, "amd64")
    assert all(apt(one) == [] for one in after.values()) and bool(after) is bool(lines)


def test_apts_word_for_the_architecture() -> None:
    assert apt("deb https://nvidia.github.io/x/deb/$(ARCH) /\n", relied=TOOLKIT)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (stanza(), [1]),
        (stanza(Signed_By="\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQ"), [1]),
        (stanza(Enabled="no"), []),
        (f"# head\n\n{stanza(URIs='http://o/')}\n\n# mine\n{stanza(Types='deb deb-src')}", [9]),
        (stanza(URIs=f"http://o/ {CUDA}/debian12/x86_64"), [1]),
        (stanza(URIs=f"http://o/\n {CUDA}/debian12/x86_64"), [1]),
        (stanza(Suites="/ ./"), [1]),
        (stanza(URIs="http://o/"), []),
    ],
)
def test_apts_stanzas_are_found(text: str, lines: list[int]) -> None:
    path = "/etc/apt/sources.list.d/x.sources"
    others = apt(text, path)
    assert [other.entry.line for other in others] == lines and not any(other.why for other in others)
    for after in taken_texts(others, {path: text}, "amd64").values():
        assert apt(after, path) == []
        assert ("http://o/" in after.replace("# ", "")) is ("http://o/" in text)
        left = [address for entry in apt_files.parse(path, after) for address in entry.addresses]
        assert left == (["http://o/"] if "http://o/" in text else [])


def test_a_stanza_of_several_suites_is_named() -> None:
    [other] = apt(stanza(Suites="/ stable", Components="main"), "/etc/apt/sources.list.d/x.sources")
    assert "other suites" in words(other)


@pytest.mark.parametrize(
    "head",
    [
        "# This file is managed by Puppet",
        "# Ansible managed",
        "#\n# DO NOT EDIT\n#",
        "# Managed by (rhsm) subscription-manager",
    ],
)
def test_a_file_that_a_tool_keeps_is_named(head: str) -> None:
    [other] = el(f"{head}\n{SECTION}")
    assert "a tool keeps that file" in words(other)
    [other] = apt(f"{head}\n{LINE}")
    assert LIST in words(other) and "Have that tool leave it out" in words(other)


def test_cloud_init_writes_once_and_is_taken_over() -> None:
    assert [other.why for other in apt(f"## Note, this file is written by cloud-init on first boot\n{LINE}")] == [""]


def test_what_comes_back_is_named_and_what_is_new_is_taken_over() -> None:
    [first] = el(SECTION)
    known = Known({VENDORS: [digest_of(first.entry)]}, lambda path: "")
    [again] = el(f"# another head\n\n{SECTION}", known=known)
    assert "has come back" in words(again) and f"{VENDORS}:3" in words(again)
    assert [other.why for other in el(SECTION + "gpgcheck=0\n", known=known)] == [""]


def test_what_could_not_be_brought_back_is_named(tmp_path: Path) -> None:
    [other] = el(SECTION, known=Known({}, lambda path: "it is larger than 1 MiB"))
    assert "could not bring it back (it is larger than 1 MiB)" in words(other)


def test_dnf_looks_where_its_configuration_says(tmp_path: Path) -> None:
    for path, text in {
        "etc/os-release": "VERSION_ID=8.8\n",
        "etc/dnf/dnf.conf": "[main]\nreposdir=/a, /b\n[inside]\nbaseurl=http://i/\n",
        "etc/yum.repos.d/x.repo": SECTION,
        "a/z.repo": SECTION,
        "b/a.repo": SECTION,
        "b/a.repo.bak": SECTION,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    files = dnf_files.read_files(str(tmp_path))
    assert [file.path for file in files] == ["/etc/dnf/dnf.conf", "/a/z.repo", "/b/a.repo"]
    assert [entry.id for file in files for entry in file.entries] == ["inside", *["cuda-rhel8-x86_64"] * 2]
