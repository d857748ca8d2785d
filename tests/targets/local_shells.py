"""Local environments over each kind of shell."""

from __future__ import annotations

from pathlib import Path

from environments import BaseEnvironment, create_environment, load_settings
from targets.per_command_local import PerCommandLocal
from targets.plain_local import PlainLocal


def local(cwd: Path) -> BaseEnvironment:
    """Return an environment over a bash on pipes."""
    return create_environment("local", cwd=str(cwd))


def without_bash(cwd: Path) -> BaseEnvironment:
    """Return an environment over a plain sh."""
    return PlainLocal(load_settings("local", cwd=str(cwd)))


def per_command(cwd: Path) -> BaseEnvironment:
    """Return an environment over a service that runs one command at a time."""
    return PerCommandLocal(load_settings("local", cwd=str(cwd)))


WAYS = (local, without_bash, per_command)
