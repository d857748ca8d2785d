"""The command line `hermes-env`: a module for each command, imported when the command is called."""

from __future__ import annotations

import errno
import os
import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

# Loaded by path, because another package may have the name `environments`.
if _taken := runpy.run_path(str(Path(__file__).parents[2] / "environments" / "name_conflict.py"))["shadowed_package"]():
    sys.stderr.write(f"hermes-env: {_taken}\n")
    sys.exit(125)

from environments.errors import TerminalError
from hermes_env.cli.completion import prepare_completion
from hermes_env.cli.errors import (
    ERROR_EXIT_CODE,
    USAGE_EXIT_CODE,
    EndedBySignalError,
    UsageError,
    Verb,
    report_error,
    unknown_verb,
)
from hermes_env.cli.options import Verbose

VERBS = {
    "exec": "Run a command and exit with its exit code.",
    "run": "Run a Python script that may call tools.",
    "shell": "Open a shell in the target, on this terminal.",
    "cp": "Copy a file or a directory to or from the target.",
    "ls": "List running and kept targets, on all backends.",
    "rm": "Remove targets listed by `ls`.",
    "gc": "Remove the orphans of killed processes.",
    "batch": "Run many tasks, each in an environment.",
    "mcp": "Serve the tools to MCP clients.",
    "report": "Make an HTML page of a record.",
    "doctor": "Check each backend, and show how to set up the missing ones.",
    "completion": "Print a shell's completion script for this command.",
}
_WORDS_FOLLOW = ("exec", "run", "shell")
"""Commands that pass all words behind the first operand to the target, also words with a leading dash."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a write to standard output if redirected to a file. Other writes report their errors themselves."""
_HELP = {"help_option_names": ["--help", "-h"]}


class _Verbs(TyperGroup):
    """Imports the module of a command when called. Help and completion need only the name and the summary."""

    # typer's own types of these differ from version to version.
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        if args[0] not in VERBS and not ctx.resilient_parsing and not args[0].startswith("-"):
            raise unknown_verb(args[0], list(VERBS))
        name, command, rest = super().resolve_command(ctx, args)
        try:
            return name, command and _verb(args[0]), rest
        except KeyboardInterrupt:  # while modules are imported
            raise EndedBySignalError("ended by Ctrl-C") from None


def _verb(name: str) -> Verb:
    """Import a command, and return the parser."""
    module = import_module(f"hermes_env.cli.{name}")
    one = typer.Typer(add_completion=False, rich_markup_mode=None)
    settings: dict[str, Any] = {**_HELP, **({"allow_interspersed_args": False} if name in _WORDS_FOLLOW else {})}
    one.command(name, cls=Verb, context_settings=settings)(getattr(module, f"{name}_command"))
    verb = typer.main.get_command(one)
    assert isinstance(verb, Verb)
    verb.error_result = getattr(module, "error_result", None)
    return verb


app = typer.Typer(
    name="hermes-env",
    cls=_Verbs,
    help="Run a command, or a Python script that calls your tools, on any machine.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_HELP,
)
for _name, _summary in VERBS.items():
    app.command(_name, help=_summary)(lambda: None)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"hermes-env {version('hermes-environments')}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Verbose = 0,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE_EXIT_CODE)


def main() -> None:
    """Run the command line, and exit with the exit code of the command or the error, see `errors`."""
    prepare_completion()
    try:
        code = app(prog_name="hermes-env", standalone_mode=False)
    except (TerminalError, UsageError) as error:
        code = report_error(error)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        sys.stderr.write(f"hermes-env: cannot write to standard output: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(ERROR_EXIT_CODE)  # a regular exit would retry the write and print a traceback
    sys.exit(code)
