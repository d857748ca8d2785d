"""Common options of the commands, and their settings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Annotated

import typer

from environments.errors import SettingsError


def _backends(incomplete: str) -> list[str]:
    """Return the names of backends for shell completion."""
    from environments import backend_names

    return [name for name in backend_names() if name.startswith(incomplete)]


def seconds(option: str, *, finite: bool = False) -> Callable[[str], float]:
    """Return a parser of a number of seconds above 0.

    Args:
        option: The option's name, for errors.
        finite: True to refuse `inf`, which sets no limit.
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
        least: The smallest allowed number.
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
        help="The backend; the configured one by default.",
    ),
]
BackendAlone = Annotated[
    str | None,
    typer.Option("--backend", "-b", metavar="NAME", autocompletion=_backends, help="Query only this backend."),
]
Task = Annotated[str | None, typer.Option("--task", metavar="TASK", help="Only targets of this task.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", parser=seconds("--timeout"), help="Time limit in seconds; inf sets no limit."
    ),
]
Cwd = Annotated[str | None, typer.Option("--cwd", metavar="DIRECTORY", help="The first directory of the session.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of config.yaml; may be repeated."),
]
Raw = Annotated[bool, typer.Option("--raw", help="Pass all terminal controls through, not only colours.")]
Record = Annotated[str | None, typer.Option("--record", metavar="FILE", help="Append a record to FILE.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print only the result, as JSON.")]

_VERBOSITY = f"{__name__}.verbosity"


def _verbosity(context: typer.Context, count: int) -> int:
    """Return the number of `-v` before and behind the command, and start the log for two or more."""
    if context.resilient_parsing:  # for shell completion
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
        callback=_verbosity,
        show_default=False,
        metavar="",
        help="Print each step of a start; -vv adds the log.",
    ),
]
"""The number of `-v`, also before the command."""


def settings_from(assignments: list[str] | None, **options: object) -> dict[str, object]:
    """Return the settings of `--set` and other options.

    Args:
        assignments: The values of `--set`.
        options: Settings with their own option; None if not given.

    Raises:
        SettingsError: A value of `--set` is not `KEY=VALUE`, or a setting is given twice.
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
