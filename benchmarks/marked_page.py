"""A page of docs/: what was measured stands between marks in it, and its charts and numbers in a folder beside it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chart import Chart, svg_of

DOCS = Path(__file__).parents[1] / "docs"
_NUMBERS = "measured.json"
_PART = re.compile(r"(<!-- measured: ([a-z -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MarkedPage:
    """One page."""

    name: str
    """Of its file."""
    folder: str
    """Where its charts and its numbers are, beside it."""

    def write(self, parts: Mapping[str, str], charts: Collection[Chart], numbers: str, docs: Path = DOCS) -> None:
        """Write the page anew, with its charts and what they are made of.

        Args:
            parts: What belongs between its marks, by the name in the mark, without the charts.
            charts: What is drawn.
            numbers: All that was measured, as JSON.
            docs: Where the page is.

        Raises:
            MissingExtraError: What draws the charts is not installed.
        """
        folder = docs / self.folder
        folder.mkdir(exist_ok=True)
        for chart in charts:
            (folder / f"{chart.name}.svg").write_text(svg_of(chart))
        (folder / _NUMBERS).write_text(numbers)
        page = docs / self.name
        page.write_text(self.written(page.read_text(), parts, charts))

    def numbers(self, docs: Path = DOCS) -> str:
        """Return what `write` was given last."""
        return (docs / self.folder / _NUMBERS).read_text()

    def written(self, text: str, parts: Mapping[str, str], charts: Collection[Chart]) -> str:
        """Return the page with something else between its marks. A part that is missing was not measured, and says so.

        Args:
            text: The page as it is.
            parts: See `write`.
            charts: See there.
        """
        filled = {**parts, **{f"chart {chart.name}": self._picture(chart) for chart in charts}}

        def part(found: re.Match[str]) -> str:
            return f"{found[1]}\n{filled.get(found[2], 'Not measured.')}\n\n{found[3]}"

        return _PART.sub(part, text)

    def _picture(self, chart: Chart) -> str:
        note = f"\n\n{chart.note}" if chart.note else ""
        return f"![{chart.says}]({self.folder}/{chart.name}.svg)" + note
