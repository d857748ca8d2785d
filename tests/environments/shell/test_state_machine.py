"""The session against a model of its state, with few examples; tests_long/shell has many, and the engines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from targets.session_machine import (
    VARIABLES,
    Assign,
    Ending,
    SessionMachine,
    Target,
    Umask,
    local,
    run_sessions,
    without_bash,
)

Backend = Callable[[Path], AbstractContextManager[Target]]
BOTH = pytest.mark.parametrize("backend", [local, without_bash], ids=lambda backend: backend.__name__)


@BOTH
def test_a_session_holds_what_its_commands_have_made_of_it(backend: Backend, tmp_path: Path) -> None:
    with backend(tmp_path) as target:
        run_sessions(target, sessions=1, steps=25)


@BOTH
def test_what_the_machine_once_found_holds(backend: Backend, tmp_path: Path) -> None:
    with backend(tmp_path) as target:
        machine = SessionMachine(target)
        # Variables for one command reach all its programs, and go with it, also if it ends the shell.
        machine.change(Assign("HX_B", "kept", export=True), Ending())
        for name in VARIABLES:
            machine.run_with_variables(name, "word", Umask("0022"), Ending("exit", 3))
            machine.look()
        # A shell that was killed while a job of it prints takes no command any more.
        machine.leave_noise("noise")
        machine.look()
        machine.kill_shell()
        machine.teardown()
