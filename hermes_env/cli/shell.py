"""`hermes-env shell`: a shell of the target on the user's own terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_env.cli.options import Backend, Cwd, Record, Settings, Verbose, settings_from

if TYPE_CHECKING:
    from environments import BaseEnvironment

_THE_USERS_SHELL = """\
# a shell of the target's user
stty iutf8 2>/dev/null
case ${SHELL-} in
'' | */nologin | */false) ;;
*) if command -v "$SHELL" >/dev/null 2>&1; then exec "$SHELL"@LOGIN@; fi ;;
esac
if command -v bash >/dev/null 2>&1; then exec bash@LOGIN@; fi
exec sh@LOGIN@"""
"""On our terminals erasing a character is not told that one may have several bytes."""


def shell_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="CMD...", help="A command to run on the terminal, in place of a shell."),
    ] = None,
    *,
    backend: Backend = None,
    cwd: Cwd = None,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Open a shell in the target, on this terminal.

    It is the shell of the target's user, or bash, or sh. A command, or shell text in one word, is run in its place, as
    by `exec`: `shell -- top`.

    All that is typed goes there, control-C and control-Z too, and programs there know the size of the window. What they
    show reaches the terminal as it is. The exit code is that of the shell.

    `~.` at the beginning of a line ends the session, also when the target does not answer any more; `~~` types a tilde
    there. With the session all that it started ends, and a target that was made for it.

    The exit code is 130 for a session that was ended by `~.`, by a signal, or while the target started; 126 for what a
    rule or a person did not allow, and 125 for an error of ours.
    """
    from environments.result import KILLED_EXIT_CODE
    from hermes_env.cli.foreground import run_in_environment
    from hermes_env.cli.interactive.raw_terminal import terminal_of_input
    from hermes_env.cli.interactive.session import InteractiveSession
    from hermes_env.cli.streams import LiveOutput

    session = InteractiveSession(terminal_of_input())
    output = LiveOutput(session.interrupt, raw=True)

    def work(environment: BaseEnvironment) -> int:
        code = session.run(environment, _command(words or [], login=environment.settings.login_shell), output)
        if code == KILLED_EXIT_CODE and (note := environment.internal.why_killed()):
            typer.secho(f"hermes-env: {note}", fg="red", err=True)
        return code

    with session.heeding_signals():
        code = run_in_environment(
            work,
            session.interrupt,
            lambda: session.interrupted,
            output,
            backend=backend,
            settings=settings_from(assignments, cwd=cwd, record=record),
            verbose=verbose,
        )
    raise typer.Exit(code)


def _command(words: list[str], *, login: bool) -> str:
    """Return what is to be run, as shell text."""
    if not words:
        return _THE_USERS_SHELL.replace("@LOGIN@", " -l" if login else "")
    return words[0] if len(words) == 1 else shlex.join(words)
