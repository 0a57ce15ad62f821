"""Every page names things that are there: variables with values they take, options, files, units, playbooks."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables import rules as variables
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests"))

from page_commands import blocks, spans

# The changelog tells what was, too.
FILES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *REPOSITORY.glob("docs/**/*.md")]
PAGES = sorted(str(file.relative_to(REPOSITORY)) for file in FILES)
# Lists misspelt variables and wrong values, since those are faults.
TAKEN = [page for page in PAGES if page != "docs/faults.md"]
PREFIX = r"(?:kickstart|system|framework|model|verify|preflight|gpuwright)_"
# A folder of the checkout, at whose top a path of a page may begin.
TOP = (
    "roles",
    "playbooks",
    "inventory",
    "docs",
    "tests",
    "plugins",
    "library",
    "requirements",
    "trainer",
    "deploy",
    "monitoring",
    "tools",
)
PRODUCT = (
    "roles",
    "playbooks",
    "plugins",
    "library",
    "trainer",
    "deploy",
    "tools",
    "tests/fleet",
    "tests/run.py",
    "tests/kinds.py",
    "tests/trainer_kinds.py",
    "Makefile",
    "site.yml",
)
# Of other programs, which a page tells of: what begins with these is not ours.
OURS = ("gpu-run", "gpu-doctor", "gpu-tune", "gpu-plan", "train-gan", "sudo gpu-", "tools/gpu-plan", "--")
# ansible-playbook's, podman's, mpirun's.
FOREIGN = {"--tags", "--check", "--diff", "--limit", "--userns", "--bind-to", "--max-restarts"}
FOLDER = re.compile(r"(?<!\S)/(?:etc|var/lib|opt|usr/local/(?:bin|lib)|run)/gpuwright(?![\w-])[^\s`,)]*")
UNIT = re.compile(r"(?:gpuwright-|train-gan)[\w@-]*\.(?:service|timer|socket|target|path)")


@functools.cache
def product() -> str:
    """All text of what is shipped, and of the tests' own tools."""
    files = [REPOSITORY / name for name in PRODUCT]
    found = [path for file in files for path in ([file] if file.is_file() else sorted(file.rglob("*")))]
    kept = [path for path in found if path.is_file() and "__pycache__" not in path.parts and "locks" not in path.parts]
    return "\n".join([*(path.read_text(errors="replace") for path in kept), *map(str, kept)])


@functools.cache
def specs() -> dict[str, dict[str, Any]]:
    files = sorted(REPOSITORY.glob("roles/*/meta/argument_specs.yml"))
    return {
        file.parts[-3]: yaml.safe_load(file.read_text())["argument_specs"]["main"].get("options") or {}
        for file in files
    }


def page_spans(page: str) -> list[str]:
    return spans((REPOSITORY / page).read_text())


def settings(page: str) -> Iterator[tuple[str, Any]]:
    """Variables to which the page gives a value: `name: value`, `-e name=value`, and whole files in YAML."""
    texts = [text for text in page_spans(page) if re.match(rf"{PREFIX}\w+: ", text)]
    texts += [block.text for block in blocks((REPOSITORY / page).read_text()) if block.language == "yaml"]
    for text in texts:
        try:
            read = yaml.safe_load(text)
        except yaml.YAMLError:
            continue
        found = read if isinstance(read, dict) else {}
        yield from (item for item in found.items() if re.match(PREFIX, str(item[0])))
    for text in page_spans(page):
        yield from re.findall(rf"-e ({PREFIX}\w+)=(\w+)", text)


@pytest.mark.parametrize("page", TAKEN)
def test_a_value_that_a_page_gives_is_taken(page: str) -> None:
    # `{id: reason}` and ... stand for what a reader writes.
    given = {name: value for name, value in settings(page) if not re.search(r"\bid\b|\.\.\.|[|]|, ", str(value))}
    assert variables.variable_problems(given, specs()) == []


@pytest.mark.parametrize("page", TAKEN)
def test_a_variable_that_a_page_names_is_there(page: str) -> None:
    known = {name for options in specs().values() for name in options} | set(specs())
    named = {word for text in page_spans(page) for word in re.findall(rf"(?<![\w./-]){PREFIX}\w+\b(?![*.(/])", text)}
    gone = [word for word in named - known if not re.search(rf"\b{word}\b", product())]
    assert gone == []


@pytest.mark.parametrize("page", PAGES)
def test_an_option_that_a_page_names_is_there(page: str) -> None:
    texts = [text for text in page_spans(page) if text.startswith(OURS)]
    named = {option for text in texts for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text.partition(" -- ")[0])}
    gone = [option for option in named - FOREIGN if not re.search(rf"{option}\b", product())]
    assert gone == []


@pytest.mark.parametrize("page", PAGES)
def test_a_file_that_a_page_names_is_there(page: str) -> None:
    text = (REPOSITORY / page).read_text()
    named = [word for span in page_spans(page) for word in span.split() if word.split("/")[0] in TOP and "/" in word]
    paths = [re.sub(r"<[^>]*>|\.\.\.", "*", word.rstrip(".,;:")) for word in named]
    gone = [path for path in paths if not any(REPOSITORY.glob(path.rstrip("/")))]
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)", text)
    gone += [link for link in links if not ((REPOSITORY / page).parent / link).exists()]
    assert gone == []


@pytest.mark.parametrize("page", PAGES)
def test_a_section_that_a_page_links_to_is_there(page: str) -> None:
    file = REPOSITORY / page
    gone = []
    for name, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", file.read_text()):
        target = file.parent / name if name else file
        headings = re.findall(r"(?m)^#+ (.+)$", target.read_text())
        # As GitHub makes them: lower case, no punctuation, a hyphen for each blank.
        if anchor not in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}:
            gone.append(f"{name}#{anchor}")
    assert gone == []


@pytest.mark.parametrize("page", PAGES)
def test_a_unit_or_folder_of_the_node_that_a_page_names_is_there(page: str) -> None:
    named = {unit for text in page_spans(page) for unit in UNIT.findall(text)}
    named |= {
        re.sub(r"[<{*].*", "", word).rstrip("/.,;:") for text in page_spans(page) for word in re.findall(FOLDER, text)
    }
    # A file below a folder is written with both apart, or by its name.
    gone = [name for name in named if name not in product() and Path(name).name not in product()]
    assert gone == []
