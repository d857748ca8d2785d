"""`hermes-env run`: one Python script in an environment, with the tools at hand."""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from environments.base import INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE, TerminalError
from hermes_env.options import Backend, Cwd, Settings, Timeout, settings_from

if TYPE_CHECKING:
    from code_execution import ExecutionResult

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
    transport: Annotated[str, typer.Option(metavar="NAME", help="How tool calls travel.")] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only the result, as JSON, when the script has ended.")
    ] = False,
    assignments: Settings = None,
) -> None:
    """Run a Python script that may call tools.

    The script finds them by `from hermes_tools import read_file, search_files, terminal`. Its output shows as
    it comes, and a line on standard error says how it ended. The exit code is the script's own, 124 after a
    time-out, 130 after Ctrl-C, and 2 for a wrong setting or a target that cannot be reached.
    """
    code = with_arguments(read_script(script), script, arguments or [])

    from code_execution import execute_code
    from environments import create_environment
    from hermes_env.foreground import BROKEN_PIPE_EXIT_CODE, LiveOutput, run_interruptibly

    interrupt = threading.Event()
    output = LiveOutput(when_reader_leaves=interrupt.set)
    shown = Shown()

    def show(text: str) -> None:
        shown.add(text)
        output.write(text)

    with create_environment(backend, **settings_from(assignments, cwd=cwd)) as environment:
        work = partial(
            execute_code,
            code,
            env=environment,
            timeout=timeout,
            max_tool_calls=max_tool_calls,
            mode=mode,
            transport=transport,
            interrupt=interrupt,
            on_output=None if as_json else show,
        )
        result = run_interruptibly(work, interrupt.set)
    if as_json:
        import json

        output.write(json.dumps(result.to_dict()) + "\n")
    else:
        sys.stderr.write(shown.missing_from(result.output))
        typer.secho(result_line(result), fg=COLOURS[result.status], err=True)
    raise typer.Exit(BROKEN_PIPE_EXIT_CODE if output.reader_left else exit_code_of(result))


class Shown:
    """What was shown of the output while it came. Keeps its beginning and end only, however much there is."""

    _HEAD_CHARS = 1_000_000
    _TAIL_CHARS = 200

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self._length = 0

    def add(self, text: str) -> None:
        """Note a piece that was shown."""
        self._head += text[: self._HEAD_CHARS - len(self._head)]
        self._tail = (self._tail + text)[-self._TAIL_CHARS :]
        self._length += len(text)

    def missing_from(self, output: str) -> str:
        """Return what a result holds beyond what was shown: a failed script's standard error, and notices."""
        both = zip(output, self._head, strict=False)
        common = next((at for at, (one, other) in enumerate(both) if one != other), min(len(output), len(self._head)))
        rest = output[common:]
        if common < self._length and self._tail in rest:
            # The middle was left out of the result, but not of what was shown.
            rest = rest[rest.rindex(self._tail) + len(self._tail) :]
        return rest if not rest or rest.endswith("\n") else rest + "\n"


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


def with_arguments(code: str, name: str, arguments: list[str]) -> str:
    """Return a script that runs `code` with `arguments` in `sys.argv[1:]`.

    The code is compiled by itself, so that its line numbers stay and `from __future__` may come first.
    """
    if not arguments:
        return code
    argv = [name, *arguments]
    return f"import sys\nsys.argv = {argv!r}\nexec(compile({code!r}, {name!r}, 'exec'))\n"


def result_line(result: ExecutionResult) -> str:
    """Say in one line how a script ended."""
    calls = f"{result.tool_calls_made} tool call{'' if result.tool_calls_made == 1 else 's'}"
    return f"{result.status} in {result.duration_seconds:.2f} s, {calls}, exit code {exit_code_of(result)}"


def exit_code_of(result: ExecutionResult) -> int:
    """Return the exit code that tells a shell how a script ended."""
    if result.status == "error":
        return result.exit_code or 1
    return {"timeout": TIMEOUT_EXIT_CODE, "interrupted": INTERRUPT_EXIT_CODE}.get(result.status, 0)
