"""`hermes-env completion`: shell completion of subcommands, options and their values."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

PROGRAM = "hermes-env"
VARIABLE = "_HERMES_ENV_COMPLETE"
"""The variable that the shell's completion script sets to request completions."""


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a shell's completion script for this command.

    For bash, put `eval "$(hermes-env completion bash)"` into ~/.bashrc; for zsh the same with `zsh` into ~/.zshrc,
    below `compinit`; for fish, write it to ~/.config/fish/completions/hermes-env.fish.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))


def prepare_completion() -> None:
    """Make typer answer a shell's request for completions. Without its own options typer does not do so."""
    if VARIABLE in os.environ:
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()
