"""The options that several commands have, and the settings that they stand for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Annotated

import typer

from environments.errors import SettingsError


def _backends(incomplete: str) -> list[str]:
    """Return the names of backends, for a shell that completes one."""
    from environments import backend_names

    return [name for name in backend_names() if name.startswith(incomplete)]


def seconds(option: str, *, finite: bool = False) -> Callable[[str], float]:
    """Return a parser of a time in seconds, which is above 0.

    Args:
        option: The option's name, for errors.
        finite: Whether `inf`, which sets no limit, is refused.
    """

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not value > 0 or (finite and value == math.inf):
            hint = "" if finite else "; inf sets no limit"
            raise SettingsError(f"{option} {text}: it should be a number of seconds above 0{hint}")
        return value

    return parse


def whole_number(option: str, least: int) -> Callable[[str], int]:
    """Return a parser of a whole number.

    Args:
        option: The option's name, for errors.
        least: The smallest that is allowed.
    """

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise SettingsError(f"{option} {text}: it should be a whole number, {least} or more")
        return value

    return parse


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
Task = Annotated[str | None, typer.Option("--task", metavar="TASK", help="Only what belongs to this task.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", parser=seconds("--timeout"), help="End it after this time; inf sets no limit."
    ),
]
Cwd = Annotated[str | None, typer.Option("--cwd", metavar="DIRECTORY", help="Where in the target the session starts.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting of config.yaml; may be repeated."),
]
Raw = Annotated[bool, typer.Option("--raw", help="Let all terminal controls through, not only colours.")]
Record = Annotated[str | None, typer.Option("--record", metavar="FILE", help="Add a record of what is done to FILE.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result alone, as JSON.")]

_VERBOSITY = f"{__name__}.verbosity"


def _in_all(context: typer.Context, count: int) -> int:
    """Return how often `-v` was given, before the command and behind it, and begin the log that two ask for."""
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
        help="Report each step of a start; -vv adds the log.",
    ),
]
"""How often it was given, also before the command."""


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
            raise SettingsError(f"--set {key or equals}: it should be KEY=VALUE, such as --set timeout=60")
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
