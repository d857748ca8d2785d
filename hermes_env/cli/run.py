"""`hermes-env run`: one Python script in an environment, with the tools at hand."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from environments.errors import DENIED, TerminalError
from environments.model_view import harmless
from environments.result import DENIED_EXIT_CODE, INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE
from hermes_env.cli.errors import ERROR_EXIT_CODE, JsonObject, status_of_error
from hermes_env.cli.options import Backend, Cwd, Raw, Record, Settings, Timeout, Verbose, settings_from

if TYPE_CHECKING:
    from code_execution import ExecutionResult
    from environments import BaseEnvironment

COLOURS = {"success": "green", "error": "red", "timeout": "red", "interrupted": "yellow"}


def run_command(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python file here, or - for standard input.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="What the script finds in sys.argv[1:].")
    ] = None,
    *,
    backend: Backend = None,
    timeout: Timeout = None,
    cwd: Cwd = None,
    mode: Annotated[
        Literal["project", "strict"] | None,
        typer.Option(help="Run in the session's directory with the project's Python, or apart from both."),
    ] = None,
    max_tool_calls: Annotated[
        int | None,
        typer.Option("--max-tool-calls", metavar="N", min=0, help="Tool calls the script may make."),
    ] = None,
    transport: Annotated[
        Literal["auto", "socket", "relay", "file"], typer.Option(help="How tool calls travel; auto takes the fastest.")
    ] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only the result, as JSON, when the script has ended.")
    ] = False,
    raw: Raw = False,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Run a Python script that may call tools.

    The script finds them by `from hermes_tools import read_file, search_files, terminal`. Its output shows as
    it comes, and a line on standard error says how it ended.

    Options stand before the script: what follows it is its own, `--json` too. --json always prints one object, also
    for an error of ours.

    The exit code is the script's own; 124 after a time-out, 130 after Ctrl-C, 126 for what a rule or a person did not
    allow, and 125 for an error of ours: a wrong setting, a script that cannot be read, or a target that cannot be
    reached. 2 says that the options cannot be understood.

    The values of secrets are taken out of the output. On a terminal it may have colours; other terminal controls are
    taken out, unless --raw is given. A pipe or a file gets them as they are, and --json none.
    """
    code = read_script(script)

    from code_execution import execute_code
    from hermes_env.cli.foreground import run_in_environment
    from hermes_env.cli.streams import BROKEN_PIPE_EXIT_CODE, LiveOutput

    interrupt = threading.Event()
    output = LiveOutput(when_reader_leaves=interrupt.set, raw=raw)
    settings = settings_from(assignments, cwd=cwd, record=record)
    if not as_json:
        settings.setdefault("strip_ansi", False)  # a person may have colours

    def work(environment: BaseEnvironment) -> ExecutionResult:
        return execute_code(
            code,
            env=environment,
            timeout=timeout,
            max_tool_calls=max_tool_calls,
            mode=mode,
            transport=transport,
            interrupt=interrupt,
            on_output=None if as_json else output.write,
            argv=arguments or [],
        )

    result = run_in_environment(
        work, interrupt.set, interrupt.is_set, output, backend=backend, settings=settings, verbose=verbose
    )
    if as_json:
        output.write(json.dumps(result.to_dict()) + "\n")
    else:
        _say_how_it_ended(result, raw=raw)
    raise typer.Exit(BROKEN_PIPE_EXIT_CODE if output.reader_left else exit_code_of(result))


def read_script(script: str) -> str:
    """Return a script's text.

    Args:
        script: The path of a file here, or `-` for standard input.

    Raises:
        TerminalError: It cannot be read, or is not UTF-8.
    """
    name = "standard input" if script == "-" else script
    try:
        data = sys.stdin.buffer.read() if script == "-" else Path(script).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise TerminalError(f"cannot read the script {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TerminalError(f"cannot read the script {name}: not UTF-8 text at byte {error.start}") from None


def _say_how_it_ended(result: ExecutionResult, *, raw: bool) -> None:
    unshown = unshown_of(result)
    sys.stderr.write(harmless(unshown) if sys.stderr.isatty() and not raw else unshown)
    typer.secho(result_line(result), fg=COLOURS[result.status], err=True)


def unshown_of(result: ExecutionResult) -> str:
    """Return what belongs to a result and did not show live: standard error, and why it did not end by itself."""
    ended_by_itself = result.status == "success" or (result.status == "error" and result.exit_code is not None)
    lines = [result.stderr.rstrip("\n"), "" if ended_by_itself else result.error or ""]
    return "".join(f"{line}\n" for line in lines if line)


def result_line(result: ExecutionResult) -> str:
    """Say in one line how a script ended, and which limit it has reached."""
    calls = f"{result.tool_calls_made} tool call{'' if result.tool_calls_made == 1 else 's'}"
    line = f"{result.status} in {result.duration_seconds:.2f} s, {calls}, exit code {exit_code_of(result)}"
    return f"{line}. {result.limit}" if result.limit else line


def failed_script(error: Exception) -> JsonObject:
    """Return the result of a script that did not run to its end because of an error of ours, ready for JSON."""
    from code_execution.result import ExecutionResult

    result = ExecutionResult("error", getattr(error, "output", ""), 0, 0.0, None, str(error))
    return {**result.to_dict(), "status": status_of_error(error)}


def exit_code_of(result: ExecutionResult) -> int:
    """Return the exit code that tells a shell how a script ended."""
    if result.status == "error" and result.exit_code is None:  # it never began
        return DENIED_EXIT_CODE if (result.error or "").startswith(DENIED) else ERROR_EXIT_CODE
    if result.status == "error":
        return result.exit_code or 1
    return {"timeout": TIMEOUT_EXIT_CODE, "interrupted": INTERRUPT_EXIT_CODE}.get(result.status, 0)
