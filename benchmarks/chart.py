"""Charts of growth, and their drawing as SVG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import cycle
from typing import TYPE_CHECKING, Self

from benchmarks.measure import Times
from environments.extras import missing_library

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 6.0, 4.2
"""Inches, of 72 units each."""
GREY = "#7f7f7f"
"""The colour of text. `INK` replaces this and follows the browser's colour scheme."""
INK = (
    "<style>:root{--ink:#4d5561}@media(prefers-color-scheme:dark){:root{--ink:#c3c9d4}}"
    "svg{font-family:system-ui,sans-serif}</style>"
)
COLOURS = ("#0b84c6", "#e0701b", "#1f9d6b", "#c45ab3", "#a08a00", "#d64545")
"""Distinct for colour-blind readers, and readable on white and on black."""
MARKS = ("o", "s", "^", "D", "v", "X")
DASHES = ("-", "--", "-.", ":", "-", "--")


@dataclass(frozen=True, slots=True)
class Point:
    """A value, with the tenth and the ninetieth percentile."""

    at: float
    value: float
    low: float
    high: float

    @classmethod
    def of_times(cls, at: float, times: Times) -> Self:
        """Make a point in milliseconds."""
        return cls(at, times.median * 1000, times.low * 1000, times.high * 1000)

    @classmethod
    def rate(cls, at: float, each: Times) -> Self:
        """Make a rate a second from the seconds of each."""
        return cls(at, 1 / each.median, 1 / each.high, 1 / each.low)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the chart: a package or client under comparison."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over an axis."""

    name: str
    """The name of the file, without ending."""
    title: str
    across: str
    up: str
    lines: Sequence[Line]
    says: str
    """The alternative text."""
    ticks: Sequence[tuple[float, str]]
    """Places and labels of marks on the axis across."""
    scale: str = "log"
    """The scale of the axis across: `log` or `linear`."""
    note: str = ""


def svg_of(chart: Chart) -> str:
    """Draw a chart.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_library("a chart of the benchmarks", "matplotlib", "bench") from None

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hermes", "font.size": 11}):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.subplots()
        _draw(axes, chart)
        _frame(axes, chart)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, labelcolor=GREY, fontsize=10)
        drawn = StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _described(drawn.getvalue(), chart)


def _draw(axes: Axes, chart: Chart) -> None:
    for line, colour, mark, dash in zip(chart.lines, cycle(COLOURS), cycle(MARKS), cycle(DASHES), strict=False):
        at = [point.at for point in line.points]
        values = [point.value for point in line.points]
        axes.plot(at, values, label=line.name, color=colour, marker=mark, markersize=5, linestyle=dash, linewidth=2)
        lows, highs = [point.low for point in line.points], [point.high for point in line.points]
        axes.fill_between(at, lows, highs, color=colour, alpha=0.2, linewidth=0)


def _frame(axes: Axes, chart: Chart) -> None:
    axes.set_xscale(chart.scale)
    axes.set_yscale("log")
    axes.set_xticks([at for at, _ in chart.ticks], [text for _, text in chart.ticks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.set_title(chart.title, color=GREY, fontsize=12, loc="left")
    axes.set_xlabel(chart.across, color=GREY)
    axes.set_ylabel(chart.up, color=GREY)
    axes.grid(color=GREY, alpha=0.25)
    axes.tick_params(colors=GREY)
    for name, spine in axes.spines.items():
        spine.set_visible(name in {"left", "bottom"})
        spine.set_color(GREY)


def _described(svg: str, chart: Chart) -> str:
    """Return a picture with title and description for screen readers, in the colours of its page."""
    names = f"<title>{escape(chart.title)}</title><desc>{escape(chart.says)}</desc>"
    svg = re.sub(r"<metadata>.*?</metadata>", lambda _: names + INK, svg, count=1, flags=re.DOTALL)
    svg = svg.replace(GREY, "var(--ink)")
    svg = svg.replace("<svg ", '<svg role="img" ', 1)
    return "".join(line.rstrip() + "\n" for line in svg.splitlines())
