"""A real browser. Without one, or without axe-core, these tests fail and say what to install."""

from __future__ import annotations

import html
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from text_parts import part_of

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = map(
    str,
    [
        REPOSITORY / "tests/node_library",
        REPOSITORY / "collections",
        *(REPOSITORY / "tests/unit").glob("**"),
        REPOSITORY / "tests",
    ],
)
npm_package = importlib.import_module("npm_package")

NAMES = ("chromium", "chromium-browser", "google-chrome")
# The accessibility rules of Deque (MPL 2.0); fetched into the cache, too large to keep here.
AXE = "4.11.0"
AXE_INTEGRITY = "sha512-ilYanEU8vxxBexpJd8cWM4ElSQq4QctCLKih0TSfjIfCQTeyH/6zVrmIJfLPrKTKJRbiG+cfnZbQIjAlJmF1jQ=="
# The page in a frame of a given width: a window has a least width of its own.
FRAME = """<!DOCTYPE html><html lang="en"><title>frame</title><body style="margin:0"><iframe id="page" title="page"
 src="{page}" style="border:0;width:{width}px;height:{height}px"></iframe>
<script>{axe}</script><script>
onload = async () => {{
  const inside = page.contentWindow, d = page.contentDocument, s = (e) => inside.getComputedStyle(e);
  const found = {{overflow: d.documentElement.scrollWidth - d.documentElement.clientWidth,
    background: s(d.body).backgroundColor, svgs: d.querySelectorAll("svg rect").length,
    scripts: d.scripts.length, open: d.querySelectorAll("details[open]").length,
    wide: [...d.querySelectorAll("td,th,p,li")].filter((e) => e.getBoundingClientRect().right > {width} + 1)
      .map((e) => e.textContent.slice(0, 60)),
    small: [...d.querySelectorAll("p,td,th,li,code,span,b")].filter((e) => parseFloat(s(e).fontSize) < 12).length,
    violations: null, rules: 0}};
  if (window.axeSource) {{
    d.querySelectorAll("details").forEach((e) => e.open = true);
    inside.eval(window.axeSource);
    const result = await inside.axe.run(d);
    found.rules = result.passes.length;
    // What axe cannot decide is a finding too, but for text in drawings, whose contrast is measured below.
    const undecided = result.incomplete.map((v) => ({{id: v.id, nodes: v.id == "color-contrast"
      ? v.nodes.filter((n) => !n.html.startsWith("<text")) : v.nodes}})).filter((v) => v.nodes.length);
    found.violations = result.violations.concat(undecided).map((v) =>
      v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | "));
    const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const contrast = (one, other) => {{ const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05); }};
    const grounds = [...d.querySelectorAll(".drawing rect")].map((e) => s(e).fill);
    found.contrast = Math.min(21, ...[...d.querySelectorAll(".drawing text")].flatMap((t) =>
      grounds.map((ground) => contrast(s(t).fill, ground))));
  }}
  document.body.dataset.found = JSON.stringify(found);
}}</script>"""


@dataclass
class Browser:
    """Headless Chromium with a profile of its own."""

    program: str
    profile: Path

    def run(self, *arguments: str) -> str:
        command = [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={self.profile}", "--allow-file-access-from-files", *arguments]
        return subprocess.run(command, check=True, capture_output=True, timeout=180).stdout.decode()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if not found:
        pytest.fail(f"no browser: none of {', '.join(NAMES)} is in PATH. On Debian: apt-get install chromium")
    return Browser(found, tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, whose package must have the pinned hash."""
    try:
        return npm_package.read(npm_package.fetch("axe-core", AXE, AXE_INTEGRITY), "axe.min.js").decode()
    except npm_package.PackageError as problem:
        pytest.fail(str(problem))


@pytest.fixture
def show(browser: Browser) -> Callable[..., dict]:
    """What the browser found of the page at this width, see FRAME; a screenshot is left beside it."""

    def run(page: Path, width: int, dark: bool, axe: str = "") -> dict:
        frame = page.with_name(f"frame-{page.stem}-{width}.html")
        # As text of a script: the one sequence that would end it is written in another way.
        source = f"window.axeSource = {json.dumps(axe)}".replace("</", "<\\/") if axe else ""
        frame.write_text(FRAME.format(page=page.name, width=width, height=2400, axe=source))
        colours = f"--blink-settings=preferredColorScheme={int(not dark)}"
        shot = page.with_name(f"{page.stem}-{'dark' if dark else 'light'}-{width}.png")
        if not axe:
            browser.run(colours, f"--window-size={width},2400", f"--screenshot={shot}", frame.as_uri())
            assert shot.stat().st_size > 10_000
        dom = browser.run(colours, "--virtual-time-budget=60000", "--dump-dom", frame.as_uri())
        return json.loads(html.unescape(part_of(r'data-found="([^"]*)"', dom)))

    return run
