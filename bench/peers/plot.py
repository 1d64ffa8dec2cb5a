"""How does a comparison look? Bars on a logarithmic scale, as SVG made by hand: no library, and small enough to read.

The colours are in the file's own style sheet, with a second set for a dark page. A bar is the median of the warm
runs, the line over its end the smallest and the largest of them, the open circle the cold run.
"""

from __future__ import annotations

import math
from xml.sax.saxutils import escape, quoteattr

from bench.peers.engines import ALL
from bench.peers.measure import Case, Measurement

__all__ = ["svg"]

WIDTH, LEFT, RIGHT, TOP = 860, 200, 70, 50
BAR, GAP, CASE_GAP = 15, 3, 26
LEGEND = "Bar: median of the warm runs. Line: the quickest and the slowest of them. Circle: the cold run."
# Told apart by people who see few colours too (after Okabe and Ito); light page, dark page.
COLOURS = {
    "Ebbtide": ("#0072b2", "#56b4e9"),
    "delta-spark": ("#d55e00", "#ff8c42"),
    "delta-spark without vectors": ("#e69f00", "#f5c04a"),
    "deltalake": ("#009e73", "#3fd0a4"),
    "Sail": ("#a0528f", "#d99bc9"),
    "DuckDB": ("#8a7d00", "#e5d94a"),
    "Polars": ("#666666", "#b0b0b0"),
}


def svg(title: str, cases: list[Case]) -> str:
    """The whole file."""
    seconds = [
        value for case in cases for each in case.measurements if each.median is not None for value in _shown(each)
    ]
    low, high = _decades(seconds)
    body, bottom = _cases(cases, low, high)
    height = bottom + 30
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(title)}>',
        _style(),
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="12" y="20">{escape(title)} (seconds, logarithmic)</text>',
        *_axis(low, high, bottom),
        *body,
        f'<text class="value" x="12" y="{height - 12}">{LEGEND}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _shown(result: Measurement) -> list[float]:
    return [*result.warm_seconds, *([] if result.cold_seconds is None else [result.cold_seconds])]


def _decades(seconds: list[float]) -> tuple[int, int]:
    """The powers of ten around all values."""
    if not seconds:
        return -2, 1
    low, high = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))
    return low, max(high, low + 1)


def _at(seconds: float, low: int, high: int) -> float:
    share = (math.log10(seconds) - low) / (high - low)
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _style() -> str:
    names = [engine.name for engine in ALL]
    light = "".join(f".e{at}{{fill:{COLOURS[name][0]}}}" for at, name in enumerate(names))
    dark = "".join(f".e{at}{{fill:{COLOURS[name][1]}}}" for at, name in enumerate(names))
    return (
        "<style>text{font:12px sans-serif;fill:#1f2328}.title{font-size:14px;font-weight:600}.case{font-weight:600}"
        ".page{fill:#ffffff}.grid{stroke:#d0d7de}.spread{stroke:#1f2328}.cold{fill:none;stroke:#1f2328}"
        f".value{{font-size:11px}}{light}"
        "@media (prefers-color-scheme: dark){text{fill:#e6edf3}.page{fill:#0d1117}.grid{stroke:#30363d}"
        f".spread{{stroke:#e6edf3}}.cold{{stroke:#e6edf3}}{dark}}}</style>"
    )


def _axis(low: int, high: int, bottom: int) -> list[str]:
    lines = []
    for power in range(low, high + 1):
        x = _at(10.0**power, low, high)
        lines.append(f'<line class="grid" x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{bottom}"/>')
        lines.append(f'<text class="value" x="{x}" y="{TOP - 12}" text-anchor="middle">{10.0**power:g}</text>')
    return lines


def _cases(cases: list[Case], low: int, high: int) -> tuple[list[str], int]:
    lines, y = [], TOP
    for case in cases:
        lines.append(f'<text class="case" x="12" y="{y + 11}">{escape(case.label)}</text>')
        y += 18
        for result in case.measurements:
            lines += _bar(result, y, low, high)
            y += BAR + GAP
        y += CASE_GAP - 18
    return lines, y


def _bar(result: Measurement, y: int, low: int, high: int) -> list[str]:
    middle = y + BAR / 2
    lines = [f'<text class="value" x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(result.engine)}</text>']
    median = result.median
    if median is None:
        lines.append(f'<text class="value" x="{LEFT + 4}" y="{y + 11}">could not</text>')
        return lines
    number = next(at for at, engine in enumerate(ALL) if engine.name == result.engine)
    end = _at(median, low, high)
    least, most = (_at(value, low, high) for value in (min(result.warm_seconds), max(result.warm_seconds)))
    lines.append(f'<rect class="e{number}" x="{LEFT}" y="{y}" width="{round(end - LEFT, 1)}" height="{BAR}"/>')
    lines.append(f'<line class="spread" x1="{least}" y1="{middle}" x2="{most}" y2="{middle}"/>')
    rightmost = most
    if result.cold_seconds is not None:
        x = _at(result.cold_seconds, low, high)
        lines.append(f'<circle class="cold" cx="{x}" cy="{middle}" r="4"/>')
        rightmost = max(rightmost, x + 4)
    lines.append(f'<text class="value" x="{round(rightmost + 6, 1)}" y="{y + 11}">{median:.3g}</text>')
    return lines
