"""A real browser. Without one these tests fail and say what to install; they are never skipped."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "module_utils"), str(REPOSITORY / "tests" / "unit")]
NAMES = ("chromium", "chromium-browser", "google-chrome")
# The page in a frame of a given width: a window has a least width of its own.
FRAME = """<body style="margin:0"><iframe id="page" src="{page}"
 style="border:0;width:{width}px;height:{height}px"></iframe>
<script>onload = () => {{ const d = page.contentDocument, s = (e) => page.contentWindow.getComputedStyle(e);
document.body.dataset.found = JSON.stringify({{overflow: d.documentElement.scrollWidth - d.documentElement.clientWidth,
background: s(d.body).backgroundColor, svgs: d.querySelectorAll("svg rect").length,
small: [...d.querySelectorAll("p,td,th,li,code")].filter((e) => parseFloat(s(e).fontSize) < 12).length}}) }}</script>"""


@pytest.fixture(scope="session")
def browser() -> str:
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if not found:
        pytest.fail(f"no browser: none of {', '.join(NAMES)} is in PATH. On Debian: apt-get install chromium")
    return found


@pytest.fixture
def show(browser: str, tmp_path: Path) -> Callable[[Path, int, bool], str]:
    """What the browser found of the page at this width, as the JSON of FRAME; a screenshot is left beside it."""

    def run(page: Path, width: int, dark: bool) -> str:
        frame = page.with_name(f"frame-{width}.html")
        frame.write_text(FRAME.format(page=page.name, width=width, height=2400))
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
        command += ["--allow-file-access-from-files", f"--blink-settings=preferredColorScheme={int(not dark)}"]
        shot = page.with_name(f"{'dark' if dark else 'light'}-{width}.png")
        looks = [f"--window-size={width},2400", f"--screenshot={shot}"]
        subprocess.run([*command, *looks, frame.as_uri()], check=True, capture_output=True, timeout=120)
        assert shot.stat().st_size > 10_000
        done = subprocess.run([*command, "--dump-dom", frame.as_uri()], check=True, capture_output=True, timeout=120)
        return re.search(r'data-found="([^"]*)"', done.stdout.decode()).group(1).replace("&quot;", '"')

    return run
