"""The page of the fleet as people see it, in a real browser: phone and desk, light and dark, on paper, read aloud."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from pathlib import Path

import page_samples
import pytest
from text_parts import part_of

BACKGROUND = {False: "rgb(255, 255, 255)", True: "rgb(15, 19, 24)"}


HOST = "hosts/a5-01.html"


@pytest.fixture(params=[(1, HOST), (2, "index.html"), (2, HOST), (40, "index.html"), (40, "hosts/a5-03.html")])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    number, path = request.param
    return write(tmp_path, page_samples.fleet(number)) / path


@pytest.fixture(params=["index.html", "hosts/hostile"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    record = page_samples.everywhere(page_samples.whole(page_samples.broken()))
    record["simulated"] = page_samples.HOSTILE * 9
    write(tmp_path, [(page_samples.HOSTILE, record, None, ""), *page_samples.fleet(6)])
    [found] = [file for file in (tmp_path / "hosts").iterdir() if "script" in file.name]
    return tmp_path / "index.html" if request.param == "index.html" else found


def write(folder: Path, hosts: list) -> Path:
    """All pages of these hosts; the folder."""
    (folder / "hosts").mkdir()
    for path, text in page_samples.make_pages(hosts).items():
        (folder / path).write_text(text)
    return folder


def simulated(number: int) -> list:
    """Hosts of which every second is simulated."""
    hosts = page_samples.fleet(number)
    for _name, record, *_rest in hosts[::2]:
        if record:
            record["simulated"] = "the GPUs, their driver's packages and nvidia-smi"
    return hosts


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_follows_the_colour_scheme(page, show, width, dark):
    check(show(page, width, dark), page, dark)


@pytest.mark.parametrize("width", [360, 1280])
def test_hostile_and_long_texts_fit(hostile, show, width):
    check(show(hostile, width, False), hostile, False)


def check(found: dict, page: Path, dark: bool) -> None:
    index = page.name == "index.html"
    assert (found["overflow"], found["wide"], found["small"], found["scripts"]) == (0, [], 0, index)
    assert found["background"] == BACKGROUND[dark]
    assert found["svgs"] >= (1 if index else 4)


@pytest.mark.parametrize("path", ["index.html", HOST])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(show, axe, tmp_path, path, width, dark):
    """Neither violations nor what axe could not decide, with every part unfolded."""
    found = show(write(tmp_path, simulated(40)) / path, width, dark, axe)
    assert "\n".join(found["violations"]) == ""
    assert found["rules"] > 12 and found["contrast"] >= 4.5


def test_axe_would_find_something(show, axe, tmp_path):
    """The test above can fail: the same page without a language and with a contrast of almost nothing."""
    path = write(tmp_path, page_samples.fleet(2)) / HOST
    spoilt = path.read_text().replace('<html lang="en">', "<html>").replace("--soft: #57606a", "--soft: #e0e0e0")
    path.write_text(spoilt)
    found = " ".join(show(path, 1280, False, axe)["violations"])
    assert "html-has-lang" in found and "color-contrast" in found


def without_scripts(page: Path) -> Path:
    """The same page, whose scripts the browser refuses."""
    policy = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'">"""
    blocked = page.with_name(f"blocked-{page.name}")
    blocked.write_text(page.read_text().replace("<head>", "<head>" + policy))
    assert policy in blocked.read_text()
    return blocked


def test_a_host_needs_no_javascript(browser, tmp_path):
    page = write(tmp_path, page_samples.fleet(2)) / HOST
    assert printed(browser, page) == printed(browser, without_scripts(page)) != []


def test_the_index_is_whole_without_javascript(browser, tmp_path):
    """Every host and value, and no control that would do nothing."""
    blocked = without_scripts(write(tmp_path, page_samples.fleet(40)) / "index.html")
    dom = browser.run("--dump-dom", blocked.as_uri())
    assert (
        dom.count("<tr") == 41
        and "<button" not in dom.partition("<table")[2]
        and '<form class="filters js noprint" hidden' in dom
    )
    text = "".join(" ".join(printed(browser, blocked)).split())
    for name, record, *_rest in page_samples.fleet(40):
        assert f">{name}</a>" in dom and (not record or record["time"] in text)


# What a person does, and what is then to be seen: names of hosts in their order, or how many.
SEEN = """[...document.querySelectorAll(".fleet tbody tr")].filter((row) => !row.hidden && row.offsetHeight)
  .map((row) => row.cells[0].querySelector("a").textContent)"""
WAIT = "await new Promise((done) => setTimeout(done, 50));"
MODEL = "Tesla V100-PCIE-16GB"


def choose(**values: str) -> str:
    """A script that types these values into the form as a person does."""
    lines = [f'form.{name}.value = "{value}";' for name, value in values.items()]
    return "".join([*lines, f'form.{[*values][0]}.dispatchEvent(new Event("input", {{bubbles: true}}));'])


FAILED, UNREAD = ["a5-01", "a5-05"], ["a5-03", "a5-06"]
WARNED = ["a5-04", *(f"a5-{number}" for number in range(31, 41))]


