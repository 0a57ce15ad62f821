# SPDX-License-Identifier: Apache-2.0
"""HTML in which nothing that was read can become markup: every text is escaped where it is put in."""

from .report import printable

VOID = ("meta", "br", "rect", "line", "hr")


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
    return Markup(start + "/>") if tag_ in VOID else Markup("{}>{}</{}>\n".format(start, join(children), tag_))


STYLE = Markup("""
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2128; --soft: #57606a; --line: #d0d7de; --panel:
  #f6f8fa; --good: #1a6b34; --bad: #b3202c; --warn: #805700; --unknown: #6639ba; --link: #0a58ca; }
@media (prefers-color-scheme: dark) { :root { --bg: #0f1318; --fg: #e6edf3; --soft: #9da7b3; --line: #373e47;
  --panel: #181d24; --good: #56d07b; --bad: #ff8b85; --warn: #e0b13c; --unknown: #c4a5ff; --link: #79b8ff; } }
* { box-sizing: border-box; }
body { background: var(--bg); color: var(--fg); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 70rem; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.3rem; margin: 0; } h3 { font-size: 1rem;
  margin: 1.4rem 0 .4rem; }
a { color: var(--link); } p { margin: .3rem 0; } .soft { color: var(--soft); }
.host { border-top: 3px solid var(--line); margin-top: 2.2rem; padding-top: 1rem; }
.PASS, .DONE { color: var(--good); } .FAIL { color: var(--bad); } .WARN { color: var(--warn); } .UNKNOWN {
  color: var(--unknown); }
.SKIP { color: var(--soft); } .word { font-weight: 700; }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; list-style: none; margin: 1rem 0; padding: 0; }
.tiles li { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .4rem
  .9rem; }
.tiles b { display: block; font-size: 1.5rem; line-height: 1.2; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; color: var(--soft); }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem .35rem 0; text-align: left;
  vertical-align: top; }
tbody th { font-weight: 600; } td, li, p, code { overflow-wrap: anywhere; } code {
  background: var(--panel); border-radius: .3rem; font-size: .9em; padding:
  .05rem .3rem; }
ul.plain { list-style: none; margin: 0; padding: 0; } ul.plain li { border-left: 4px solid currentColor;
  margin: .6rem 0; padding-left: .7rem; } ul.plain li > * { color: var(--fg); } ul.plain li > .word { color:
  inherit; }
summary { cursor: pointer; font-weight: 600; margin: .8rem 0 .4rem; }
svg { display: block; height: auto; max-width: 34rem; width: 100%; } svg text { fill: var(--fg); font: 12px system-ui,
  sans-serif; }
svg .soft { fill: var(--soft); } svg .box { fill: var(--panel); stroke: var(--line); } svg .bar { fill:
  var(--link); }
svg .floor { stroke: var(--bad); stroke-width: 2; } svg .gpu { fill: var(--bg); stroke: var(--link); }
@media (max-width: 40rem) { .wide thead { position: absolute; left: -99rem; } .wide tr { border-bottom: 1px
  solid var(--line); display: block; padding: .4rem 0; } .wide th, .wide td { border: 0; display: block;
  padding: .05rem 0; } .wide td[data-name]::before { color: var(--soft); content: attr(data-name) ": "; } }
@media print { :root { --bg: #fff; --fg: #000; --panel: #fff; --line: #999; --soft: #444; --good: #1a6b34;
  --bad: #b3202c; --warn: #805700; --unknown: #6639ba; } body { font-size: 10.5pt; max-width: none; padding: 0;
  } .host { break-before: page; } tr, li, svg { break-inside: avoid; } }
""")
