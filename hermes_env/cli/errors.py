"""Errors of the command line: messages, exit codes, and JSON for `--json`."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand

from environments.errors import DeniedError, SettingsError, StartStoppedError, TerminalError
from environments.model_view import plain
from environments.result import DENIED_EXIT_CODE, INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE
from environments.validation import closest
from hermes_env.cli.streams import accepts_output

USAGE_EXIT_CODE = 2
"""The command line, a setting or a task is wrong, so no work was begun."""
ERROR_EXIT_CODE = 125
"""Any other error of hermes-env, not of the command, as with `docker run` and `timeout(1)`."""

JsonObject = dict[str, object]
UsageError: type[Any] = typer.BadParameter.__bases__[0]
"""The base class of the parser's errors, without a public name in typer."""
_NEAR = 0.7
"""The smallest similarity of a suggested name, from 0 to 1."""
_OPTIONS_OF_SETTINGS = {"backend": "--backend", "cwd": "--cwd", "record": "--record"}


class EndedBySignalError(TerminalError):
    """Ctrl-C, SIGTERM or SIGHUP has ended the work. The message names the signal."""


class WrongUsageError(SettingsError):
    """The arguments of the command line contradict each other, or a task of a batch is wrong."""


def exit_code_of_error(error: Exception) -> int:
    """Return the exit code for an error."""
    if isinstance(error, DeniedError):
        return DENIED_EXIT_CODE
    if isinstance(error, StartStoppedError):
        return TIMEOUT_EXIT_CODE if error.timed_out else INTERRUPT_EXIT_CODE
    if isinstance(error, EndedBySignalError):
        return INTERRUPT_EXIT_CODE
    return USAGE_EXIT_CODE if isinstance(error, (SettingsError, UsageError)) else ERROR_EXIT_CODE


def status_of_error(error: Exception) -> str:
    """Return the status of a result for an error."""
    if exit_code_of_error(error) == INTERRUPT_EXIT_CODE:
        return "interrupted"
    return "timeout" if isinstance(error, StartStoppedError) else "error"


def message_of(error: Exception) -> str:
    """Return an error as one line, without secrets and terminal controls."""
    from environments.redaction import without_secrets  # imported only for an error

    text = _usage_message(error) if isinstance(error, UsageError) else str(error)
    return without_secrets(plain(re.sub(r"^(?:argument (?=\w+:)|(?=backend:))(\w+):", _as_option, text)))


def _as_option(found: re.Match[str]) -> str:
    """Return the command-line option for the name of a setting in an error."""
    return f"{_OPTIONS_OF_SETTINGS.get(found[1], f'--set {found[1]}')}:"


def _usage_message(error: Any) -> str:  # noqa: ANN401  # see `UsageError`
    message = str(error.message).removeprefix("Value error, ").rstrip(".")
    message = message[:1].lower() + message[1:]
    parameter, command = getattr(error, "param", None), error.ctx.command if error.ctx else None
    match type(error).__name__:
        case "NoSuchOption":
            known = [word for each in command.get_params(error.ctx) for word in each.opts] if command else []
            message = f"there is no option {error.option_name}{closest(error.option_name, known, _NEAR)}"
        case "MissingParameter" if parameter is not None:
            message = f"{_name_of(parameter)} is missing"
        case "BadOptionUsage":
            needs = "takes no value" if "not take" in message else "needs a value"
            message = f"{error.option_name} {needs}"
        case "BadParameter" if parameter is not None:
            name = _name_of(parameter)
            if choice := re.fullmatch("'(.*)' is not one of (.*)", message):
                return f"{name} {choice[1]}: it should be one of {choice[2].replace(chr(39), '')}"
            message = f"{name}: {message}"
        case _ if extra := re.search(r"extra argument.*\((.*)\)$", message):
            message = f"unexpected argument {extra[1]}"
    return f"{message}; see `{error.ctx.command_path} --help`" if error.ctx else message


def _name_of(parameter: Any) -> str:  # noqa: ANN401  # see `UsageError`
    return str(max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.metavar)


def unknown_verb(name: str, known: list[str]) -> WrongUsageError:
    """Return the error for an unknown command."""
    return WrongUsageError(f"there is no command {name!r}{closest(name, known, _NEAR)}; see `hermes-env --help`")


def print_message(text: str, colour: str = "red") -> None:
    """Print a line to standard error; on a terminal in a colour, unless NO_COLOR is set.

    Prints nothing to a stopped terminal, which would block the end of the program.
    """
    if sys.stderr is None or (sys.stderr.isatty() and not accepts_output(sys.stderr.fileno())):
        return
    line = f"hermes-env: {text}"
    typer.echo(line if os.environ.get("NO_COLOR") else typer.style(line, fg=colour), err=True)


def report_error(error: Exception) -> int:
    """Print an error to standard error, and return the exit code."""
    code = exit_code_of_error(error)
    print_message(message_of(error), "yellow" if code == INTERRUPT_EXIT_CODE else "red")
    return code


def _without_type(name: str, text: str) -> tuple[str, str]:
    """Return a row of help without typer's names of types; the metavar names the type."""
    return re.sub(r" <[^>]*>(\.\.\.)?$", "", name), re.sub(r"\s*\\?\[required\]$", "", text)


class Verb(TyperCommand):
    """A command with common error reports: a line, or JSON if `--json` is given and the command has a result."""

    error_result: Callable[[Exception], JsonObject] | None = None
    """Makes the JSON object for an error, in commands with a result."""

    # typer's own types of these differ from version to version.
    def make_context(self, info_name: Any, args: list[str], *rest: Any, **extra: Any) -> Any:  # noqa: ANN401
        words = list(args)  # before parsing, a word for the target may look the same
        with self._reporting(lambda: "--json" in words):
            return super().make_context(info_name, args, *rest, **extra)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        with self._reporting(lambda: bool(ctx.params.get("as_json"))):
            return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401
        return [piece.strip("{}").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        for kind in ("argument", "option"):
            records = [each.get_help_record(ctx) for each in self.get_params(ctx) if each.param_type_name == kind]
            if rows := [_without_type(*record) for record in records if record]:
                with formatter.section(f"{kind.title()}s"):
                    formatter.write_dl(rows)

    @contextmanager
    def _reporting(self, as_json: Callable[[], bool]) -> Iterator[None]:
        try:
            try:
                yield
            except KeyboardInterrupt:
                raise EndedBySignalError("ended by Ctrl-C") from None
        except (TerminalError, UsageError) as error:
            if (error_result := self.error_result) and as_json():
                typer.echo(json.dumps(error_result(error)))
                raise typer.Exit(exit_code_of_error(error)) from error
            raise typer.Exit(report_error(error)) from error
