"""The command `hermes-env`: its subcommands, and how an error ends it.

Backends and code_execution are imported by the subcommands, when they run, so that `--help` is quick.
"""

from __future__ import annotations

import errno
import os
import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

# Read by its path, as `environments` may be what is not ours.
if _taken := runpy.run_path(str(Path(__file__).parents[2] / "environments" / "own_names.py"))["taken_name"]():
    sys.stderr.write(f"hermes-env: {_taken}\n")
    sys.exit(125)

from environments.errors import TerminalError
from environments.model_view import plain
from hermes_env.cli.batch import batch_command
from hermes_env.cli.completion import completion_command, prepare_completion
from hermes_env.cli.cp import cp_command
from hermes_env.cli.doctor import doctor_command
from hermes_env.cli.errors import ERROR_EXIT_CODE, exit_code_of_error, reporting
from hermes_env.cli.exec import exec_command
from hermes_env.cli.exec_result import failed_command
from hermes_env.cli.gc import gc_command
from hermes_env.cli.ls import ls_command
from hermes_env.cli.mcp import mcp_command
from hermes_env.cli.options import Verbose
from hermes_env.cli.report import report_command
from hermes_env.cli.rm import rm_command
from hermes_env.cli.run import failed_script, run_command
from hermes_env.cli.shell import shell_command

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What is in the way of what is printed to a file. What else is written says by itself what it was."""

app = typer.Typer(
    name="hermes-env",
    help="Run a command, or a Python script that calls your tools, on any machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["--help", "-h"]},
)
# What follows the command or the script is its own, also when it begins with a dash.
_WORDS_FOLLOW = {"allow_interspersed_args": False}
app.command("exec", cls=reporting(failed_command), context_settings=_WORDS_FOLLOW)(exec_command)
app.command("run", cls=reporting(failed_script), context_settings=_WORDS_FOLLOW)(run_command)
app.command("shell", context_settings=_WORDS_FOLLOW)(shell_command)
app.command("batch")(batch_command)
app.command("cp")(cp_command)
app.command("ls")(ls_command)
app.command("rm")(rm_command)
app.command("mcp")(mcp_command)
app.command("report")(report_command)
app.command("doctor")(doctor_command)
app.command("gc")(gc_command)
app.command("completion")(completion_command)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"hermes-env {version('hermes-environments')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Verbose = 0,
) -> None:
    pass


def main() -> None:
    """Run the command line, and exit with its exit code, or with that of an error, see `endings`."""
    prepare_completion()
    try:
        app()
    except TerminalError as error:
        from rich.console import Console
        from rich.text import Text

        from environments.redaction import without_secrets

        shown = without_secrets(plain(str(error)))
        Console(stderr=True).print(Text(f"hermes-env: {shown}", style="red"), soft_wrap=True)
        sys.exit(exit_code_of_error(error))
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        sys.stderr.write(f"hermes-env: cannot write to standard output: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(ERROR_EXIT_CODE)  # as Python would try again to write what is left, and tell of that at length
