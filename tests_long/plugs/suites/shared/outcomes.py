"""A pytest plugin: marks expected failures, and records the outcome of each test.

A suite has a file `expected_failures.toml`: a table for each tag of a place, or for a release (`newest` or `oldest`),
with names of tests and the reason of each. A failing test without an entry fails the run, and so does a passing test
with an entry. For a framework's own backends, failures are only recorded.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from place import PLACE

_ENDED: dict[str, dict[str, str]] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the expected failures."""
    (suite,) = {Path(argument) if Path(argument).is_dir() else Path(argument).parent for argument in config.args}
    expected = {} if PLACE.own else _expected(suite)
    for item in items:
        if reason := expected.get(getattr(item, "originalname", item.name)):
            item.add_marker(pytest.mark.xfail(reason=reason))
    names = {getattr(item, "originalname", item.name) for item in items}
    if config.args == [str(suite)] and (lost := expected.keys() - names):
        raise pytest.UsageError(f"expected to fail, and no test at all: {', '.join(sorted(lost))}")


def _expected(folder: Path) -> Mapping[str, str]:
    path = folder / "expected_failures.toml"
    tables = tomllib.loads(path.read_text()) if path.exists() else {}
    tags = (*PLACE.tags, os.environ["PLUG_RELEASE"])
    return {name: reason for tag in tags for name, reason in tables.get(tag, {}).items()}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the outcome of a test's call, or of its failed set-up or tear-down."""
    if report.when == "call" or report.outcome != "passed":
        how = "expected" if hasattr(report, "wasxfail") else report.outcome
        why = getattr(report, "wasxfail", "") or _reason(report)
        _ENDED[report.nodeid] = {"ended": how, "why": why}


def _reason(report: pytest.TestReport) -> str:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return lines[0].removeprefix("E").strip() if lines else report.longreprtext[-200:]


def pytest_sessionfinish() -> None:
    """Write the outcomes of all tests to a file."""
    Path(os.environ["PLUG_OUTCOMES"]).write_text(json.dumps(_ENDED, indent=1))
