"""`hermes-env completion`: what has a shell complete subcommands, options and their values."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

PROGRAM = "hermes-env"
VARIABLE = "_HERMES_ENV_COMPLETE"
"""Set by the script in the shell when it asks what could stand where the cursor is."""


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that has a shell complete this command.

    For bash, put `eval "$(hermes-env completion bash)"` into ~/.bashrc; for zsh the same with `zsh` into ~/.zshrc,
    below `compinit`; for fish, write it to ~/.config/fish/completions/hermes-env.fish.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))


def prepare_completion() -> None:
    """Have typer answer a shell that asks, if one does. It does so by itself only where it adds options for this."""
    if VARIABLE in os.environ:
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()
