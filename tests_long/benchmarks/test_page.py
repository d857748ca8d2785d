"""docs/performance.md, written from measurements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import __main__ as command_line
from benchmarks import page
from benchmarks.chart import Chart, Line, Point, svg_of
from benchmarks.findings import Findings
from benchmarks.marked_page import DOCS
from benchmarks.measure import Times
from benchmarks.table import Row

MOST_WORDS = 1_210
SVG = "{http://www.w3.org/2000/svg}"
CHART = Chart(
    name="environments",
    title="Commands a second",
    across="environments",
    up="commands a second",
    lines=[Line("ours", [Point(1, 10, 9, 11), Point(200, 100, 90, 110)]), Line("<raw>", [Point(1, 20, 20, 20)])],
    says="How many commands a second there are.",
    ticks=[(1, "1"), (200, "200")],
)
ROW = Row(
    what='execute("true"), Docker',
    raw=Times(0.001, 0.0009, 0.0011, 9),
    raw_is="a line to one bash there",
    ours=Times(0.002, 0.0019, 0.0021, 9),
    goal=2.5,
    beside={"`docker exec`": Times(0.1, 0.1, 0.1, 9), "hermes-agent 0.19.0": Times(0.2, 0.2, 0.2, 9)},
    missing={"SWE-ReX 1.4.0": "it could not be installed: no such package"},
)
FINDINGS = Findings(
    date="2026-01-02",
    machine={"cores": "2", "memory": "8 GB", "kernel": "Linux 6.1", "Python": "3.11.2"},
    load=0.1,
    seconds=360,
    rows=[
        ROW,
        Row(
            what="first command from a pool, Docker",
            raw=Times(0.3, 0.3, 0.3, 1),
            raw_is="as above",
            ours=Times(0.005, 0.005, 0.005, 1),
        ),
        Row(what='execute("true"), local, at load', ours=Times(0.5, 0.5, 0.5, 1)),
        Row(what="singularity", note="not measured: there is none"),
    ],
    charts=[CHART],
)
MARKED = """Before.

<!-- measured: machine -->
old
<!-- end -->

<!-- measured: backends -->
<!-- end -->

<!-- measured: more -->
<!-- end -->

<!-- measured: beside -->
<!-- end -->

<!-- measured: missing -->
<!-- end -->

<!-- measured: chart environments -->
<!-- end -->

<!-- measured: chart calls -->
what is there
<!-- end -->

After.
"""


def test_measurements_are_written_between_the_marks_and_the_rest_is_unchanged() -> None:
    text = page.render(MARKED, FINDINGS)
    assert text.startswith("Before.\n") and text.endswith("After.\n")
    assert "old" not in text
    assert "2 cores" in text and "Linux 6.1" in text and "2026-01-02" in text and "6 minutes" in text
    seen = text.replace("&nbsp;", " ")
    assert '| `execute("true")` | - | 2 ms<br>2.0x 1 ms | - | - |' in seen
    assert "| first command from a pool, Docker | 300 ms | 5 ms | 0.017x | as above |" in seen
    assert "at load" not in seen, "the page has no row that it does not name"
    assert '| `execute("true")`, Docker | 2 ms | `docker exec` 100 ms, hermes-agent 200 ms |' in seen
    assert "Versions: hermes-agent 0.19.0." in text
    assert '- `execute("true")`, Docker, SWE-ReX 1.4.0: it could not be installed: no such package' in text
    assert "- singularity: not measured: there is none" in text
    assert "![How many commands a second there are.](performance/environments.svg)" in text
    assert re.search(r"chart calls -->\n\nNot measured.\n", text)
    assert page.render(text, FINDINGS) == text


def test_the_page_its_charts_and_its_numbers_are_written_together(tmp_path: Path) -> None:
    (tmp_path / page.PERFORMANCE.name).write_text(MARKED)
    page.write(FINDINGS, tmp_path)
    assert "docker exec" in (tmp_path / page.PERFORMANCE.name).read_text()
    assert (tmp_path / "performance/environments.svg").read_text() == svg_of(CHART)
    assert page.read(tmp_path) == FINDINGS


def test_a_chart_has_a_description_and_its_text_as_text() -> None:
    drawn = svg_of(CHART)
    picture = ElementTree.fromstring(drawn)
    assert picture.findtext(f"{SVG}title") == "Commands a second"
    assert picture.findtext(f"{SVG}desc") == "How many commands a second there are."
    said = [text.text for text in picture.iter(f"{SVG}text")]
    assert {"ours", "<raw>", "environments", "200"} <= set(said)
    assert "prefers-color-scheme:dark" in drawn
    assert svg_of(CHART) == drawn, "the same numbers make the same file"


def test_the_page_has_each_chart_and_agrees_with_its_numbers() -> None:
    text = (DOCS / page.PERFORMANCE.name).read_text()
    findings = page.read()
    charts = {chart.name for chart in findings.charts}
    assert charts == set(re.findall(r"<!-- measured: chart ([a-z-]+) -->", text))
    assert charts == {file.stem for file in (DOCS / page.PERFORMANCE.folder).glob("*.svg")}
    assert page.render(text, findings) == text, "make bench ARGS=page writes it anew"
    assert len(text.split()) <= MOST_WORDS


def test_each_row_that_the_page_names_is_measured() -> None:
    measured = {row.what for row in page.read().rows}
    assert set(page.ON_ONE) <= measured
    for names in page.ON_EACH.values():
        assert {name.format(backend) for name in names for backend in page.BACKENDS} & measured, names


def test_a_failing_subject_does_not_affect_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def half() -> Iterator[Row]:
        yield ROW
        raise OSError("the engine\nis gone")

    monkeypatch.setattr("benchmarks.startup.rows", half)
    findings = command_line.measure_all(["startup"])
    assert findings.rows == [ROW, Row(what="startup", note="not measured: OSError: the engine is gone")]
