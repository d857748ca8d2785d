"""docs/many-environments.md: what was found stands between marks in it, and the charts beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.chart import Chart, Line, Point
from benchmarks.fleet.costs import BACKENDS, Spread
from benchmarks.fleet.load import Load
from benchmarks.fleet.survey import SEEN, WORKERS, Survey
from benchmarks.machine import machine_text
from benchmarks.marked_page import DOCS, MarkedPage
from benchmarks.table import seconds_text

FLEET = MarkedPage("fleet.md", "fleet")
_TICKS = [(float(workers), f"{workers:,}") for workers in WORKERS]


def write(survey: Survey, docs: Path = DOCS) -> None:
    """Write the page anew, see `MarkedPage.write`."""
    FLEET.write(_parts(survey), list(charts_of(survey)), survey.to_json(), docs)


def read(docs: Path = DOCS) -> Survey:
    """Return what the page says now."""
    return Survey.of_json(FLEET.numbers(docs))


def written(text: str, survey: Survey) -> str:
    """Return the page with what was found between its marks, see `MarkedPage.written`."""
    return FLEET.written(text, _parts(survey), list(charts_of(survey)))


def _parts(survey: Survey) -> dict[str, str]:
    return {
        "machine": _machine(survey),
        "summary": _summary(survey),
        "loads": _loads(survey),
        "costs": _costs(),
        "real": _real(survey),
    }


def charts_of(survey: Survey) -> Iterator[Chart]:
    """Return what is drawn."""

    def chart(name: str, title: str, up: str, says: str, lines: Sequence[Line]) -> Chart:
        return Chart(name=name, title=title, across="workers", up=up, says=says, lines=lines, ticks=_TICKS)

    def lines(point: Callable[[Load], Point]) -> list[Line]:
        return [Line(name, [point(load) for load in loads]) for name, loads in survey.loads.items()]

    says = "How many results a second the driver takes in from 10 to 10,000 workers, for five kinds of fleet."
    yield chart("rate", "Results a second", "results a second", says, lines(_rate))
    says = "How much of a core the driver's thread takes from 10 to 10,000 workers, for five kinds of fleet."
    yield chart(
        "driver", "The driver's thread", "% of a core", says, lines(lambda load: _same(load, 100 * load.driver))
    )
    says = "How long a result waits for the driver from 10 to 10,000 workers, for five kinds of fleet."
    yield chart("delay", "From a task's end to its result in the file", "milliseconds", says, lines(_delay))
    says = "How much memory the driver's process takes, simulated up to 10,000 workers and real up to 1,000."
    memory = [Line("simulated", [_same(load, load.memory / 1e6) for load in survey.loads[SEEN]])]
    memory += [Line("real, this machine", [Point(r.workers, *[r.memory / 1e6] * 3) for r in survey.real])]
    yield chart("memory", "Memory of the driver's process", "MB", says, memory)


def _same(load: Load, value: float) -> Point:
    return Point(load.workers, value, value, value)


def _rate(load: Load) -> Point:
    return Point(load.workers, load.rate, min(load.rate, load.wanted), max(load.rate, load.wanted))


def _delay(load: Load) -> Point:
    low, half, high = (1000 * delay for delay in load.delays)
    return Point(load.workers, half, low, high)


def _machine(survey: Survey) -> str:
    return f"Measured on {survey.date}: {machine_text(survey.machine)}. It took {survey.seconds / 60:.0f} minutes."


def _summary(survey: Survey) -> str:
    loads = [(name, load) for name, of_fleet in survey.loads.items() for load in of_fleet]
    name, most = max(loads, key=lambda each: each[1].rate)
    seen = survey.loads[SEEN][-1]
    return (
        f"- **Where the driver saturates**: {most.rate:,.0f} results a second ({name}, {most.workers:,} workers, which "
        f"want {most.wanted:,.0f}). Its thread then takes {most.driver:.0%} of a core and the simulated engine, in the "
        f"same interpreter, {most.simulation:.0%}: {1e6 * most.driver / most.rate:.0f} µs of the driver for each "
        "result.\n"
        f"- **{seen.workers:,} workers** with tasks of 1 s in containers: {seen.rate:,.0f} results a second, which is "
        f"{seen.rate / seen.wanted:.0%} of what they want; {seen.driver:.0%} of a core for the driver; half of all "
        f"results are in the file {seconds_text(seen.delays[1])} after their task's end.\n"
        f"- **Memory at {seen.workers:,} workers**: {seen.memory / 1e6:.0f} MB, "
        f"{seen.memory / 1e3 / seen.workers:.1f} KB for each, without what environments take."
    )


def _loads(survey: Survey) -> str:
    lines = ["| fleet | workers | results/s | wanted | driver | engine | delay | one in ten above |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {name} | {load.workers:,} | {load.rate:,.0f} | {load.wanted:,.0f} | {load.driver:.1%} | "
        f"{load.simulation:.1%} | {seconds_text(load.delays[1])} | {seconds_text(load.delays[2])} |"
        for name, of_fleet in survey.loads.items()
        for load in of_fleet
    ]
    return "\n".join(lines)


def _real(survey: Survey) -> str:
    lines = ["| environments | memory | for each | threads | tasks/s |", "|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {load.workers:,} | {load.memory / 1e6:.0f} MB | {load.memory / 1e3 / load.workers:.0f} KB | "
        f"{load.threads:,} | {load.rate:.0f} |"
        for load in survey.real
    ]
    return "\n".join(lines)


def _costs() -> str:
    lines = ["| | start | command | removal | refused | lost | from |", "|---|---:|---:|---:|---:|---:|---|"]
    for name, costs in BACKENDS.items():
        times = " | ".join(_spread(each) for each in (costs.start, costs.command, costs.removal))
        lines.append(f"| {name} | {times} | {costs.refused:.1%} | {costs.lost:.1%} | {costs.source} |")
    return "\n".join(lines)


def _spread(spread: Spread) -> str:
    return f"{seconds_text(spread.median)}, {seconds_text(spread.high)}"