@pytest.mark.parametrize(
    ("address", "steps", "expected"),
    [
        ("", "", 40),
        ("", choose(verdict="FAIL"), FAILED),
        ("", choose(verdict="WARN"), WARNED),
        ("", choose(q="535.1"), FAILED),
        ("", choose(q="A5-3 535.1 v100"), 0),
        ("", choose(layer="system", verdict="UNKNOWN"), ["a5-03"]),
        (
            "",
            choose(gpu=MODEL, verdict="UNKNOWN"),
            ["a5-03"],
        ),
        ("", choose(driver="none"), ["a5-06"]),
        (
            "",
            choose(drift="since the report before", q="fail"),
            FAILED,
        ),
        ("#verdict=UNKNOWN", "", UNREAD),
        (
            "#verdict=UNKNOWN",
            f'location.hash = "#verdict=FAIL"; {WAIT}',
            FAILED,
        ),
        ("#verdict=nonsense", "", 40),
        ("#verdict=FAIL", f"form.reset(); {WAIT}", 40),
        ("", 'document.querySelector("li.FAIL[data-verdict] button").click();', FAILED),
        ("", 'document.querySelector("[data-finding] button").click();', WARNED),
        ("#verdict=FAIL&sort=-0", "", FAILED[::-1]),
        ("#sort=-0", f"form.reset(); {WAIT} {choose(verdict='FAIL')}", FAILED),
        ("#verdict=FAIL", 'document.querySelector(".fleet thead button").click();', FAILED),
        ("#verdict=FAIL&sort=0", 'document.querySelector(".fleet thead button").click();', FAILED[::-1]),
        ("#q=a5-0&sort=9", "", ["a5-06", "a5-04", "a5-03", "a5-07", "a5-08", "a5-09", "a5-01", "a5-05"]),
        ("#q=a5-0&sort=2", "", ["a5-01", "a5-05", "a5-03", "a5-04", "a5-06", "a5-07", "a5-08", "a5-09"]),
    ],
)
def test_the_index_searches_filters_and_sorts(browser, tmp_path, address, steps, expected):
    hosts = page_samples.fleet(40)
    hosts.pop(1)
    hosts.append(("b6-01", page_samples.whole(), page_samples.whole(), ""))
    page = write(tmp_path, hosts) / "index.html"
    script = f"""<script>onload = async () => {{ const form = document.querySelector("form.filters");
      {WAIT} {steps}
      document.body.dataset.found = JSON.stringify({SEEN}); document.body.dataset.address = location.hash;
      document.body.dataset.said = document.getElementById("shown").textContent; }}</script>"""
    page.write_text(page.read_text().replace("</body>", script + "</body>"))
    dom = browser.run("--virtual-time-budget=5000", "--dump-dom", page.as_uri() + address)
    seen = json.loads(html.unescape(part_of(r'data-found="([^"]*)"', dom)))
    assert (len(seen) if isinstance(expected, int) else seen) == expected
    said = part_of(r'data-said="([^"]*)"', dom)
    assert said == ("All 40 hosts are shown." if len(seen) == 40 else f"{len(seen)} of 40 hosts are shown.")
    # What was chosen is in the address, which can be sent to somebody else.
    if "form.verdict" in steps:
        assert "verdict=" in part_of(r'data-address="([^"]*)"', dom)


def printed(browser, page: Path) -> list[str]:
    """The text of each printed page."""
    if not shutil.which("pdftotext"):
        pytest.fail("pdftotext is not in PATH. On Debian: apt-get install poppler-utils")
    paper = page.with_suffix(".pdf")
    browser.run("--no-pdf-header-footer", f"--print-to-pdf={paper}", page.as_uri())
    done = subprocess.run(["pdftotext", "-layout", paper, "-"], check=True, capture_output=True, text=True)
    return [" ".join(text.split()) for text in done.stdout.split("\f")]


def test_paper_shows_everything(browser, tmp_path):
    """Also what is folded on the screen, on at most three pages for a host of one or two GPUs, whatever is wrong."""
    hosts = page_samples.fleet(5)
    folder = write(tmp_path, hosts)
    for name, report, _before, _problem in hosts:
        pages = printed(browser, folder / f"hosts/{name}.html")
        text = " ".join(pages)
        assert text.startswith(name) and "What this node is made of" in text and "All hosts" not in text
        assert [check["id"] for check in report["checks"] if check["id"] not in text] == []
        assert len([page for page in pages if page]) <= 3, name


def test_paper_has_what_is_folded_in_a_list(browser, tmp_path):
    hosts = page_samples.fleet(40)
    folder = write(tmp_path, hosts)
    (report,) = [host[1] for host in hosts if host[0] == "a5-03"]
    folded = [check["id"] for check in report["checks"] if "kernel_log: no permission" in str(check)]
    for page in (folder / "hosts/a5-03.html", folder / "index.html"):
        text = " ".join(printed(browser, page))
        assert f"All {len(folded)} checks" in text and "kernel.pcie_errors" in folded and "kernel.pcie_errors" in text
    assert "Search" not in text and "All 40 hosts are shown" not in text
