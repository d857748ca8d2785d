"""Sessions against a model of their state, with few examples. tests_long/shell has many, also on engines."""

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
    SessionTarget,
    Umask,
    local,
    run_sessions,
    without_bash,
)

Backend = Callable[[Path], AbstractContextManager[SessionTarget]]
BOTH = pytest.mark.parametrize("backend", [local, without_bash], ids=lambda backend: backend.__name__)


@BOTH
def test_a_session_has_the_state_that_its_commands_have_made(backend: Backend, tmp_path: Path) -> None:
    with backend(tmp_path) as target:
        run_sessions(target, sessions=1, steps=25)


@BOTH
def test_faults_found_by_the_state_machine_do_not_return(backend: Backend, tmp_path: Path) -> None:
    with backend(tmp_path) as target:
        machine = SessionMachine(target)
        # Variables for a command reach all its programs and end with the command, also if the command ends the shell.
        machine.change(Assign("HX_B", "kept", export=True), Ending())
        for name in VARIABLES:
            machine.run_with_variables(name, "word", Umask("0022"), Ending("exit", 3))
            machine.look()
        # A shell that was killed while its job prints receives no command any more.
        machine.leave_noise("noise")
        machine.look()
        machine.kill_shell()
        machine.teardown()
