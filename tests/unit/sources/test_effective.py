"""What dnf and apt themselves make of a repository, against what was asked for; apt is a real one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from gpuwright.host.bounded import run_bounded
from gpuwright.sources import apt_files, ask_apt, dnf_files
from gpuwright.sources.ask_dnf import Answer
from gpuwright.sources.effective import of_apt, of_dnf, unsigned_of_apt, unsigned_of_dnf, words
from gpuwright.sources.relied import Relied
from host_tree import HostTree

EL = Relied(
    "cuda", "https://m/x/", "", "/etc/yum.repos.d/cuda.repo", "/etc/pki/rpm-gpg/RPM-GPG-KEY-cuda", "A" * 40, True, True
)
USED = {
    "enabled": True, "gpgcheck": True, "repo_gpgcheck": True, "sslverify": True, "baseurl": ["https://m/x"],
    "gpgkey": [f"file://{EL.key_file}"], "metalink": "", "mirrorlist": "", "file": EL.file,
}  # fmt: skip
TEXT = f"[cuda]\nname=x\nbaseurl=https://m/x/\ngpgkey=file://{EL.key_file}\n"
FOLDERS = ["/etc/yum.repos.d"]


def dnf(text: str = TEXT, path: str = EL.file, **changes: Any) -> list[str]:
    used = {**USED, **changes}
    return [
        words(one) for one in of_dnf(EL, Answer({"cuda": used}, FOLDERS, []), [dnf_files.parse(path, text)], "/none")
    ]


def test_dnf_uses_it_as_written() -> None:
    assert dnf() == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpgcheck": False}, "gpgcheck is 0, and should be 1"),
        ({"repo_gpgcheck": False}, "repo_gpgcheck is 0"),
        ({"sslverify": False}, "sslverify is 0"),
        ({"enabled": False}, "enabled is 0"),
        ({"baseurl": ["http://m/x"]}, "baseurl is http://m/x, and should be https://m/x"),
        ({"baseurl": []}, "baseurl is nothing"),
        ({"mirrorlist": "http://l"}, "mirrorlist is http://l, and should be nothing"),
        ({"gpgkey": ["file:///other"]}, "gpgkey is file:///other"),
        ({"file": "/etc/yum.repos.d/cuda-rhel8.repo"}, "what dnf takes is /etc/yum.repos.d/cuda-rhel8.repo"),
    ],
)
def test_dnf_uses_it_otherwise(changes: dict[str, Any], said: str) -> None:
    [one] = dnf(**changes)
    assert one.startswith(f"{EL.file}:1: ") and said in one


def test_dnf_does_not_know_it() -> None:
    files = [dnf_files.parse(EL.file, TEXT)]
    assert "what dnf takes is nothing" in words(of_dnf(EL, Answer({}, FOLDERS, []), files, "/none")[0])
    assert of_dnf(EL, Answer({}, FOLDERS, []), [], "/none") == [], "nobody has configured it"


def test_dnf_does_not_read_our_folder(tmp_path: Path) -> None:
    host = HostTree(tmp_path)
    host.put(EL.file, TEXT)
    [one] = of_dnf(EL, Answer({}, ["/srv/repos"], []), [], str(tmp_path))
    assert words(one) == "/etc/dnf/dnf.conf: reposdir is /srv/repos, and should be /etc/yum.repos.d"


def test_what_others_have_configured_is_judged_for_what_it_lets_in() -> None:
    other = "/etc/yum.repos.d/vendor.repo"
    text = "[cuda]\nname=x\nbaseurl=https://m/x/\n"
    assert dnf(text, other, file=other, gpgkey=["https://k"], repo_gpgcheck=False) == []
    assert dnf(text, other, file=other, gpgcheck=False, repo_gpgcheck=False) == [
        f"{other}:1: gpgcheck of cuda is 0, and should be 1"
    ]


def test_every_unsigned_repository_of_dnf_is_named_but_for_a_bundles() -> None:
    loose = {**USED, "gpgcheck": False, "repo_gpgcheck": False, "file": "/etc/yum.repos.d/l.repo"}
    known = {"l": loose, "off": {**loose, "enabled": False}, "gpuwright-x": loose, "cuda": USED}
    assert [one.id for one in unsigned_of_dnf(Answer(known, FOLDERS, []), [])] == ["l"]


needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt")
URI = "https://m/deb"
OURS = "Types: deb\nURIs: {uri}\nSuites: /\nSigned-By: {key}\nAllow-Insecure: no\n"


class Apt:
    """A real apt that reads the files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.parts = folder / "parts"
        self.parts.mkdir()
        self.relied = Relied("cuda", URI, "", str(self.parts / "cuda.sources"), "/k.asc", "A" * 40, True, True)
        self.places = apt_files.Places(str(folder / "sources.list"), str(self.parts), "amd64")
        self.options = (
            "-o", f"Dir::Etc::sourcelist={folder}/sources.list", "-o", f"Dir::Etc::sourceparts={self.parts}",
        )  # fmt: skip
        self.put("cuda.sources", OURS.format(uri=URI, key="/k.asc"))

    def put(self, name: str, text: str) -> None:
        (self.parts / name).write_text(text)

    def said(self) -> list[str]:
        answer = ask_apt.ask(self.options)
        if answer.problem:
            return [answer.problem]
        texts = apt_files.read_texts(self.places)
        return [words(one) for one in of_apt(self.relied, answer, ask_apt.Answer((), ""), texts, self.places)]


