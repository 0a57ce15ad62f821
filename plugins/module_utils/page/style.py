# SPDX-License-Identifier: Apache-2.0
"""The looks of the page: one style sheet for screen, phone, dark mode and paper."""

from .markup import Markup

STYLE = Markup("""
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2128; --soft: #57606a; --line: #d0d7de; --panel: #f6f8fa;
  --good: #1a6b34; --bad: #b3202c; --warn: #805700; --unknown: #6639ba; --link: #0a58ca; --plain: #4a6fa5; }
@media (prefers-color-scheme: dark) { :root { --bg: #0f1318; --fg: #e6edf3; --soft: #9da7b3; --line: #373e47;
  --panel: #181d24; --good: #56d07b; --bad: #ff8b85; --warn: #e0b13c; --unknown: #c4a5ff; --link: #79b8ff;
  --plain: #7f9fc9; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { background: var(--bg); color: var(--fg); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 74rem; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.3rem; margin: 2rem 0 .4rem; }
h3 { font-size: 1.05rem; margin: 1rem 0 .4rem; } h4 { font-size: 1rem; margin: 1rem 0 .3rem; }
a { color: var(--link); } p { margin: .3rem 0; } ul { margin: .3rem 0; padding-left: 1.3rem; }
.soft { color: var(--soft); } .small { font-size: .875rem; } .stale { color: var(--warn); }
.host { border-top: 3px solid var(--line); margin-top: 2.5rem; padding-top: 1rem; } .host > h2 { margin-top: 0; }
.PASS { color: var(--good); } .FAIL { color: var(--bad); } .WARN { color: var(--warn); } .UNKNOWN {
  color: var(--unknown); } .SKIP { color: var(--soft); }
.word { border: 1px solid currentColor; border-radius: .3rem; display: inline-block; font-size: .8125rem;
  font-weight: 700; line-height: 1.3; padding: 0 .35rem; vertical-align: .08em; white-space: nowrap; }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; list-style: none; margin: 1rem 0 .6rem; padding: 0; }
.tiles li { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; font-weight: 600;
  min-width: 5.5rem; padding: .4rem .9rem; }
.tiles b { display: block; font-size: 1.6rem; line-height: 1.2; }
.shares { border-radius: .25rem; display: block; height: .6rem; margin: 0 0 1.4rem; width: 100%; }
.share { fill: currentColor; }
table { border-collapse: collapse; margin: .4rem 0 1rem; width: 100%; }
caption { color: var(--soft); font-size: .9375rem; padding-bottom: .2rem; text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .9rem .35rem 0; text-align: left;
  vertical-align: top; }
thead th { font-size: .9375rem; white-space: nowrap; } tbody th { font-weight: 600; min-width: 9.5rem; }
.fleet td { white-space: nowrap; } .fleet td:last-child { white-space: normal; }
.measures td { white-space: nowrap; } .measures td:nth-child(3) { width: 45%; }
.built td:nth-child(2) { width: 34%; } .built td:nth-child(3) { min-width: 8rem; overflow-wrap: break-word; }
.group td { border-bottom: 2px solid var(--line); color: var(--soft); font-weight: 600; padding-top: .9rem; }
.pair { display: grid; gap: 0 2.5rem; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); }
ul.plain { list-style: none; margin: 0; padding: 0; }
ul.plain li { border-left: 4px solid currentColor; margin: .6rem 0; padding-left: .7rem; }
ul.plain p { color: var(--fg); } .next { background: var(--panel); border-radius: .3rem; padding: .2rem .5rem; }
.next::before { color: var(--soft); content: "→ "; }
ul.columns { columns: 16rem; }
ul.plain details { border: 0; color: var(--fg); }
details { border-top: 1px solid var(--line); } details > :last-child { margin-bottom: 1rem; }
.pair + details { margin-top: 1rem; }
summary { cursor: pointer; padding: .5rem 0; } summary h3 { display: inline; }
a:focus-visible, summary:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.drawing { display: block; height: auto; max-width: 28rem; width: 100%; }
svg text { fill: var(--fg); font: 12px system-ui, sans-serif; } svg .strong { font-weight: 600; }
svg .soft { fill: var(--soft); }
svg .box { fill: var(--panel); stroke: var(--line); } svg .wire { stroke: var(--plain); stroke-width: 2; }
svg .gpu { fill: var(--bg); stroke: var(--plain); stroke-width: 1.5; } svg .narrow { stroke: var(--bad); }
.meter { display: inline-block; height: 1.1rem; min-width: 8rem; vertical-align: -.25rem; width: 75%; }
.meter .ground { fill: var(--panel); } .meter .bar { fill: currentColor; } .meter .plain { color: var(--plain); }
.meter .floor { fill: var(--fg); }
@media screen and (max-width: 48rem) {
  .pair { grid-template-columns: minmax(0, 1fr); }
  .wide thead { clip-path: inset(50%); height: 1px; overflow: hidden; position: absolute; width: 1px; }
  .wide, .wide tbody, .wide tr, .wide caption { display: block; }
  .wide tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  .fleet td, .measures td { white-space: normal; } .measures td:nth-child(3) { width: auto; }
  .built td:nth-child(n) { min-width: 0; width: auto; }
  .wide th, .wide td { border: 0; display: block; min-width: 0; padding: .05rem 0; } .wide td.empty { display: none; }
  .fleet td { display: inline-block; margin-right: .9rem; }
  .wide td[data-name]::before { color: var(--soft); content: attr(data-name) ": "; }
  .wide .group { border-bottom: 2px solid var(--line); }
}
@page { margin: 12mm; }
@media print {
  :root { color-scheme: light; --bg: #fff; --fg: #000; --panel: #f3f3f3; --line: #999; --soft: #444; --good: #1a6b34;
    --bad: #b3202c; --warn: #805700; --unknown: #6639ba; --link: #000; --plain: #4a6fa5; }
  html { font-size: 8pt; } body { font-size: 8pt; line-height: 1.25; max-width: none; padding: 0; }
  caption, thead th, .small, .word { font-size: 7.5pt; } a { text-decoration: none; }
  .host { border-top: 0; break-before: page; margin-top: 0; padding-top: 0; } .noprint { display: none; }
  h2, h3, h4, caption, summary { break-after: avoid; } tr, li, svg, .tiles { break-inside: avoid; }
  thead { display: table-header-group; } svg, .word, .next, .tiles li { print-color-adjust: exact; }
  p, ul { margin: .1rem 0; } h3, h4 { margin: .4rem 0 .2rem; } table { margin: .2rem 0 .6rem; }
  th, td { padding: .06rem .6rem .06rem 0; } tbody th { min-width: 0; } .group td { padding-top: .3rem; }
  .pair { display: block; } ul.plain { columns: 2; } ul.plain li { margin: 0 0 .5rem; }
  .built tbody th, .tuned td:nth-child(2) { white-space: nowrap; } .tuned tbody th { min-width: 41mm; }
  .built tbody th { width: 1%; } .built td:nth-child(2) { width: 32%; } .built td:nth-child(3) { width: 18%; }
  .beside { display: grid; gap: 0 6mm; grid-template-columns: 58mm minmax(0, 1fr); }
  .measures td:nth-child(3) { width: 30%; } .meter { min-width: 0; width: 60%; }
  h3 + ul { column-gap: 6mm; columns: 2; }
  .twice { columns: 3; column-gap: 4mm; font-size: 6.5pt; line-height: 1.1; } .twice thead { display: none; }
  .twice .word { font-size: 6pt; line-height: 1.1; min-width: 0; padding: 0 .5mm; }
  .twice table, .twice caption, .twice tbody { display: block; }
  .twice tr { border-bottom: 1px solid var(--line); break-inside: auto; display: block;
    padding: .03rem 0 .03rem 12mm; }
  .twice th, .twice td { border: 0; display: inline; padding: 0; }
  .twice td:nth-child(2) { float: left; margin-left: -12mm; }
  details::details-content { content-visibility: visible; height: auto; } summary { list-style: none; }
  details > :last-child { margin-bottom: .3rem; } summary { padding: .2rem 0; }
}
""")
