# SPDX-License-Identifier: Apache-2.0
"""HTML in which nothing that was read can become markup: every text is escaped where it is put in."""

from ..verdict.check import UNKNOWN
from ..verdict.report import TABLE_ORDER, printable

VOID = ("meta", "br", "rect", "line", "hr")
# No line break behind these: it would be read as a space.
INLINE = ("a", "b", "code", "span", "text", "title")


class Markup(str):
    """Text that is HTML already; only the functions of this file make it."""


def escape(value):
    """Any value as text of HTML, control characters replaced; `Markup` is left as it is."""
    if isinstance(value, Markup):
        return value
    text = printable(str(value))
    for character, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(character, name)
    return Markup(text)


def join(parts):
    return Markup("".join(escape(part) for part in parts))


def el(tag_, *children, **attributes):
    """One element. An attribute's name is written with _ for - and a trailing _ where Python has the word itself."""
    words = [
        ' {}="{}"'.format(key.rstrip("_").replace("_", "-"), escape(value))
        for key, value in sorted(attributes.items())
        if value is not None
    ]
    start = "<" + tag_ + "".join(words)
    # The slash is what closes an element of SVG, and nothing to HTML.
    if tag_ in VOID:
        return Markup(start + "/>")
    return Markup("{}>{}</{}>{}".format(start, join(children), tag_, "" if tag_ in INLINE else "\n"))


def word(status):
    """A status as a badge."""
    return el("span", status, class_="word " + (status if status in TABLE_ORDER else UNKNOWN))


def soft(text):
    return el("p", text, class_="soft")


def listed(sentences, otherwise):
    """A list, or the sentence `otherwise` when there is none."""
    return el("ul", *[el("li", sentence) for sentence in sentences]) if sentences else soft(otherwise)


def table(head, rows, caption, groups=None, class_="wide"):
    """A table whose first column names each row; `groups` are the titles of its parts, in the order of `rows`.

    On a phone each row becomes a block, and each cell says the name of its column.
    """
    titles = el("thead", el("tr", *[el("th", title, scope="col") for title in head]))
    bodies, lines, title = [], [], None
    for index, row in enumerate(rows):
        row = [escape(cell) for cell in row]
        if groups and groups[index] != title:
            bodies, lines, title = bodies + [lines] if lines else bodies, [], groups[index]
            lines.append(el("tr", el("td", title, colspan=len(head)), class_="group"))
        cells = []
        for number, cell in enumerate(row[1:], 1):
            name = head[number] if cell != "" and "<svg" not in cell else None
            cells.append(el("td", cell, data_name=name, class_=None if cell != "" else "empty"))
        lines.append(el("tr", el("th", row[0], scope="row"), *cells))
    bodies = bodies + [lines] if lines else bodies
    return el("table", el("caption", caption), titles, *[el("tbody", *body) for body in bodies], class_=class_)
