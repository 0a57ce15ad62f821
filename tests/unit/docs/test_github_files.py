"""What GitHub and pre-commit read. `make lint` holds the form of these files; here is what they must say."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "tests"))
kinds = importlib.import_module("kinds")
actionlint = importlib.import_module("actionlint")
WORKFLOWS = sorted((REPOSITORY / ".github/workflows").iterdir())
# A full commit, and the release that it is as a comment: a tag can be moved, a commit cannot.
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$")


def parsed(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text())


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in parsed(file)["jobs"].values() for step in job["steps"]]


def test_lint_looks_at_every_workflow_and_form() -> None:
    folder = REPOSITORY / ".github/ISSUE_TEMPLATE"
    assert [str(file.relative_to(REPOSITORY)) for file in WORKFLOWS] == list(kinds.WORKFLOWS)
    forms = {str(file.relative_to(REPOSITORY)) for file in folder.iterdir()}
    assert forms == {*kinds.FORMS, ".github/ISSUE_TEMPLATE/config.yml"}


def test_pre_commit_runs_what_make_lint_runs() -> None:
    (repository,) = parsed(REPOSITORY / ".pre-commit-config.yaml")["repos"]
    hooks = {hook["name"]: tuple(hook["entry"].split()) for hook in repository["hooks"]}
    assert hooks == {name: (f".venv/bin/{command[0]}", *command[1:]) for name, command in kinds.LINTERS.items()}
    # Each looks at the whole tree, as in `make lint`, and takes the tool that requirements/dev.lock pins.
    assert repository["repo"] == "local"
    assert all(hook["language"] == "system" and hook["always_run"] for hook in repository["hooks"])
    assert not any(hook["pass_filenames"] for hook in repository["hooks"])


@pytest.mark.parametrize("name", sorted({command[0] for command in kinds.LINTERS.values()} - {"python"}))
def test_every_linter_is_pinned_with_its_hash(name: str) -> None:
    assert re.search(rf"(?m)^{name}==\S+ \\\n +--hash=sha256:", (REPOSITORY / "requirements/dev.lock").read_text())


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_is_pinned_bounded_and_may_only_read(file: Path) -> None:
    text, workflow = file.read_text(), parsed(file)
    assert "never run" in text.splitlines()[1]
    assert workflow["permissions"] == {"contents": "read"} and workflow["concurrency"]["group"]
    assert all(PINNED.search(line) for line in text.splitlines() if "uses:" in line)
    assert all(job["timeout-minutes"] <= 90 for job in workflow["jobs"].values())
    # The token stays out of the checkout's .git/config, where every later step could read it.
    checkouts = [step for step in steps(file) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_every_make_target_of_a_workflow_exists() -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (REPOSITORY / "Makefile").read_text()))
    asked = {
        word
        for file in WORKFLOWS
        for step in steps(file)
        for line in re.findall(r"^make (.*)$", step.get("run", ""), re.MULTILINE)
        for word in re.sub(r"\S*\$\{\{.*?\}\}", "", line).split()
    }
    assert {"lint", "unit", "trainer", "molecule"} <= asked <= targets


def test_ci_tries_the_pythons_that_the_controller_may_have() -> None:
    jobs = parsed(REPOSITORY / ".github/workflows/ci.yml")["jobs"]
    assert jobs["unit"]["strategy"]["matrix"]["python"] == ["3.10", "3.11", "3.12"]
    assert "python36" in jobs["node-side"]["steps"][0]["run"]
    assert jobs["molecule"]["container"]["image"].endswith("debian:12")
    assert "--privileged" in jobs["molecule"]["container"]["options"]


BROKEN = [
    ("      - run: make lint\n        timeout-minute: 3", 'unexpected key "timeout-minute"'),
    ("      - run: echo ${{ github.event.issue.title }}", "potentially untrusted"),
    ("      - run: make ${{ matrix.target }}", 'property "target" is not defined'),
]


def test_actionlint_finds_what_it_is_there_for(tmp_path: Path) -> None:
    text = WORKFLOWS[0].read_text()
    assert "      - run: make lint" in text
    files = [tmp_path / f"{number}.yml" for number in range(len(BROKEN))]
    for file, (line, _words) in zip(files, BROKEN, strict=True):
        file.write_text(text.replace("      - run: make lint", line))
    found = actionlint.findings([*files, WORKFLOWS[1]])
    assert len(found) == len(BROKEN), found
    for file, (_line, words) in zip(files, BROKEN, strict=True):
        (said,) = [one for one in found if one.startswith(f"{file}:")]
        assert words in said


@pytest.fixture
def release(tmp_path: Path) -> Any:
    """Run the step of the release workflow that takes the notes, for a tag, in a copy of what it reads."""
    (script,) = [step["run"] for step in steps(WORKFLOWS[1]) if "notes" in step.get("name", "").lower()]
    for name in ("galaxy.yml", "CHANGELOG.md"):
        shutil.copy(REPOSITORY / name, tmp_path / name)

    def take(tag: str) -> subprocess.CompletedProcess[str]:
        # As GitHub starts a step's script.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        environment = {"PATH": "/usr/bin:/bin", "GITHUB_REF_NAME": tag}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return take


def test_a_tag_of_this_version_takes_its_section_as_notes(release: Any, tmp_path: Path) -> None:
    version = parsed(REPOSITORY / "galaxy.yml")["version"]
    done = release(f"v{version}")
    assert done.returncode == 0, done.stderr
    notes = (tmp_path / "build/notes.md").read_text()
    assert notes.lstrip().splitlines()[0] and "### Added" in notes
    assert "\n## " not in notes and "Unreleased" not in notes


def test_another_tag_or_a_missing_section_is_no_release(release: Any, tmp_path: Path) -> None:
    other = release("v9.9.9")
    assert other.returncode == 1 and "v9.9.9 is not the version" in other.stderr
    (tmp_path / "galaxy.yml").write_text("version: 9.9.9\n")
    missing = release("v9.9.9")
    assert missing.returncode == 1 and "no section 9.9.9" in missing.stderr


def test_a_report_of_a_node_asks_for_its_bundle() -> None:
    body = parsed(REPOSITORY / ".github/ISSUE_TEMPLATE/node.yml")["body"]
    (bundle,) = [field for field in body if field.get("id") == "bundle"]
    assert "sudo gpu-doctor --bundle" in bundle["attributes"]["description"] and bundle["validations"]["required"]
