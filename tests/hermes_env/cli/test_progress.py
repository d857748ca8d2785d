"""Progress of queries of backends, on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from environments.conformance.check import wait_until
from hermes_env import progress
from hermes_env.progress import InventoryDisplay


class Terminal(io.StringIO):
    """A stream with `isatty`."""

    def isatty(self) -> bool:
        return True


def on_terminal(patch: pytest.MonkeyPatch, patience: float) -> Terminal:
    """Replaces standard error by a terminal, for progress after some seconds."""
    patch.setattr(progress, "PATIENCE", patience)
    patch.setenv("TERM", "xterm")
    patch.setattr(sys, "stderr", terminal := Terminal())
    return terminal


def test_one_line_of_a_terminal_names_the_pending_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = on_terminal(monkeypatch, 0.0)
    with InventoryDisplay() as shown:
        shown.update(["docker", "mo\x1b[2Jdal"])
        assert wait_until(lambda: "querying docker, modal" in stderr.getvalue(), 60)
        shown.update(["modal"])
        assert wait_until(lambda: "querying modal" in stderr.getvalue(), 60)
    assert "\x1b[2J" not in stderr.getvalue()
    assert stderr.getvalue().endswith("\x1b[2K"), "the line is erased at the end"


def test_a_quick_query_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = on_terminal(monkeypatch, 60.0)
    with InventoryDisplay() as shown:
        shown.update(["docker"])
    assert stderr.getvalue() == ""


def test_progress_is_shown_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with InventoryDisplay() as shown:
        shown.update(["docker"])
        shown.update([])
    assert file.getvalue() == ""


def test_each_backend_is_a_line_that_stays_where_steps_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = on_terminal(monkeypatch, 0.0)
    with InventoryDisplay(verbose=1) as shown:
        shown.update(["docker", "modal"])
        shown.update(["modal"])
    assert stderr.getvalue() == "hermes-env: querying docker, modal\n"