@pytest.fixture
def apt(tmp_path: Path) -> Apt:
    return Apt(tmp_path)


@needs_apt
def test_apt_uses_it_as_written(apt: Apt) -> None:
    assert apt.said() == []


@needs_apt
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.list", f"deb [signed-by=/other.gpg] {URI}/ /\n", "Conflicting values set for option Signed-By"),
        ("z.list", f"deb [trusted=yes] {URI} /\n", "Conflicting values"),
        ("z.list", f"deb [trusted=yes] {URI} ./\n", "what apt takes is"),
        ("z.list", "deb https://m:443/ deb/\n", "what apt takes is"),
        ("z.list", "deb https://m\n", "Malformed entry 1 in list file"),
        ("z.sources", "Types deb\n", "Unable to parse package file"),
        ("cuda.sources", "Enabled: no\n" + OURS.format(uri=URI, key="/k.asc"), "what apt takes is nothing"),
        ("cuda.sources", OURS.format(uri="https://elsewhere/", key="/k.asc"), "what apt takes is nothing"),
        ("cuda.sources", OURS.format(uri=URI, key="/k.asc") + "Trusted: yes\n", "trusted is yes, and should be no"),
    ],
)
def test_apt_uses_it_otherwise(apt: Apt, name: str, text: str, said: str) -> None:
    apt.put(name, text)
    [one] = apt.said()
    # Of two that contradict each other, apt names the address alone.
    assert said in one and (name in one or "Conflicting" in one)


@needs_apt
def test_a_rehearsal_names_the_real_files_and_changes_nothing(apt: Apt) -> None:
    apt.put("a.list", f"deb [signed-by=/other.gpg] {URI}/ /\n")
    before = sorted((path, path.read_text()) for path in apt.parts.iterdir())
    refused = ask_apt.rehearse({}, apt.places)
    assert "Conflicting values" in refused.problem
    taken = ask_apt.rehearse({f"{apt.parts}/a.list": "# gone\n"}, apt.places)
    assert taken.problem == "" and {target.path for target in taken.targets} == {apt.relied.file}
    broken = ask_apt.rehearse({f"{apt.parts}/a.list": "deb x\n"}, apt.places)
    assert f"list file {apt.parts}/a.list" in broken.problem
    assert sorted((path, path.read_text()) for path in apt.parts.iterdir()) == before


@needs_apt
def test_apt_says_where_its_sources_are() -> None:
    places = ask_apt.read_places(run_bounded)
    assert places.parts.startswith("/") and places.architecture


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('APT::Get::AllowUnauthenticated "true";\n', 1),
        ('# x\nAcquire::AllowInsecureRepositories "1";\n', 2),
        ("APT {\n  Get {\n    AllowUnauthenticated yes;\n  };\n};\n", 3),
        ('Acquire::AllowDowngradeToInsecureRepositories "true";\n', 1),
        ('// APT::Get::AllowUnauthenticated "true";\n', 0),
        ('APT::Get::AllowUnauthenticated "false";\n', 0),
    ],
)
def test_apts_settings_for_all_sources(text: str, line: int) -> None:
    found = unsigned_of_apt({}, {"/etc/apt/apt.conf.d/99x": text})
    assert [one.place for one in found] == ([f"/etc/apt/apt.conf.d/99x:{line}"] if line else [])


def test_every_source_that_apt_trusts_without_a_signature() -> None:
    texts = {"/etc/apt/sources.list": "deb [trusted=yes] http://o/ /\ndeb http://p/ /\n"}
    assert [one.place for one in unsigned_of_apt(texts, {})] == ["/etc/apt/sources.list:1"]
