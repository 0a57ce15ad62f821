"""What README and docs/operate.md show as printed is what the demo and a run print, but for numbers."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from left_out_site import Site
from test_summary_callback import STUB, check
from text_parts import part_of

sys.path.insert(0, str(REPOSITORY / "tests"))

from page_commands import Block, blocks

README, OPERATE = ((REPOSITORY / page).read_text() for page in ("README.md", "docs/operate.md"))
SIMULATED = "Simulated: the GPUs"


def block_with(words: str, page: str) -> Block:
    (found,) = [block for block in blocks(page) if words in block.text and not block.commands]
    return found


def shape(line: str) -> str:
    """Without what differs from run to run: numbers, with the columns that they fill, and where the reports lie."""
    line = re.sub(r"(?<=: )(~|/)\S*(?=/reports)", "FOLDER", line.rstrip())
    line = re.sub(r"^Total time: .*", "Total time", re.sub(r"^Log: \S+-site-\d+\.log$", "Log", line))
    return re.sub(r"\b\d+( +(?=\w)|\b)", "N ", line)


def missing(shown: list[str], printed: list[str]) -> list[str]:
    """Lines of the page that a run does not print, or not in this order."""
    rest = iter(list(map(shape, printed)))
    return [line for line in shown if line and shape(line) not in rest]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Three nodes that pass, on a made-up verification that reads nothing."""
    site = Site(tmp_path)
    for module in ("gpu_verify", "report_page"):
        (tmp_path / "library" / f"{module}.py").write_text(STUB)
        (tmp_path / "plugins/action" / f"{module}.py").unlink(missing_ok=True)
    return site


def verify_as(site: Site, device: str) -> None:
    silent = [check(name, "SKIP", "no EFI") for name in ("secure_boot", "efi")]
    checks = [check("gpu.count"), *silent, check("smoke.amp", value=device)]
    reports = [f"{site.folder}/reports/{name}.json" for name in site.hosts]
    tasks: list[dict[str, Any]] = [
        {"gpuwright.node.gpu_verify": {"answer": {"verdict": "PASS", "checks": checks}}},
        {"ansible.builtin.set_stats": {"data": {"gpuwright_reports": reports}, "aggregate": False}},
        {"gpuwright.node.report_page": {"answer": {"path": f"{site.folder}/reports/index.html"}}},
    ]
    site.tasks("verify", tasks)


def test_the_demo_ends_as_the_page_shows(site: Site) -> None:
    shown = block_with(SIMULATED, README).lines
    start = next(number for number, line in enumerate(shown) if line.startswith(SIMULATED))
    script = (REPOSITORY / "tests/fleet/demo").read_text()
    told = part_of(r".*<<TEXT\n(.*?)\nTEXT\n", script, re.DOTALL)
    assert list(shown[start:]) == told.strip().splitlines()
    for name in ("a5-01", "a5-02"):
        site.host(name)
    verify_as(site, "cpu")
    done = site.run("site.yml", "-l", "gpu_nodes")
    assert done.returncode == 0, done.stdout
    assert start and missing(list(shown[:start]), done.stdout.splitlines()) == [], done.stdout


def test_a_host_is_left_out_as_the_page_shows(site: Site) -> None:
    for name in ("a5-01", "a5-03"):
        site.host(name)
    site.refused("a5-02", system_driver_source="nvidia")
    verify_as(site, "cuda")
    done = site.run("site.yml")
    assert done.returncode == 2, done.stdout
    # The page's reader has the inventory of the checkout.
    printed = done.stdout.replace(" -i hosts.yml", "").splitlines()
    assert missing(list(block_with("Left out", OPERATE).lines), printed) == [], done.stdout


def test_a_line_that_is_no_longer_printed_is_noticed() -> None:
    printed = [
        "a5-01  PASS     3 checks; 12 more do not apply",
        "Reports: /tmp/x y/reports",
        "Page: /tmp/reports/index.html",
    ]
    assert missing(["a5-01  PASS     58 checks; 2 more do not apply", "Page: ~/g/reports/index.html"], printed) == []
    assert missing(["a5-01  OK       58 checks; 2 more do not apply"], printed) == [
        "a5-01  OK       58 checks; 2 more do not apply"
    ]
    assert missing(["Page: ~/reports/index.html", "a5-01  PASS     3 checks; 12 more do not apply"], printed) != []


def test_the_picture_of_the_page_is_there_and_of_moderate_size() -> None:
    pictures = re.findall(r"!\[[^\]]{20,}\]\(([^)]+)\)", README)
    assert pictures == ["docs/images/page.png"]
    content = (REPOSITORY / pictures[0]).read_bytes()
    assert content.startswith(b"\x89PNG") and 10_000 < len(content) < 120_000, "run: make picture"
