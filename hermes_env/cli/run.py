"""`hermes-env run`: runs a Python script with tools in an environment."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from code_execution import ExecutionResult, execute_code
from code_execution.result import INTERRUPTED_MESSAGE
from environments.base import BaseEnvironment
from environments.cancellation import in_no_scope
from environments.errors import DENIED, TerminalError
from environments.model_view import harmless
from environments.result import DENIED_EXIT_CODE, INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE
from hermes_env.cli.errors import ERROR_EXIT_CODE, JsonObject, message_of, print_message, status_of_error
from hermes_env.cli.foreground import Foreground
from hermes_env.cli.options import (
    AsJson,
    Backend,
    Cwd,
    Raw,
    Record,
    Settings,
    Timeout,
    Verbose,
    settings_from,
    whole_number,
)
from hermes_env.cli.streams import BROKEN_PIPE_EXIT_CODE, LiveOutput

COLOURS = {"success": "green", "error": "red", "timeout": "red", "interrupted": "yellow"}


def run_command(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python file, or - for standard input.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="The script's sys.argv[1:].")] = None,
    *,
    backend: Backend = None,
    timeout: Timeout = None,
    cwd: Cwd = None,
    mode: Annotated[
        Literal["project", "strict"] | None,
        typer.Option(metavar="MODE", help="project: the session's directory and Python; or strict."),
    ] = None,
    max_tool_calls: Annotated[
        int | None,
        typer.Option(metavar="N", parser=whole_number("--max-tool-calls", 0), help="Limit the number of tool calls."),
    ] = None,
    transport: Annotated[
        Literal["auto", "socket", "relay", "file"],
        typer.Option(metavar="NAME", help="Transport of tool calls: auto, socket, relay or file."),
    ] = "auto",
    as_json: AsJson = False,
    raw: Raw = False,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Run a Python script that may call tools.

    The script imports tools by `from hermes_tools import read_file, search_files, terminal`. Output is printed without
    delay, and a last line on standard error reports the result. Put options before the script.

    Exit codes: the script's own; 124 time-out, 130 Ctrl-C, 126 not allowed, 125 another error of hermes-env, 2 wrong
    usage or setting.
    """
    code = read_script(script)
    foreground, interrupt = Foreground(), threading.Event()
    output = LiveOutput(foreground.scope.cancel, raw)
    settings = settings_from(assignments, cwd=cwd, record=record)
    if not as_json:
        settings.setdefault("strip_ansi", False)  # keep colours for a person

    def work(environment: BaseEnvironment) -> ExecutionResult:
        with foreground.scope.calling(interrupt.set), in_no_scope():  # `interrupt` ends a script, not the scope
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

    result = foreground.run_in_environment(work, output, backend=backend, settings=settings, verbose=verbose)
    if result.status == "interrupted":
        result = _interrupted(result, foreground.ended_by)
    if as_json:
        output.write(json.dumps(result.to_dict()) + "\n")
    else:
        _print_ending(result, raw=raw)
    raise typer.Exit(BROKEN_PIPE_EXIT_CODE if output.reader_left else exit_code_of(result))


def read_script(script: str) -> str:
    """Return a script's text.

    Args:
        script: The path of a file here, or `-` for standard input.

    Raises:
        TerminalError: The file cannot be read, or is not UTF-8.
    """
    name = "standard input" if script == "-" else script
    try:
        data = sys.stdin.buffer.read() if script == "-" else Path(script).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise TerminalError(f"cannot read the script {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TerminalError(f"cannot read the script {name}: not UTF-8 text at byte {error.start}") from None


def _interrupted(result: ExecutionResult, signal: str | None) -> ExecutionResult:
    """Return an interrupted script's result with the reason in place of the message for models."""
    reason = f"ended by {signal}" if signal else "ended, as its output has no reader"
    return replace(result, output=result.output.replace(INTERRUPTED_MESSAGE, f"[{reason}]"), error=reason)


def _print_ending(result: ExecutionResult, *, raw: bool) -> None:
    if result.status == "error" and result.exit_code is None:
        print_message(message_of(TerminalError(result.error)))
    else:
        unshown = unshown_of(result)
        sys.stderr.write(harmless(unshown) if sys.stderr.isatty() and not raw else unshown)
    typer.secho(result_line(result), fg=COLOURS[result.status], err=True)


def unshown_of(result: ExecutionResult) -> str:
    """Return the unprinted parts of a result: standard error, and the error after a time-out."""
    lines = [result.stderr.rstrip("\n"), result.error or "" if result.status == "timeout" else ""]
    return "".join(f"{line}\n" for line in lines if line)


def result_line(result: ExecutionResult) -> str:
    """Return a line with the status of a script, and the reached limit."""
    calls = f"{result.tool_calls_made} tool call{'' if result.tool_calls_made == 1 else 's'}"
    line = f"{result.status} in {result.duration_seconds:.2f} s, {calls}, exit code {exit_code_of(result)}"
    line += f": {result.error}" if result.status == "interrupted" else ""
    return f"{line}. {result.limit}" if result.limit else line


def error_result(error: Exception) -> JsonObject:
    """Return the result, ready for JSON, of a script that failed by an error of hermes-env."""
    result = ExecutionResult("error", getattr(error, "output", ""), 0, 0.0, None, message_of(error))
    return {**result.to_dict(), "status": status_of_error(error)}


def exit_code_of(result: ExecutionResult) -> int:
    """Return the exit code for a script's result."""
    if result.status == "error" and result.exit_code is None:  # the script never began
        return DENIED_EXIT_CODE if (result.error or "").startswith(DENIED) else ERROR_EXIT_CODE
    if result.status == "error":
        return result.exit_code or 1
    return {"timeout": TIMEOUT_EXIT_CODE, "interrupted": INTERRUPT_EXIT_CODE}.get(result.status, 0)
