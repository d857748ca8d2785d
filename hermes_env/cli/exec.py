"""`hermes-env exec`: one command in an environment."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_env.cli.options import Backend, Cwd, Raw, Record, Settings, Timeout, Verbose, settings_from

if TYPE_CHECKING:
    from environments import BaseEnvironment


def exec_command(
    words: Annotated[list[str], typer.Argument(metavar="CMD...", help="The command and its arguments.")],
    *,
    backend: Backend = None,
    timeout: Timeout = None,
    cwd: Cwd = None,
    no_input: Annotated[
        bool, typer.Option("--no-stdin", "-n", help="Read no standard input; the command sees its end at once.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only the result, as JSON, when the command has ended.")
    ] = False,
    raw: Raw = False,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Run a command and exit with its exit code.

    A single word is shell text as it stands: `exec -- 'ls | wc -l'`. Several words are a command and its
    arguments, quoted so that each arrives as it is: `exec -- ls -l 'a file'`.

    Standard input is passed on as it comes, unless it is a terminal, and output shows as it comes, both byte for byte.
    Standard error shows in with the output, in the order written. In a loop such as `while read` give -n, or the
    command gets the loop's input.

    The exit code is the command's own; 124 after a time-out, 130 after Ctrl-C, 126 for what a rule or a person did not
    allow, and 125 for an error of ours: a wrong setting, or a target that cannot be reached. Options stand before the
    command; 2 says that they cannot be understood.

    On a terminal the output may have colours; other terminal controls are taken out, unless --raw is given. A pipe
    or a file gets everything as it is.
    """
    from hermes_env.cli.exec_result import CapturedOutput
    from hermes_env.cli.foreground import run_in_environment
    from hermes_env.cli.standard_input import standard_input
    from hermes_env.cli.streamed_command import Ending, StreamedCommand
    from hermes_env.cli.streams import BROKEN_PIPE_EXIT_CODE, LiveOutput

    began = time.monotonic()
    text = words[0] if len(words) == 1 else shlex.join(words)
    settings = settings_from(assignments, timeout=timeout, cwd=cwd, record=record)
    command = StreamedCommand(text, timeout, None if no_input else standard_input())
    live = LiveOutput(command.interrupt, raw)

    def work(environment: BaseEnvironment) -> tuple[Ending, CapturedOutput]:
        captured = CapturedOutput(environment.settings.max_output_bytes)
        return command.run(environment, captured if as_json else live), captured

    ending, captured = run_in_environment(
        work, command.interrupt, lambda: command.interrupted, live, backend=backend, settings=settings, verbose=verbose
    )
    if as_json:
        live.write(json.dumps(captured.result(ending, time.monotonic() - began)) + "\n")
    elif ending.note:
        typer.secho(f"hermes-env: {ending.note}", fg="red", err=True)
    raise typer.Exit(BROKEN_PIPE_EXIT_CODE if live.reader_left else ending.exit_code)
