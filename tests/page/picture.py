"""Photograph the page of a made-up fleet for README: `make picture` writes docs/images/page.png (needs chromium)."""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
conftest = importlib.import_module("conftest")
page_samples = importlib.import_module("page_samples")

PICTURE = conftest.REPOSITORY / "docs/images/page.png"
HOSTS, WIDTH, HEIGHT = 40, 1000, 900


def main() -> None:
    program = next(filter(None, map(shutil.which, conftest.NAMES)), None)
    if program is None:
        raise SystemExit(f"A browser is needed for the picture; install one of {', '.join(conftest.NAMES)}.")
    hosts = [(name.partition(".")[0], *rest) for name, *rest in page_samples.fleet(HOSTS)]
    with tempfile.TemporaryDirectory() as name:
        page = Path(name) / "index.html"
        page.write_text(page_samples.make_pages(hosts)["index.html"])
        browser = conftest.Browser(program, Path(name) / "profile")
        browser.run(f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={PICTURE}", page.as_uri())


if __name__ == "__main__":
    main()
