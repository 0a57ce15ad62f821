"""The page of the fleet as people see it, in a real browser: phone and desk, light and dark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpuwright.page import make_page
from test_report_page import HOSTILE, broken, everywhere, report

BACKGROUND = {False: "rgb(255, 255, 255)", True: "rgb(15, 19, 24)"}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    long = report()
    long["checks"][0]["message"] = "x" * 400
    hosts = [
        ("a5-01", report(), None, ""),
        ("a5-02.a-rather-long-name.of-a-data-centre.example.org", broken(), report(), ""),
        ("a5-03", long, None, ""),
        (HOSTILE, everywhere(broken()), None, ""),
        ("a5-04", None, None, "damaged"),
    ]
    path = tmp_path / "index.html"
    path.write_text(make_page(hosts, "2026-01-06T10:00:00Z"))
    return path


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_follows_the_colour_scheme(page, show, width, dark):
    found = json.loads(show(page, width, dark))
    assert found["overflow"] == 0
    assert found["background"] == BACKGROUND[dark]
    assert found["svgs"] >= 4 and found["small"] == 0
