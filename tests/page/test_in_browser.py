"""The page of the fleet as people see it, in a real browser: phone and desk, light and dark, on paper, read aloud."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import page_samples
import pytest
from gpuwright.page.fleet import make_page

BACKGROUND = {False: "rgb(255, 255, 255)", True: "rgb(15, 19, 24)"}


@pytest.fixture(params=[1, 2, 40])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / f"fleet-{request.param}.html", page_samples.fleet(request.param))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    record = page_samples.everywhere(page_samples.whole(page_samples.broken()))
    return write(tmp_path / "hostile.html", [(page_samples.HOSTILE, record, None, ""), *page_samples.fleet(6)])


def write(path: Path, hosts: list) -> Path:
    path.write_text(make_page(hosts, page_samples.NOW))
    return path


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_follows_the_colour_scheme(page, show, width, dark):
    check(show(page, width, dark), dark)


@pytest.mark.parametrize("width", [360, 1280])
def test_hostile_and_long_texts_fit(hostile, show, width):
    check(show(hostile, width, False), False)


def check(found: dict, dark: bool) -> None:
    assert (found["overflow"], found["wide"], found["small"], found["scripts"]) == (0, [], 0, 0)
    assert found["background"] == BACKGROUND[dark]
    assert found["svgs"] >= 4


def test_few_hosts_are_unfolded_and_many_are_folded(show, tmp_path):
    few, many = (write(tmp_path / f"{number}.html", page_samples.fleet(number)) for number in (1, 40))
    assert show(few, 1280, False)["open"] >= 6
    assert show(many, 1280, False)["open"] == 0


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(show, axe, tmp_path, width, dark):
    """Neither violations nor what axe could not decide, with every part unfolded."""
    found = show(write(tmp_path / "fleet.html", page_samples.fleet(6)), width, dark, axe)
    assert "\n".join(found["violations"]) == ""
    assert found["rules"] > 15 and found["contrast"] >= 4.5


def test_axe_would_find_something(show, axe, tmp_path):
    """The test above can fail: the same page without a language and with a contrast of almost nothing."""
    path = write(tmp_path / "fleet.html", page_samples.fleet(2))
    spoilt = path.read_text().replace('<html lang="en">', "<html>").replace("--soft: #57606a", "--soft: #e0e0e0")
    path.write_text(spoilt)
    found = " ".join(show(path, 1280, False, axe)["violations"])
    assert "html-has-lang" in found and "color-contrast" in found


def test_it_needs_no_javascript(browser, tmp_path):
    page = write(tmp_path / "fleet.html", page_samples.fleet(2))
    text = page.read_text()
    blocked = tmp_path / "blocked.html"
    policy = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'">"""
    blocked.write_text(text.replace("<head>", "<head>" + policy))
    assert policy in blocked.read_text()
    assert printed(browser, page) == printed(browser, blocked) != []


def printed(browser, page: Path) -> list[str]:
    """The text of each printed page."""
    if not shutil.which("pdftotext"):
        pytest.fail("pdftotext is not in PATH. On Debian: apt-get install poppler-utils")
    paper = page.with_suffix(".pdf")
    browser.run("--no-pdf-header-footer", f"--print-to-pdf={paper}", page.as_uri())
    done = subprocess.run(["pdftotext", "-layout", paper, "-"], check=True, capture_output=True, text=True)
    return [" ".join(text.split()) for text in done.stdout.split("\f")]


def test_paper_shows_everything(browser, tmp_path):
    """Also what is folded on the screen; each host begins a page, and dark mode is no reason for black paper."""
    hosts = page_samples.fleet(6)
    pages = printed(browser, write(tmp_path / "fleet.html", hosts))
    for name, report, _before, _problem in hosts:
        begins = [text for text in pages if text.startswith(name)]
        assert len(begins) == 1, name
        for check in report["checks"] if report else []:
            assert any(check["id"] in text for text in pages)
    assert any("What this node is made of" in text for text in pages)
    assert any("To the fleet" in text for text in pages) is False


def test_paper_is_short_and_has_what_is_folded_in_a_list(browser, tmp_path):
    """At most three pages for a host of one or two GPUs, whatever was measured on it and is wrong with it."""
    hosts = page_samples.fleet(5)
    pages = printed(browser, write(tmp_path / "fleet.html", hosts))
    starts = sorted(i for i, text in enumerate(pages) for host in hosts if text.startswith(host[0]))
    lengths = [end - start for start, end in zip(starts, [*starts[1:], len(pages) - 1], strict=True)]
    assert len(lengths) == 5 and max(lengths) <= 3, lengths
    (unread,) = [text for text in pages if text.startswith("a5-03")]
    (report,) = [host[1] for host in hosts if host[0].startswith("a5-03")]
    folded = [check["id"] for check in report["checks"] if "kernel_log: no permission" in str(check)]
    assert f"All {len(folded)} checks" in unread and "kernel.pcie_errors" in folded and "kernel.pcie_errors" in unread
