"""Programs of a node's environment are not in PATH there: pages that are read on a node type them through gpu-run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPOSITORY / "tests")]

import page_commands  # noqa: E402
from gpuwright.launch import program  # noqa: E402

PAGES = (
    "README.md",
    "docs/recipes.md",
    "docs/runtime.md",
    "docs/trainer.md",
    "docs/train-your-images.md",
    "docs/jobs.md",
)
OF_ENVIRONMENT = ("torchrun", "train-gan", "tensorboard")
# The table of runtime.md has what others do on its left.
OTHERS = {"docs/runtime.md": {"torchrun --numa-binding=node --nproc-per-node=8 train.py"}}


def typed(page: str) -> list[str]:
    """What the page has in code, commands that have an argument at least."""
    text = (REPOSITORY / page).read_text()
    lines = [line for block in page_commands.blocks(text) for line in block.commands]
    found = [" ".join(span.split()) for span in (*page_commands.spans(text), *lines)]
    return [span for span in found if " " in span and span not in OTHERS.get(page, set())]


@pytest.mark.parametrize("page", PAGES)
def test_no_page_types_what_a_nodes_shell_does_not_find(page: str) -> None:
    bare = [span for span in typed(page) if re.sub(r"^([A-Z_]+=\S+ )+", "", span).split()[0] in OF_ENVIRONMENT]
    assert bare == []


def test_gpu_run_finds_each_program_that_a_page_types_through_it(tmp_path: Path) -> None:
    """As on a node: the environment has them, and PATH has none, or the system's own python."""
    named = {
        match[1]
        for page in PAGES
        for span in typed(page)
        for match in re.finditer(r"gpu-run -- (python|torchrun|train-gan|tensorboard)\b", span)
    }
    assert named == {"python", "torchrun", "train-gan", "tensorboard"}
    folder = tmp_path / program.ENVIRONMENT.lstrip("/")
    folder.mkdir(parents=True)
    for name in named:
        (folder / name).touch(0o755)
        assert program.environment_folder(name, {"PATH": "/usr/bin:/bin"}, str(tmp_path))[0] == str(folder)
