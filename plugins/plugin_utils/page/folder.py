# SPDX-License-Identifier: Apache-2.0
"""The folder of reports: what is read from it, and which pages are written beside the reports and removed again."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.written.state_file import (
    ANY,
    NAME,
    OTHERS,
    Damaged,
    check,
)
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import SEVERITY, SKIP
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import (
    SCHEMA,
    read_json,
    write_text,
)

from ..history import kept
from .cards import CardLine, card_lines, card_metrics, for_lines
from .findings import Report
from .fleet import HostRow, host_row, index_page
from .host import host_page
from .kept_report import FOLDER_MODE, PREVIOUS

INDEX = "index.html"
# Of the history of cards, for node_exporter's textfile collector.
METRICS = "gpuwright-sweep.prom"
HOSTS = "hosts"
CHECK_FORM = {
    "id": NAME, "status": {*SEVERITY, SKIP}, "message": NAME, "action": NAME, "layer?": NAME, "remedy?": NAME,
    "code?": NAME, OTHERS: ANY,
}  # fmt: skip
REPORT_FORM = {"schema": ANY, "time": NAME, "verdict": set(SEVERITY), "checks": [CHECK_FORM], OTHERS: ANY}
# In the head of each page: a file that has it was written here, and may be removed here.
GENERATOR = b'<meta name="generator" content="gpuwright">'
HEAD_BYTES = 1000
# Characters of a file's name; longer ones are cut and get part of their hash.
MOST_LETTERS = 100


def host_names(folder: str | Path) -> list[str]:
    """The hosts with a JSON file in the folder, sorted; OSError if it cannot be read."""
    files = (entry.name for entry in Path(folder).iterdir())
    return sorted(name[:-5] for name in files if name.endswith(".json") and not name.startswith("."))


def read_host(folder: str | Path, name: str) -> tuple[Report | None, Report | None, str]:
    """The report or None, the previous one or None, and why there is no report.

    A report that cannot be read is kept with its problem: a host must not vanish from the page with its file.
    """
    report, before, problem = None, None, ""
    try:
        report = parse_report(read_json(str(Path(folder, f"{name}.json"))))
    except (OSError, ValueError, RecursionError) as error:
        problem = str(error)
    try:
        before = parse_report(read_json(str(Path(folder, PREVIOUS, f"{name}.json"))))
    except (OSError, ValueError, RecursionError):
        before = None
    return report, before, problem


def parse_report(record: dict[str, Any]) -> Report:
    """`record` if the page can show it; ValueError otherwise."""
    if record.get("schema") != SCHEMA:
        raise ValueError(f"schema {record.get('schema')}; this program knows {SCHEMA}")
    try:
        check(record, REPORT_FORM, "the report")
    except Damaged as error:
        raise ValueError(f"no report: verdict, time or checks are missing or damaged ({error})") from error
    return record


def page_files(names: Sequence[str]) -> dict[str, str]:
    """The file of each host's page below `hosts/`: a safe name, different for every host.

    Names that differ only in case are numbered, for file systems that treat them as equal.
    """
    alike = Counter(name.casefold() for name in names)
    return {name: f"{_safe(name, numbered=alike[name.casefold()] > 1)}.html" for name in names}


def _safe(name: str, numbered: bool) -> str:
    def sign(character: str, place: int) -> str:
        plain = character.isascii() and (character.isalnum() or character == "-" or (character == "." and place))
        return character if plain else f"_{ord(character):x}_"

    found = "".join(sign(character, place) for place, character in enumerate(name))
    if not numbered and len(found) <= MOST_LETTERS:
        return found
    number = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{found[:MOST_LETTERS]}_{number}"


def pages(folder: str | Path, names: Sequence[str], now: str) -> Iterator[tuple[str, str]]:
    """`(path below the folder, text)` of each host's page, and last the index; one report at a time is in memory."""
    files = page_files(names)
    rows: list[HostRow] = []
    histories, problems = kept.read_all(folder, part=for_lines)
    lines = card_lines(histories, files, HOSTS)
    metrics = card_metrics(histories, lines)
    # They need not be in memory beside the reports.
    histories.clear()
    of_host: dict[str, list[CardLine]] = {}
    for line in lines:
        of_host.setdefault(line.host, []).append(line)
    for name in names:
        report, before, problem = read_host(folder, name)
        path = f"{HOSTS}/{files[name]}"
        yield path, host_page(name, report, before, problem, of_host.get(name, []))
        rows.append(host_row(name, path, report, before, problem))
    yield INDEX, index_page(rows, now, lines, list(problems.values()))
    if lines:
        yield METRICS, metrics


def write_pages(folder: str | Path, names: Sequence[str], now: str) -> None:
    """Write all pages, and remove those of hosts that no longer have a report. OSError if that cannot be done."""
    hosts = Path(folder, HOSTS)
    if not hosts.is_dir():
        hosts.mkdir()
        # With an umask of 000 on the controller, everybody could write what people read here.
        hosts.chmod(FOLDER_MODE)
    written = set()
    for path, text in pages(folder, names, now):
        _write(Path(folder, path), text)
        written.add(path)
    for file in sorted(hosts.glob("*.html")):
        if f"{HOSTS}/{file.name}" not in written and _is_ours(file):
            file.unlink()


def _write(file: Path, text: str) -> None:
    """An unchanged page is left alone: of a thousand hosts, only a few are verified at once."""
    if not file.is_symlink() and file.is_file() and file.read_bytes() == text.encode(errors="replace"):
        return
    write_text(os.fspath(file), text)


def _is_ours(file: Path) -> bool:
    """Whether a page was written here; somebody else's file in the folder is not removed."""
    with file.open("rb") as opened:
        return GENERATOR in opened.read(HEAD_BYTES)
