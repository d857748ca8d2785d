"""How an error ends the command line: with which exit code, and as JSON where that was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from environments.errors import DeniedError, StartStoppedError, TerminalError
from environments.result import DENIED_EXIT_CODE, INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE

ERROR_EXIT_CODE = 125
"""What `docker run` and `timeout(1)` return for an error that is theirs, and not that of what they were to run."""

JsonObject = dict[str, object]


def exit_code_of_error(error: TerminalError) -> int:
    """Return the exit code that tells a shell of an error."""
    if isinstance(error, DeniedError):
        return DENIED_EXIT_CODE
    if isinstance(error, StartStoppedError):
        return TIMEOUT_EXIT_CODE if error.timed_out else INTERRUPT_EXIT_CODE
    return ERROR_EXIT_CODE


def status_of_error(error: Exception) -> str:
    """Return the status that a result has which is an error."""
    if isinstance(error, StartStoppedError):
        return "timeout" if error.timed_out else "interrupted"
    return "error"


def reporting(failed: Callable[[Exception], JsonObject]) -> type[TyperCommand]:
    """Return a kind of command that prints an object on standard output for each error, if `--json` is given.

    Args:
        failed: Makes that object of an error.
    """

    class Reporting(TyperCommand):
        # typer's own types of these differ from version to version.
        def make_context(self, info_name: Any, args: list[str], *rest: Any, **extra: Any) -> Any:  # noqa: ANN401
            words = list(args)
            try:
                return super().make_context(info_name, args, *rest, **extra)
            except typer.Exit:
                raise
            except Exception as error:  # words that cannot be understood, and which of them are the script's neither
                if "--json" in words:
                    _print(failed(error))
                raise

        def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
            try:
                return super().invoke(ctx)
            except TerminalError as error:
                if not ctx.params.get("as_json"):
                    raise
                _print(failed(error))
                raise typer.Exit(exit_code_of_error(error)) from error

    return Reporting


def _print(result: JsonObject) -> None:
    typer.echo(json.dumps(result))
