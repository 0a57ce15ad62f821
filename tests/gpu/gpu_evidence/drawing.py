"""Bars with intervals as SVG: no library for plots has to be there."""

from __future__ import annotations

import re
from html import escape
from typing import Any

WIDTH, LABEL, ROW, TOP = 760, 260, 24, 34
COLOURS = {"bar": "#1f77b4", "line": "#222222", "floor": "#d62728"}
MOST_BARS = 40


def file_name(part: str, title: str) -> str:
    return f"{part}-{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')[:60]}.svg"


def svg(plot: dict[str, Any]) -> str:
    """One bar for each row {name, value}, a line from `low` to `high`, a mark at `floor`; numbers as text beside it."""
    rows = plot["rows"][:MOST_BARS]
    highest = max([row[key] for row in rows for key in ("value", "high", "floor") if row.get(key)] or [1.0])
    scale = (WIDTH - LABEL - 90) / (highest or 1.0)
    height = TOP + ROW * len(rows) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="12" font-family="Arial">',
        f"<title>{escape(plot['title'])}, {escape(plot['unit'])}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="20" font-size="14">{escape(plot["title"])}, {escape(plot["unit"])}</text>',
    ]
    for number, row in enumerate(rows):
        top = TOP + ROW * number
        middle, length = top + ROW / 2, row["value"] * scale
        parts.append(
            f'<text x="{LABEL - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(str(row["name"])[:40])}</text>'
        )
        parts.append(
            f'<rect x="{LABEL}" y="{top + 4}" width="{length:.1f}" height="{ROW - 8}" fill="{COLOURS["bar"]}"/>'
        )
        end = length
        if row.get("low") is not None and row.get("high") is not None:
            low, end = row["low"] * scale, max(end, row["high"] * scale)
            parts.append(line(LABEL + low, middle, LABEL + row["high"] * scale, middle, COLOURS["line"]))
        if row.get("floor"):
            place = LABEL + row["floor"] * scale
            parts.append(line(place, top + 1, place, top + ROW - 1, COLOURS["floor"]))
            end = max(end, row["floor"] * scale)
        parts.append(f'<text x="{LABEL + end + 6:.1f}" y="{middle + 4:.1f}">{row["value"]:.4g}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="2"/>'
