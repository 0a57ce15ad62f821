"""Measures the sentences of the pages that are written by hand, and says which are too long; `make lint` runs it.

Only prose counts: no tables, code, headings, pictures, front matter or generated parts. A generated part begins with a
comment or a paragraph that says "do not edit" or "written by `make ...`"; it ends with a comment "end of ..." or with
its section.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

REPOSITORY = Path(__file__).resolve().parents[1]
MOST_WORDS = 35  # of a sentence, anywhere
MOST_MEAN = 17.0  # words a sentence, on README and on the pages that it links
MOST_ON_A_PAGE = 2500  # words in all, on the same pages
# README links these for people who change the project, and they are held to the length of a sentence alone.
FOR_DEVELOPERS = re.compile(r"(CHANGELOG|CONTRIBUTING|docs/architecture)\.md$|tests/")
# Pages that are not short enough yet. One that has become so must leave the list, and none may join it.
NOT_YET: set[str] = set()
GENERATED = re.compile(r"[Dd]o not\s+edit|\b[Ww]ritten\s+by\s+`?make\s|\bmade\s+from\s.*by\s+`make docs`")
END_OF_GENERATED = re.compile(r"<!--\s*end of\b")
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
ABBREVIATIONS = {"e.g", "i.e", "etc", "vs", "al", "cf", "ca", "approx", "incl", "fig", "dr", "mr", "ms"}
END = re.compile(r"([.!?]+)[\"'”’)\]*]*\s+")
LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)")


class Page(NamedTuple):
    """What was counted on one page: the words of each sentence, and of the whole page without its generated parts."""

    path: str
    sentences: tuple[str, ...]
    words: int

    @property
    def lengths(self) -> list[int]:
        return [len(words(sentence)) for sentence in self.sentences]

    @property
    def mean(self) -> float:
        return sum(self.lengths) / max(1, len(self.lengths))


def words(text: str) -> list[str]:
    """A word has a letter or a digit; code, a name of a file and an address are one word each."""
    return [word for word in text.split() if re.search(r"\w", word)]


def plain(inline: Token) -> str:
    """The text of a paragraph, with a piece of code as one word, and without pictures."""
    parts = []
    for child in inline.children or ():
        if child.type == "code_inline":
            parts.append("CODE")
        elif child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif child.type == "text":
            parts.append(child.content)
    return "".join(parts)


def split(paragraph: str) -> list[str]:
    """The sentences of a paragraph. Fewer than three words are a label, and no sentence."""
    found, start = [], 0
    for hit in END.finditer(paragraph):
        before = paragraph[start : hit.start()].split()[-1:]
        last = before[0].lstrip("(\"'*[").lower() if before else ""
        initial = len(last) == 1 and last.isalpha() and before[0].isupper()
        goes_on = hit[1].startswith("..") and paragraph[hit.end() : hit.end() + 1].islower()
        if hit[1] == "." and (last in ABBREVIATIONS or initial) or goes_on:
            continue
        found.append(paragraph[start : hit.end()].strip())
        start = hit.end()
    found.append(paragraph[start:].strip())
    return [sentence for sentence in found if len(words(sentence)) >= 3]


def measure(path: str, text: str) -> Page:
    """Reads a page as CommonMark with tables."""
    text = FRONT_MATTER.sub("", text)
    tokens = MarkdownIt().enable("table").parse(text)
    lines = text.splitlines()
    sentences: list[str] = []
    # The level of the section whose rest is generated; 0 for none. `level` is that of the current section.
    generated = level = table = heading = 0
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1])
            generated = 0 if level <= generated else generated
        heading += token.type.startswith("heading") * token.nesting
        table += token.type.startswith("table") * token.nesting
        if token.type == "html_block":
            if END_OF_GENERATED.match(token.content):
                generated = 0
            elif GENERATED.search(token.content):
                generated = level or 1
        if token.type == "inline" and not heading and not table:
            if GENERATED.search(token.content):
                generated = level or 1
            if not generated:
                sentences += split(plain(token))
        if generated and token.map and token.type in ("html_block", "inline", "fence", "code_block", "table_open"):
            lines[token.map[0] : token.map[1]] = [""] * (token.map[1] - token.map[0])
    return Page(path, tuple(sentences), len(" ".join(lines).split()))


def linked(readme: str) -> set[str]:
    """README and the pages that it links for administrators and researchers."""
    return {path for path in ("README.md", *LINK.findall(readme)) if not FOR_DEVELOPERS.match(path)}


def complaints(page: Page, for_users: bool) -> list[str]:
    found = [
        f"{page.path}: a sentence of {count} words; at most {MOST_WORDS}, so say it in two: {sentence}"
        for sentence, count in zip(page.sentences, page.lengths, strict=True)
        if count > MOST_WORDS
    ]
    if for_users and page.mean > MOST_MEAN:
        found.append(
            f"{page.path}: {page.mean:.1f} words a sentence; at most {MOST_MEAN:.0f}, as README links it. "
            "Shorten the longest ones: tools/prose.py --longest " + page.path
        )
    if for_users and page.words > MOST_ON_A_PAGE:
        found.append(f"{page.path}: {page.words} words; at most {MOST_ON_A_PAGE}, so move a part to a page of its own")
    return found


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def main(arguments: list[str]) -> int:
    """--all prints the counts of every page, --longest PAGE its sentences, longest first."""
    options = [word for word in arguments if word.startswith("--")]
    chosen = [word for word in arguments if word not in options] or tracked()
    pages = [measure(path, (REPOSITORY / path).read_text()) for path in chosen]
    users = linked((REPOSITORY / "README.md").read_text())
    if "--longest" in options:
        for page in pages:
            for count, sentence in sorted(zip(page.lengths, page.sentences, strict=True), reverse=True):
                print(f"{count:3} {sentence}")
        return 0
    if "--all" in options:
        for page in pages:
            print(f"{page.path:40} {page.words:6} words {len(page.sentences):4} sentences, {page.mean:4.1f} words each")
        counted = [length for page in pages for length in page.lengths]
        print(f"{sum(page.words for page in pages)} words; prose: {sum(counted)} words, {len(counted)} sentences")
    found = []
    for page in pages:
        lines = complaints(page, page.path in users)
        if page.path not in NOT_YET:
            found += lines
        elif not lines:
            found.append(f"{page.path} is short enough now: take it out of NOT_YET in tools/prose.py")
    print("\n".join(found) or f"{len(pages)} pages: no sentence has more than {MOST_WORDS} words.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
