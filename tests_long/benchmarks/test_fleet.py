"""The simulated fleet on the real driver of a batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.fleet import page
from benchmarks.fleet.costs import Costs, Spread
from benchmarks.fleet.engine import Fleet
from benchmarks.fleet.load import measure_load
from benchmarks.fleet.survey import WORKERS
from benchmarks.marked_page import DOCS
from hermes_env.batch import Result, Summary, read_results, run_batch

SHORT = Spread(0.002, 0.006)
FLEET = Fleet(Costs(SHORT, SHORT, SHORT, refused=0.02, lost=0.02, source="none"), SHORT)
TASKS = [{"id": str(number), "command": "true"} for number in range(500)]


def run_fleet(out: Path, fleet: Fleet = FLEET) -> tuple[Summary, dict[str, Result]]:
    summary = run_batch(TASKS, "local", workers=50, engine=fleet.engine, out=out)
    results = list(read_results(out))
    assert Counter(result.id for result in results) == {task["id"]: 1 for task in TASKS}
    return summary, {result.id: result for result in results}


def test_each_task_of_a_fleet_has_one_result_and_the_same_in_each_run(tmp_path: Path) -> None:
    summary, first = run_fleet(tmp_path / "first")
    assert summary.stopped is None
    assert set(summary.counts) == {"success", "error", "lost"}
    assert run_fleet(tmp_path / "again")[1] == first
    assert run_fleet(tmp_path / "other", Fleet(FLEET.costs, FLEET.work, seed=2))[1] != first


def test_the_load_of_a_fleets_driver_is_measured() -> None:
    load = measure_load(FLEET, workers=20, seconds=0.5)
    assert load.workers == 20
    assert load.rate > 0 and load.wanted > 0 and load.driver > 0 and load.simulation > 0
    assert 0 < load.delays[0] <= load.delays[1] <= load.delays[2]


def test_the_section_is_made_from_its_numbers(tmp_path: Path) -> None:
    survey = page.read()
    text = (DOCS / page.FLEET.name).read_text()
    assert page.render(text, survey) == text, "make fleet ARGS=page writes it anew"
    assert "<!-- measured: fleet -->" in text
    assert all([load.workers for load in loads] == list(WORKERS) for loads in survey.loads.values())
    (tmp_path / page.FLEET.name).write_text(text)
    page.write(survey, tmp_path)
    assert (tmp_path / page.FLEET.name).read_text() == text
    assert page.read(tmp_path) == survey
