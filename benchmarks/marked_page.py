"""A page of docs/ with measurements between marks, and its charts and numbers in a folder beside the page."""

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
    """A page."""

    name: str
    """The name of the file."""
    folder: str
    """The folder of its charts and numbers, beside the page."""

    def write(self, parts: Mapping[str, str], charts: Collection[Chart], numbers: str, docs: Path = DOCS) -> None:
        """Write the page, its charts and its numbers.

        Args:
            parts: The texts between the marks, by the name in the mark, without charts.
            charts: The charts to draw.
            numbers: All measurements, as JSON.
            docs: The folder of the page.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        folder = docs / self.folder
        folder.mkdir(exist_ok=True)
        for chart in charts:
            (folder / f"{chart.name}.svg").write_text(svg_of(chart))
        (folder / _NUMBERS).write_text(numbers)
        page = docs / self.name
        page.write_text(self.render(page.read_text(), parts, charts))

    def numbers(self, docs: Path = DOCS) -> str:
        """Return the stored numbers, see `write`."""
        return (docs / self.folder / _NUMBERS).read_text()

    def render(self, text: str, parts: Mapping[str, str], charts: Collection[Chart]) -> str:
        """Return the page with new texts between its marks. A missing part becomes `Not measured.`

        Args:
            text: The page.
            parts: See `write`.
            charts: See `write`.
        """
        filled = {**parts, **{f"chart {chart.name}": self._picture(chart) for chart in charts}}

        def part(found: re.Match[str]) -> str:
            return f"{found[1]}\n{filled.get(found[2], 'Not measured.')}\n\n{found[3]}"

        return _PART.sub(part, text)

    def _picture(self, chart: Chart) -> str:
        note = f"\n\n{chart.note}" if chart.note else ""
        return f"![{chart.says}]({self.folder}/{chart.name}.svg)" + note
