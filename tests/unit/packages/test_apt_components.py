"""apt_components: the host's own mirror gets more components, others are left alone, a failure leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuwright.packages.apt_sources import KEYRINGS, parse_targets, sources_text, wanted_stanzas

FILE = "/etc/apt/sources.list.d/gpuwright-components.sources"
COMPONENTS = ["contrib", "non-free"]
SECURITY = "/etc/apt/sources.list:1|Debian|http://m/debian-security/|bookworm-security|main"
MAIN = "/etc/apt/sources.list:3|Debian|http://m/debian/|bookworm|main"
UPDATES = "/etc/apt/sources.list.d/more.sources:1|Debian|http://m/debian/|bookworm-updates|main"
CONTRIB = "/etc/apt/sources.list:3|Debian|http://m/debian/|bookworm|contrib"
OWN = f"{FILE}:1|Debian|http://m/debian/|bookworm|non-free"
VENDOR = "/etc/apt/sources.list.d/vendor.list:1|Vendor|http://v/apt/|bookworm|main"
NEVER_READ = "/etc/apt/sources.list:3||http://m/debian/|bookworm|main"


@pytest.mark.parametrize(
    ("lines", "stanzas"),
    [
        (
            [SECURITY, MAIN, UPDATES],
            [
                ("Debian", "http://m/debian-security/", ("bookworm-security",), ("contrib", "non-free")),
                ("Debian", "http://m/debian/", ("bookworm", "bookworm-updates"), ("contrib", "non-free")),
            ],
        ),
        ([MAIN, CONTRIB], [("Debian", "http://m/debian/", ("bookworm",), ("non-free",))]),
        # What our own file configures is still ours to configure, or it would vanish on the second run.
        ([MAIN, CONTRIB, OWN], [("Debian", "http://m/debian/", ("bookworm",), ("non-free",))]),
        ([MAIN, VENDOR], [("Debian", "http://m/debian/", ("bookworm",), ("contrib", "non-free"))]),
        ([VENDOR, NEVER_READ, "", "no|target"], []),
        ([MAIN, CONTRIB, OWN.replace(FILE, "/etc/apt/sources.list")], []),
    ],
)
def test_stanzas(lines: list[str], stanzas: list) -> None:
    assert wanted_stanzas(parse_targets("\n".join(lines)), COMPONENTS, FILE) == stanzas


def test_text_is_signed_by_the_distributions_own_keyring_where_the_host_has_it() -> None:
    stanza = ("Debian", "http://m/debian/", ("bookworm", "bookworm-updates"), ("contrib", "non-free"))
    text = sources_text([stanza], list(KEYRINGS.values()))
    assert text.splitlines()[2:] == [
        "Types: deb",
        "URIs: http://m/debian/",
        "Suites: bookworm bookworm-updates",
        "Components: contrib non-free",
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
    ]
    assert "Signed-By" not in sources_text([stanza], [])
    assert sources_text([], []) == ""


# As apt does, it leaves out an index without a package; asked for what sources say, it names all without origins.
APT = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$*" in
    indextargets*--no-release-info*)
        cat "$(dirname "$0")/targets" "$(dirname "$0")/empty" 2>/dev/null | sed 's/|[A-Za-z]*|/|$(ORIGIN)|/' ;;
    indextargets*) cat "$(dirname "$0")/targets" ;;
    update*) [ -e "$(dirname "$0")/broken" ] && { echo "E: does not have a Release file" >&2; exit 100; }; exit 0 ;;
esac
"""


@pytest.fixture
def apt(fake_bin) -> Path:
    """The folder of a stand-in apt-get that lists `targets` and notes its calls."""
    folder = Path(fake_bin("apt-get", APT)).parent
    (folder / "targets").write_text("\n".join([SECURITY, MAIN]) + "\n")
    return folder


def run(run_module, path: Path, check: bool = False) -> dict:
    return run_module("apt_components", {"components": COMPONENTS, "path": str(path), "_ansible_check_mode": check})


def test_writes_once_and_reads_the_lists_once(run_module, apt: Path, tmp_path: Path) -> None:
    path = tmp_path / "components.sources"
    assert run(run_module, path, check=True)["changed"] and not path.exists()
    first = run(run_module, path)
    assert first["changed"] and "URIs: http://m/debian/\nSuites: bookworm\n" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644
    assert not run(run_module, path)["changed"]
    assert (apt / "calls").read_text().count("update") == 1


@pytest.mark.parametrize("file", ["/etc/apt/sources.list.d/debian.sources:1", "/etc/apt/sources.list:3"])
def test_a_component_without_a_package_is_not_configured_again(
    run_module, apt: Path, tmp_path: Path, file: str
) -> None:
    """Of a young release, security and updates have nothing in most components; apt would complain at every update."""
    rows = [(uri, suite) for uri, suite in (("debian", "bookworm"), ("debian-security", "bookworm-security"))]
    (apt / "targets").write_text("".join(f"{file}|Debian|http://m/{uri}/|{suite}|main\n" for uri, suite in rows))
    names = [(*rows[0], "contrib"), (*rows[1], "contrib"), (*rows[1], "non-free")]
    (apt / "empty").write_text("".join(f"{file}|Debian|http://m/{uri}/|{suite}|{name}\n" for uri, suite, name in names))
    path = tmp_path / "components.sources"
    answer = run(run_module, path)
    assert answer["added"] == [{"uri": "http://m/debian/", "suites": ["bookworm"], "components": ["non-free"]}]
    # What it has written is in no other file, though no package is in it yet.
    with (apt / "empty").open("a") as empty:
        empty.write(f"{path}:1|Debian|http://m/debian/|bookworm|non-free\n")
    assert not run(run_module, path)["changed"]


def test_a_mirror_without_the_components_leaves_no_file(run_module, apt: Path, tmp_path: Path) -> None:
    (apt / "broken").touch()
    path = tmp_path / "components.sources"
    answer = run(run_module, path)
    assert answer["failed"] and "does not have a Release file" in answer["msg"] and not path.exists()


def test_a_host_without_a_mirror_of_its_distribution_is_told_so(run_module, apt: Path, tmp_path: Path) -> None:
    (apt / "targets").write_text(VENDOR + "\n")
    answer = run(run_module, tmp_path / "components.sources")
    assert answer["failed"] and "Configure the distribution's mirror first" in answer["msg"]


def test_a_file_that_nothing_needs_any_more_is_removed(run_module, apt: Path, tmp_path: Path) -> None:
    path = tmp_path / "components.sources"
    run(run_module, path)
    lines = [line.rpartition("|")[0] + "|" + name for line in (SECURITY, MAIN) for name in ("main", *COMPONENTS)]
    (apt / "targets").write_text("\n".join(lines) + "\n")
    assert run(run_module, path)["changed"] and not path.exists()
