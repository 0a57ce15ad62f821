"""What is fetched is covered by a signature, by a hash, or by https: the roles' own conditions, and pip's options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.gpuwright.node.plugins.filter.logins import address_of

REPOSITORY = Path(__file__).resolve().parents[3]
REPOSITORIES, ENVIRONMENT = REPOSITORY / "roles/system_repository", REPOSITORY / "roles/framework_pytorch"
SIGNED = ("system_repository_packages_signed", "system_repository_metadata_signed")
# As words of a command or of a list.
PIP = re.compile(r"\bpip'?,? +'?install\b")
# What lies in the image already.
OWN_FILES = "--no-deps --no-index --no-build-isolation /source"


def answer(role: Path, condition: str, **known: Any) -> bool:
    """What an expression says with the role's own variables and these."""
    variables = yaml.safe_load((role / "vars/main.yml").read_text())
    return Templar(loader=DataLoader(), variables={**variables, **known}).template("{{ (" + condition + ") | bool }}")


def condition(role: Path, words: str) -> str:
    """Of the one assertion whose name has these words."""
    (task,) = [task for task in yaml.safe_load((role / "tasks/main.yml").read_text()) if words in task["name"]]
    return task["ansible.builtin.assert"]["that"]


@pytest.mark.parametrize(
    "address", ["http://mirror/x/", "HTTP://mirror/x/", "ftp://mirror/x/", "http://me:word@mirror/x"]
)
@pytest.mark.parametrize(
    ("family", "signed", "allowed", "good"),
    [
        ("redhat", (False, False), False, False),
        ("redhat", (False, False), True, True),
        ("redhat", (True, False), False, True),
        ("redhat", (False, True), False, True),
        # apt refuses what is not signed.
        ("debian", (False, False), False, True),
    ],
)
def test_a_repository_by_plain_http_is_signed(
    address: str, family: str, signed: tuple[bool, bool], allowed: bool, good: bool
) -> None:
    that = condition(REPOSITORIES, "tampered with in transit")
    known = {"ansible_facts": {"gpu_node": {"os": {"family": family}}}, **dict(zip(SIGNED, signed, strict=True))}
    known |= {"__system_repository_plain": address_of(address), "system_repository_allow_http": allowed}
    assert answer(REPOSITORIES, that, **known) is good
    assert answer(REPOSITORIES, that, **{**known, "__system_repository_plain": "https://mirror/x/"})


@pytest.mark.parametrize("address", ["http://index/simple", "HTTP://index/simple", "http://me:word@index/simple"])
@pytest.mark.parametrize(
    ("locked", "allowed", "good"), [(False, False, False), (False, True, True), (True, False, True)]
)
def test_an_index_by_plain_http_is_covered_by_hashes(address: str, locked: bool, allowed: bool, good: bool) -> None:
    that = condition(ENVIRONMENT, "tampered with in transit")
    known: dict[str, str | bool] = {"framework_pytorch_wheelhouse": "", "framework_pytorch_index_url": address}
    known |= {"__framework_pytorch_locked": locked, "framework_pytorch_allow_http": allowed}
    assert answer(ENVIRONMENT, that, **known) is good
    assert answer(ENVIRONMENT, that, **{**known, "framework_pytorch_index_url": "https://index/simple"})


@pytest.mark.parametrize(
    ("locked", "allowed", "good"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_an_environment_without_hashes_is_asked_for(locked: bool, allowed: bool, good: bool) -> None:
    known = {"__framework_pytorch_locked": locked, "framework_pytorch_allow_unlocked": allowed}
    assert answer(ENVIRONMENT, condition(ENVIRONMENT, "no lock file"), **known) is good


def test_pip_is_told_to_check_hashes_wherever_there_is_a_lock() -> None:
    for locked, wanted in ((True, "--require-hashes --no-deps"), (False, "")):
        known = {"__framework_pytorch_locked": locked}
        found = yaml.safe_load((ENVIRONMENT / "vars/main.yml").read_text())["__framework_pytorch_strict"]
        assert Templar(loader=DataLoader(), variables=known).template(found) == wanted


def commands() -> list[tuple[str, str]]:
    """(file, text from there on) of each command with which the project installs Python packages of others."""
    files = [
        *REPOSITORY.glob("roles/*/tasks/*.yml"),
        REPOSITORY / "Makefile",
        REPOSITORY / "deploy/container/Containerfile",
    ]
    texts = {str(file.relative_to(REPOSITORY)): re.sub(r"(?m)^\s*#.*$", "", file.read_text()) for file in files}
    found = [(file, text[match.start() :][:200]) for file, text in texts.items() for match in PIP.finditer(text)]
    return [(file, text) for file, text in found if OWN_FILES not in text.split(";")[0]]


def test_every_command_that_installs_packages_checks_hashes() -> None:
    found = commands()
    assert [file for file, _text in found] == [
        "roles/system_cuda/tasks/cudnn_wheel.yml",
        "Makefile",
        "Makefile",
        "deploy/container/Containerfile",
    ]
    assert [text for _file, text in found if "--require-hashes" not in text.split("--requirement")[0]] == []


def test_every_task_that_installs_packages_checks_hashes() -> None:
    """The environment's by what the role says of its lock; the trainer's own wheel comes from the controller."""
    tasks = {file: file.read_text() for file in REPOSITORY.glob("roles/*/tasks/*.yml") if ".pip:\n" in file.read_text()}
    options = {
        file.parts[-3]: re.findall(r"extra_args: (?:>-\n)?((?:.+\n)(?:\s+--?.+\n|\s+\{\{.+\n)*)", text)
        for file, text in tasks.items()
    }
    assert set(options) == {"framework_pytorch", "model_trainer"}
    assert "{{ __framework_pytorch_strict }}" in options["framework_pytorch"][0]
    assert "--no-index" in options["model_trainer"][0] and "--no-deps" in options["model_trainer"][0]
