"""What ansible-test does not report is listed by files that are there, so that `make test-sanity` ends well."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
IGNORES = REPOSITORY / "tests/sanity/ignore-2.16.txt"
# Kinds of plug-ins whose licence ansible-test looks at; ours is not the one that it wants.
KINDS = ("callback", "lookup", "modules", "vars")


def test_every_plug_in_is_listed_once_and_nothing_else() -> None:
    files = [path for kind in KINDS for path in (REPOSITORY / "plugins" / kind).glob("*.py")]
    listed = IGNORES.read_text().splitlines()
    assert listed == sorted(f"{path.relative_to(REPOSITORY)} validate-modules:missing-gplv3-license" for path in files)
