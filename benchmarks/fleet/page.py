"""The section of docs/many-environments.md on the driver of a batch, and the measured numbers."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fleet.survey import SEEN, Survey
from benchmarks.machine import machine_text
from benchmarks.marked_page import DOCS, MarkedPage
from benchmarks.table import seconds_text

FLEET = MarkedPage("many-environments.md", "fleet")


def write(survey: Survey, docs: Path = DOCS) -> None:
    """Write the section, see `MarkedPage.write`."""
    FLEET.write({"fleet": _text(survey)}, [], survey.to_json(), docs)


def read(docs: Path = DOCS) -> Survey:
    """Return the survey behind the section."""
    return Survey.of_json(FLEET.numbers(docs))


def render(text: str, survey: Survey) -> str:
    """Return the page with a survey's section, see `MarkedPage.render`."""
    return FLEET.render(text, {"fleet": _text(survey)}, [])


def _text(survey: Survey) -> str:
    loads = [(name, load) for name, of_fleet in survey.loads.items() for load in of_fleet]
    name, most = max(loads, key=lambda each: each[1].rate)
    seen, real = survey.loads[SEEN][-1], survey.real[-1]
    return (
        f"- **{seen.workers:,} containers with tasks of 1 s**: {seen.rate:,.0f} results a second, {seen.driver:.0%} of "
        f"a core for the driver, {seen.memory / 1e6:.0f} MB. Half of all results are in the file "
        f"{seconds_text(seen.delays[1])} after the task's end.\n"
        f"- **The most**: {most.rate:,.0f} results a second ({name}, {most.workers:,} workers), "
        f"{1e6 * most.driver / most.rate:.0f} µs of the driver for each.\n"
        f"- **{real.workers:,} real environments on this machine**: {real.memory / 1e6:.0f} MB in the driver's "
        f"process, {real.threads} threads.\n\n"
        f"Measured on {survey.date}: {machine_text(survey.machine)}."
    )
