"""`hermes-env exec`: one command in an environment."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_env.options import Backend, Cwd, Raw, Settings, Timeout, settings_from

if TYPE_CHECKING:
    from environments import CommandResult


def exec_command(
    words: Annotated[list[str], typer.Argument(metavar="CMD...", help="The command and its arguments.")],
    *,
    backend: Backend = None,
    timeout: Timeout = None,
    cwd: Cwd = None,
    raw: Raw = False,
    assignments: Settings = None,
) -> None:
    """Run a command and exit with its exit code.

    A single word is shell text as it stands: `exec -- 'ls | wc -l'`. Several words are a command and its
    arguments, quoted so that each arrives as it is: `exec -- ls -l 'a file'`.

    Standard error shows in with the output, in the order written. Standard input is read to its end and passed
    on, unless it is a terminal. The exit code is 124 after a time-out, 130 after Ctrl-C, and 2 for a wrong
    setting or a target that cannot be reached, 126 for a command that a rule or a person did not allow.


    On a terminal the output may have colours; other terminal controls are taken out, unless --raw is given. A pipe
    or a file gets everything as it is.
    """
    from environments import create_environment
    from environments.cancellation import CancelScope
    from hermes_env.approver import approver
    from hermes_env.foreground import BROKEN_PIPE_EXIT_CODE, LiveOutput, run_interruptibly

    command = words[0] if len(words) == 1 else shlex.join(words)
    settings = settings_from(assignments, timeout=timeout, cwd=cwd)
    scope = CancelScope()
    with create_environment(backend, approve=approver(lambda: scope.cancelled), **settings) as environment:
        output = LiveOutput(when_reader_leaves=environment.interrupt, raw=raw)
        work = partial(environment.execute, command, stdin=_standard_input(), on_output=output.write)

        def run() -> CommandResult:
            with scope.active():
                return work()

        def interrupt() -> None:
            scope.cancel()
            environment.interrupt()

        try:
            result = run_interruptibly(run, interrupt)
        finally:
            output.finish()
        limit = environment.settings.timeout
    if result.timed_out:
        typer.secho(f"hermes-env: the command was ended after {limit:g} s (--timeout)", fg="red", err=True)
    raise typer.Exit(BROKEN_PIPE_EXIT_CODE if output.reader_left else result.exit_code)


def _standard_input() -> bytes | None:
    if sys.stdin is None or sys.stdin.isatty():
        return None
    return sys.stdin.buffer.read()
