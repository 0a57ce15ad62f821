"""The measure of sentences counts prose alone, ends sentences where people do, and names what is too long."""

from __future__ import annotations

import pytest
from conftest import REPOSITORY
from module_files import load_file

prose = load_file("tools/prose.py")


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        # An item of a list ends its sentence, also without a full stop, and also inside another one.
        ("* one two three\n* four five six seven\n  * eight nine ten\n", [3, 4, 3]),
        ("1. one two three\n\n   four five six\n2. seven eight nine\n", [3, 3, 3]),
        # Abbreviations, initials, numbers and names with dots end none.
        ("Take a card, e.g. a V100 or, i.e. one of it, etc. and go.", [14]),
        ("The file site.yml of version 0.2.0 is read at 3.5 GHz.", [11]),
        ("Huang et al. 2024 wrote it with J. Smith.", [9]),
        ("Run `a. B` now, and read [a page](x.md) then.", [8]),
        ("It waits ... and goes on.", [5]),
        # What ends one: with a quotation mark, a bracket, a bold end, before a name in lower case or code.
        ('It says "no more." Then it ends here. gpu-run goes on. `dnf` comes last.', [4, 4, 3, 3]),
        ("**This is bold.** And this is not. (It is in brackets.) Is it so? Yes, it is!", [3, 4, 4, 3, 3]),
        ("A colon: it goes on here; so does this.", [9]),
        # No prose.
        ("# A title of four words\n\n| a | b |\n|---|---|\n| one two three | four |\n", []),
        ("```\none two three four\n```\n\n    five six seven eight\n", []),
        ("* an item with code:\n\n  ~~~sh\n  not prose. Not at all.\n  ~~~\n", [4]),
        ("---\ntitle: one two three four\n---\n\nFive six seven.\n", [3]),
        ("![a picture of three](x.png)\n\n<!-- a comment of several words -->\n", []),
        # Fewer than three words are a label.
        ("**Undo.** Set the variable to absent.", [5]),
        ("> one two three\n> four five.\n", [5]),
        ("Title\n=====\n\nOne two three.\n", [3]),
    ],
)
def test_sentences_end_where_people_end_them(text, lengths):
    assert prose.measure("a.md", text).lengths == lengths


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (
            "# A\n\nOne two three.\n\n<!-- Do not edit. -->\n\nFour five six.\n\n## B\n\n* seven eight nine\n",
            1,
        ),
        (
            "# A\n\n## B\n\n<!-- written by `make docs` -->\n\nOne two three.\n\n### C\n\nFour five six.\n\n## D\n\n"
            "Seven eight nine.\n",
            1,
        ),
        ("# A\n\n<!-- made: do not edit -->\n\nOne two three.\n\n<!-- end of made -->\n\nFour five six.\n", 1),
        ("# A\n\nThis page is written from x by `make docs`; do not edit it.\n\n## B\n\nOne two three.\n", 0),
        ("# A\n\nAfter it, run `make docs`, which writes pages.\n", 1),
    ],
)
def test_a_generated_part_ends_with_its_comment_or_its_section(text, count):
    page = prose.measure("a.md", text)
    assert len(page.sentences) == count
    assert page.words < len(text.split()) or count == 1


def test_a_long_sentence_is_named_on_every_page():
    fits, long = "word " * 34 + "end. ", "word " * 35 + "end. "
    assert prose.complaints(prose.measure("a.md", fits), False) == []
    (line,) = prose.complaints(prose.measure("a.md", long), False)
    assert line.startswith("a.md: a sentence of 36 words; at most 35")


def test_the_mean_and_the_size_count_only_for_pages_that_readme_links():
    eighteen = ("word " * 17 + "end. ") * 3
    page = prose.measure("a.md", eighteen)
    assert prose.complaints(page, False) == []
    assert "18.0 words a sentence; at most 17" in prose.complaints(page, True)[0]
    big = prose.measure("a.md", "one two three four five. " * 501)
    assert prose.complaints(big, False) == []
    assert "2505 words; at most 2500" in prose.complaints(big, True)[0]


def test_code_and_tables_count_for_the_size_and_generated_parts_do_not():
    assert prose.measure("a.md", "| a | b |\n|---|---|\n| c | d |\n").words == 11
    assert prose.measure("a.md", "# A\n\n<!-- do not edit -->\n\n| a | b |\n|---|---|\n| c | d |\n").words == 2


def test_the_pages_that_readme_links_are_those_for_people_who_use_it():
    readme = "[a](docs/a.md#b) [c](CONTRIBUTING.md) [d](docs/architecture.md) [e](tests/fleet/README.md)"
    assert prose.linked(readme) == {"README.md", "docs/a.md"}
    here = prose.linked((REPOSITORY / "README.md").read_text())
    assert {"docs/rebuild.md", "docs/operate.md", "docs/compatibility.md", "SUPPORT.md"} <= here
    assert all((REPOSITORY / path).is_file() for path in here)


def test_the_list_of_pages_that_are_too_long_can_only_shrink(monkeypatch, capsys):
    monkeypatch.setattr(prose, "NOT_YET", {"SECURITY.md"})
    assert prose.main(["SECURITY.md"]) == 1
    assert "SECURITY.md is short enough now" in capsys.readouterr().out
