"""The session against a model of its state, with many examples, on this machine and on real engines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from targets import backends
from targets.session_machine import SessionTarget, local, per_command, run_sessions, without_bash


@contextlib.contextmanager
def docker(cwd: Path) -> Iterator[SessionTarget]:
    with backends.docker(cwd) as subject:
        yield SessionTarget(subject.make, reports_late=True)


@contextlib.contextmanager
def ssh(cwd: Path) -> Iterator[SessionTarget]:
    with backends.ssh(cwd) as subject:
        yield SessionTarget(subject.make, reports_late=True)


@contextlib.contextmanager
def singularity(cwd: Path) -> Iterator[SessionTarget]:
    with backends.singularity(cwd) as subject:
        yield SessionTarget(subject.make)


Backend = Callable[[Path], AbstractContextManager[SessionTarget]]
PARTS: dict[Backend, int] = {local: 10, without_bash: 1, per_command: 1, docker: 1, ssh: 1, singularity: 1}
"""Backends, each with its number of concurrent tests."""
SESSIONS, STEPS = 2, 50
"""Sessions in each test, and steps in each session."""


@pytest.mark.parametrize(
    ("backend", "part"),
    [(backend, part) for backend, parts in PARTS.items() for part in range(1, parts + 1)],
    ids=lambda value: value.__name__ if callable(value) else value,
)
def test_a_session_has_the_state_that_its_commands_have_made(backend: Backend, part: int, tmp_path: Path) -> None:
    with backend(tmp_path) as target:
        run_sessions(target, SESSIONS, STEPS)
