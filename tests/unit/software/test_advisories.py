"""Advisories are compared by the rules of OSV and PEP 440, never as text, and silence is never "none found"."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible_collections.gpuwright.node.plugins.lookup.advisories import LookupModule, compared
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.matrix import SHIPPED, read_matrix
from ansible_collections.gpuwright.node.plugins.plugin_utils.software import bulletins, osv
from ansible_collections.gpuwright.node.plugins.plugin_utils.software.advisory import AdvisoryError

LOCK = "Pillow==9.10.0 \\\n    --hash=sha256:00\ntorch==2.6.0+cu124 ; python_version > '3'\n"


def record(name: str = "pillow", id: str = "GHSA-1", aliases: Any = ("CVE-2026-1",), **affected: Any) -> dict[str, Any]:
    package = {"ecosystem": "PyPI", "name": name}
    return {"id": id, "aliases": list(aliases), "affected": [{"package": package, **affected}]}


def span(*events: dict[str, str], type: str = "ECOSYSTEM") -> dict[str, Any]:
    return {"ranges": [{"type": type, "events": list(events)}]}


@pytest.mark.parametrize(
    ("affected", "version", "hit", "fixed"),
    [
        # As text, 9.10.0 would come before 9.9.0.
        (span({"introduced": "0"}, {"fixed": "9.9.0"}), "9.10.0", False, ""),
        (span({"introduced": "0"}, {"fixed": "10.0"}), "9.10.0", True, "10.0"),
        (span({"introduced": "9.10.1"}, {"fixed": "10.0"}), "9.10.0", False, ""),
        (span({"introduced": "0"}, {"fixed": "9.10.0"}), "9.10.0", False, ""),
        (span({"introduced": "0"}, {"fixed": "9.10.0"}), "9.10.0rc1", True, "9.10.0"),
        (span({"introduced": "0"}, {"last_affected": "9.10.0"}), "9.10.0", True, ""),
        (span({"introduced": "0"}, {"last_affected": "9.10.0"}), "9.10.1", False, ""),
        # Two ranges in one list of events, in any order.
        (span({"fixed": "3"}, {"introduced": "4"}, {"introduced": "1"}, {"fixed": "5"}), "4.2", True, "5"),
        (span({"introduced": "1"}, {"fixed": "3"}, {"introduced": "4"}, {"fixed": "5"}), "3.5", False, ""),
        (span({"introduced": "0"}), "1", True, ""),
        # A build of the same release.
        (span({"introduced": "0"}, {"fixed": "2.6.0"}), "2.6.0+cu124", False, ""),
        ({"versions": ["2.6", "junk"]}, "2.6.0+cu124", True, ""),
        (span({"introduced": "0"}, {"fixed": "abc123"}, type="GIT"), "1", False, ""),
    ],
)
def test_ranges(affected: dict[str, Any], version: str, hit: bool, fixed: str) -> None:
    assert osv.affects(record(**affected), "pillow", version) == (hit, fixed)


def test_two_records_of_one_vulnerability_are_one_row_and_a_withdrawn_one_is_none() -> None:
    old = span({"introduced": "0"}, {"fixed": "10.0"})
    records = [
        {**record(id="PYSEC-1", **old), "severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N"}]},
        {**record(id="GHSA-1", **old), "database_specific": {"severity": "HIGH"}},
        {**record(id="GHSA-2", aliases=["CVE-2026-2"], **old), "withdrawn": "2026-01-01T00:00:00Z"},
        record(name="other", **old),
    ]
    (row,) = osv.rows(records, osv.pins_of(LOCK), "a.txt")
    assert (row.what, row.version, row.fixed, row.severity) == ("pillow", "9.10.0", "10.0", "HIGH")
    assert row.ids == ["CVE-2026-1", "GHSA-1", "PYSEC-1"] and row.lock == "a.txt"


def test_a_version_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(AdvisoryError, match=r"GHSA-1 about pillow 9.10.0.*\[advisories.record\]$"):
        osv.rows([record(**span({"introduced": "x y"}))], osv.pins_of(LOCK), "a.txt")


@pytest.mark.parametrize("packed", [True, False])
def test_the_export_is_a_zip_or_a_folder(tmp_path: Path, packed: bool) -> None:
    texts = {"a.json": record(), "b.json": record(name="django")}
    if packed:
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
            for name, text in texts.items():
                archive.writestr(name, json.dumps(text))
    else:
        for name, text in texts.items():
            (tmp_path / name).write_text(json.dumps(text))
    found = osv.from_file(tmp_path / "all.zip" if packed else tmp_path, osv.pins_of(LOCK))
    assert [one["id"] for one in found] == ["GHSA-1"] and found[0]["affected"][0]["package"]["name"] == "pillow"


@pytest.mark.parametrize("content", [None, "", "no zip"])
def test_a_file_that_is_no_export_is_an_error(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "all.zip"
    if content == "":
        path.mkdir()
    elif content:
        path.write_text(content)
    with pytest.raises(AdvisoryError, match=r"all.zip.*expected OSV's export.*\[advisories.file\]$"):
        osv.from_file(path, osv.pins_of(LOCK))


class Osv(BaseHTTPRequestHandler):
    """Answers as OSV does: ids of a query, in two pages, then each record."""

    asked: list[dict[str, Any]] = []
    logins: list[str | None] = []

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        self.asked += queries
        first = {"vulns": [{"id": "GHSA-1"}], "next_page_token": "2"}
        pages = {"": first, "2": {"vulns": [{"id": "GHSA-2"}]}}
        self.say(
            {
                "results": [
                    pages[one.get("page_token", "")] if one["package"]["name"] == "pillow" else {} for one in queries
                ]
            }
        )

    def do_GET(self) -> None:
        self.say(record(id=self.path.rpartition("/")[2], **span({"introduced": "0"})))

    def say(self, answer: Any) -> None:
        self.logins.append(self.headers["Authorization"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_words: Any) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = HTTPServer(("127.0.0.1", 0), Osv)
    Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()


def test_osv_is_asked_for_every_pin_and_every_page(server: str) -> None:
    Osv.asked.clear()
    found = osv.from_server(osv.pins_of(LOCK).items(), server)
    assert [one["id"] for one in found] == ["GHSA-1", "GHSA-2"]
    assert [(one["package"]["name"], one["version"]) for one in Osv.asked] == [
        ("pillow", "9.10.0"), ("torch", "2.6.0"), ("pillow", "9.10.0")
    ]  # fmt: skip


def test_a_login_that_netrc_has_for_any_server_is_not_sent(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "netrc"
    file.write_text("default login alice password c4nary\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    Osv.logins.clear()
    osv.from_server(osv.pins_of(LOCK).items(), server)
    assert set(Osv.logins) == {None}


def test_a_server_that_does_not_answer_is_an_error_and_never_none_found() -> None:
    with pytest.raises(AdvisoryError, match=r"did not answer.*advisories_file=all.zip \[advisories.unreachable\]$"):
        osv.from_server(osv.pins_of(LOCK).items(), "http://127.0.0.1:1")


KNOWN = bulletins.of(read_matrix(SHIPPED))
TODAY = KNOWN.as_of + timedelta(KNOWN.limit_days)


@pytest.mark.parametrize(
    ("version", "fixes"),
    [
        ("580.95.05", ["580.126.09", "580.159.03", "580.178.04"]),
        ("580.126.20", ["580.159.03", "580.178.04"]),
        ("580.159.03", ["580.178.04"]),
        ("595.71.05", ["595.91.07"]),
        ("610.43.02", ["610.57.04"]),
        ("615.36.01", ["615.71.09"]),
        ("570.195.03", ["570.211.01"]),
    ],
)
def test_drivers_against_the_bulletins(version: str, fixes: list[str]) -> None:
    found = bulletins.rows(version, KNOWN.bulletins, "driver")
    assert [row.fixed for row in found] == fixes and found[-1].severity == "HIGH"
    assert all(row.source.startswith("https://github.com/NVIDIA/product-security/") for row in found)


def driver(version: str, later: int = 0, more: str = "") -> dict[str, Any]:
    return compared("", "", [version], "", more, today=TODAY + timedelta(later))


@pytest.mark.parametrize("version", ["580.178.04", "580.190.01", "595.91.07", "610.57.04", "615.71.09"])
def test_a_fixed_release_of_a_branch_that_the_newest_bulletin_names_is_clean_until_the_news_are_old(
    version: str,
) -> None:
    assert driver(version)["unknown"] == driver("")["unknown"] and not driver(version)["rows"]
    days = KNOWN.limit_days
    assert any(f"is {days + 1} days old (limit {days})" in text for text in driver(version, later=1)["unknown"])


# The last releases of branches that ended, and one of a branch that came after the newest bulletin.
@pytest.mark.parametrize(
    "version", ["470.256.02", "535.309.01", "550.163.01", "560.35.03", "570.211.01", "575.64.05", "590.48.01"]
)
def test_a_branch_that_no_recent_bulletin_names_is_unknown_with_the_bulletins_advice(version: str) -> None:
    told = " ".join(driver(version)["unknown"])
    assert f"no bulletin since 2026-09-30 names branch {version[:3]}. Bulletin 5861 says: earlier branches" in told


def test_a_branch_that_came_after_the_bulletins_is_unknown_without_advice_about_earlier_ones() -> None:
    told = " ".join(driver("620.70.06")["unknown"])
    assert "names branch 620, which is newer than all that they name" in told and "earlier" not in told


def test_every_answer_says_how_old_it_is_and_what_was_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({**record(**span({"introduced": "11"})), "modified": f"{TODAY}T01:02:03Z"}))
    found = compared("a.txt", LOCK, ["580.178.04"], str(tmp_path), "", today=TODAY)
    assert not found["rows"] and not found["unknown"] and not found["lines"]
    said = " ".join(found["as_of"])
    assert f"as of {KNOWN.as_of}, 100 days old; the newest is 5861 of 2026-09-30" in said
    assert f"as of {TODAY}, 0 days old" in said and "container toolkit" in said
    later = compared("a.txt", LOCK, [], str(tmp_path), "", today=TODAY + timedelta(osv.LIMIT_DAYS + 1))
    assert "fetch it again" in " ".join(later["unknown"]) and "driver" not in " ".join(later["as_of"][:-1])


def test_a_planned_branch_without_any_version_is_unknown() -> None:
    told = compared("", "", ["", ""], "", "", "595", TODAY)["unknown"]
    assert "NVIDIA driver 595: none is installed, and the plan names no version" in told


def test_what_a_lock_names_without_a_version_is_unknown(tmp_path: Path) -> None:
    text = (
        "torch[opt-einsum]==2.6.0+cu124 \\\n  --hash=sha256:00\npillow===9.10.0 # own\n--index-url https://a.org\n"
        "mine @ https://a.org/mine-1-py3-none-any.whl\nnumpy>=1.2\njax==1.*\n-r more.txt\n-e ./here\n./x.whl\n\n# no\n"
    )
    pins, rest = osv.pins_and_rest(text)
    assert pins == {"torch": "2.6.0+cu124", "pillow": "9.10.0"}
    assert [line.split()[0] for line in rest] == ["mine", "numpy>=1.2", "jax==1.*", "-r", "-e", "./x.whl"]
    (tmp_path / "a.json").write_text(json.dumps(record(**span({"introduced": "0"}, {"fixed": "1"}))))
    told = compared("a.txt", text, [], str(tmp_path), "")["unknown"]
    assert len(told) == 6 and all("names no version that could be compared" in line for line in told)


def test_a_record_about_a_package_without_any_version_is_unknown() -> None:
    records = [
        record(**span({"introduced": "0"}, type="GIT")),
        record(id="GHSA-3"),
        record(id="GHSA-4", versions=["1"]),
    ]
    told = osv.undecided(records, osv.pins_of(LOCK))
    assert told == [f"pillow 9.10.0: advisory GHSA-{number} names no versions" for number in (1, 3)]


def test_rows_and_what_is_unknown_stand_in_the_table(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(record(**span({"introduced": "0"}, {"fixed": "10.0"}))))
    found = compared("a.txt", LOCK, ["470.256.02", ""], str(tmp_path), "")
    assert len(found["unknown"]) == 1
    assert found["lines"][0] == "pillow 9.10.0: CVE-2026-1, GHSA-1 (not given), fixed in 10.0 [a.txt]"
    assert found["lines"][1].startswith("UNKNOWN NVIDIA driver 470.256.02") and "make lock" in found["lines"][-1]
    assert driver("580.178.04")["unknown"] == ["the plan pins no package, so none was compared"]


@pytest.mark.parametrize(
    ("as_of", "date", "known"),
    [("", "", True), ("{today}", "", True), ("{today}", "2026-01-01", False), ("", "2020-01-01", False)],
)
def test_an_operators_bulletin_makes_its_branch_known_if_it_is_recent(
    tmp_path: Path, as_of: str, date: str, known: bool
) -> None:
    more, today = tmp_path / "more.yml", datetime.now().date()
    row = {470: {"fixed": "470.300.01", "severity": "HIGH", "cves": []}}
    one = {"id": "1", "source": "https://example.org/1", "branches": row, **({"date": date} if date else {})}
    content = {"bulletins": [one], **({"as_of": as_of.format(today=today)} if as_of else {})}
    more.write_text(yaml.safe_dump(content))
    found = compared("", "", ["470.300.01"], "", str(more), today=max(today, KNOWN.as_of))
    assert (len(found["unknown"]) == 1) is known and not found["rows"]


def test_a_day_to_come_does_not_keep_old_news_young(tmp_path: Path) -> None:
    more = tmp_path / "more.yml"
    more.write_text("as_of: 2999-01-01\nbulletins: []\n")
    with pytest.raises(AdvisoryError, match=r"day to come.*\[advisories.bulletins\]$"):
        KNOWN.with_file(more)


def test_newer_tables_of_the_inventory_count(tmp_path: Path) -> None:
    known, row = KNOWN, {"fixed": "580.999.01", "severity": "HIGH", "cves": ["CVE-1"]}
    day = known.as_of + timedelta(30)
    one = {"id": "5999", "date": str(day), "source": "https://example.org/5999", "checked": str(day)}
    tables = {"bulletins": {"as_of": str(day), "limit_days": 100}}
    text = json.dumps({"tables": tables, "bulletins": [*known.bulletins, {**one, "branches": {"580": row}}]})
    (tmp_path / "knowledge.yml").write_text(text)
    (tmp_path / "knowledge.yml.sha256").write_text(hashlib.sha256(text.encode()).hexdigest())
    asked: dict[str, Any] = {"lock": "", "text": "", "drivers": ["580.178.04"], "file": "", "more": "", "today": day}
    assert compared(**asked)["rows"] == []
    found = compared(**asked, newer=(str(tmp_path), ""))
    assert [one["fixed"] for one in found["rows"]] == ["580.999.01"] and f"as of {day}, 0 days" in found["as_of"][0]
    assert "are used: bulletins" in found["as_of"][1]


def test_the_operators_own_bulletins_are_added_and_a_wrong_file_is_an_error(tmp_path: Path) -> None:
    more = tmp_path / "more.yml"
    row = {"fixed": "470.300.01", "severity": "HIGH", "cves": ["CVE-2027-1"]}
    more.write_text(
        json.dumps({"bulletins": [{"id": "1", "source": "https://example.org/1", "branches": {"470": row}}]})
    )
    found = compared("", "", ["470.256.02"], "", str(more))
    assert found["rows"][0]["fixed"] == "470.300.01" and len(found["unknown"]) == 1
    more.write_text(json.dumps({"bulletins": [{"id": "1", "branches": {}}]}))
    with pytest.raises(AnsibleLookupError, match=r"more.yml.*\[advisories.bulletins\]$"):
        LookupModule().run([""], text="", bulletins=str(more))
