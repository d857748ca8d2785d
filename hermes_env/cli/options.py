"""The options that several subcommands have, and the settings they stand for."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from environments.errors import SettingsError
from environments.plain_number import plain_number


def _backends(incomplete: str) -> list[str]:
    """Return the names of backends, for a shell that completes one."""
    from environments import backend_names

    return [name for name in backend_names() if name.startswith(incomplete)]


Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        "-b",
        metavar="NAME",
        autocompletion=_backends,
        help="Where to run; the configured backend by default.",
    ),
]
BackendAlone = Annotated[
    str | None,
    typer.Option("--backend", "-b", metavar="NAME", autocompletion=_backends, help="Look at this backend alone."),
]
Task = Annotated[
    str | None,
    typer.Option("--task", metavar="TASK", help="Only what belongs to this task, by its name as `ls` shows it."),
]


def _positive(seconds: float | None) -> float | None:
    if seconds is not None and not seconds > 0:
        raise SettingsError(f"--timeout {plain_number(seconds)}: it should be greater than 0; inf sets no limit")
    return seconds


Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", callback=_positive, help="End it after so long; inf sets no limit."),
]
Cwd = Annotated[
    str | None,
    typer.Option("--cwd", metavar="DIRECTORY", help="Directory in the target where the session starts."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any setting, by its name in config.yaml; lists and mappings as JSON. May be repeated.",
    ),
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Let terminal controls of the output reach a terminal as they are, not only colours."),
]

Record = Annotated[
    str | None,
    typer.Option("--record", metavar="FILE", help="Add a record of all that is done to a file here, as JSON Lines."),
]

_VERBOSITY = f"{__name__}.verbosity"


def _in_all(context: typer.Context, count: int) -> int:
    """Return how often `-v` was given, before the subcommand and behind it, and begin the log that two ask for."""
    if context.resilient_parsing:  # a shell asks what could stand here
        return count
    total: int = context.meta.get(_VERBOSITY, 0) + count
    context.meta[_VERBOSITY] = total
    if total > 1:
        from hermes_env.cli.debug_log import log_to_stderr

        log_to_stderr()
    return total


Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        callback=_in_all,
        show_default=False,
        metavar="",
        help="Tell on standard error what a start is doing, step by step; -vv shows our log as well.",
    ),
]
"""How often it was given, also before the subcommand."""


def settings_from(assignments: list[str] | None, **options: object) -> dict[str, object]:
    """Return the settings that `--set` and other options give.

    Args:
        assignments: The values of `--set`.
        options: Settings that have an option of their own; None means it was not given.

    Raises:
        SettingsError: A value of `--set` is not `KEY=VALUE`, or names a setting that is given elsewhere too.
    """
    settings = {key: value for key, value in options.items() if value is not None}
    for assignment in assignments or []:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise SettingsError(f"--set {key}: it should be KEY=VALUE, such as --set timeout=60")
        if key == "backend":
            raise SettingsError("--set backend: use --backend instead")
        if key in settings:
            raise SettingsError(f"--set {key}: it is given twice; keep one")
        settings[key] = _value(key, text)
    return settings


def _value(key: str, text: str) -> object:
    if not text.startswith(("[", "{")):
        return text
    try:
        value: object = json.loads(text)
    except ValueError:
        raise SettingsError(f"--set {key}: it begins like JSON, and is not valid JSON") from None
    return value
