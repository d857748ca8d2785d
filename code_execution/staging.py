"""The private directory in the target that holds a script and its stub."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from environments.base import BaseEnvironment
from environments.cancellation import in_no_scope
from environments.errors import TerminalError
from environments.observation.seam import unobserved
from environments.removal import remove_tree, removing

START = "start-script"
"""The program that becomes the script. No module of a project has a name that it could hide."""


@dataclass(slots=True)
class Staging:
    """The directory."""

    path: str
    said: str = ""
    """What the command printed that was run along with making it."""
    removal_limit: float = 10.0
    """Seconds to remove it."""


@contextlib.contextmanager
def staging_directory(env: BaseEnvironment, timeout: float, along: str = "") -> Iterator[Staging]:
    """Make a directory in the target that only its user can enter, and remove it after the block.

    On this machine it is made without a command, which would cost as much as a tenth of starting Python.

    Args:
        env: Where.
        timeout: Seconds to make it.
        along: Shell text to run with the command that makes it, where there is one.

    Raises:
        TerminalError: It could not be made.
    """
    staging = Staging(f"{env.scratch_directory()}/script-{os.urandom(4).hex()}")
    local = env.capabilities.same_machine
    if local:
        try:
            Path(staging.path).mkdir(mode=0o700)
        except OSError as error:
            raise TerminalError(f"no directory for the script could be made: {error}") from error
    else:
        make = f"mkdir -m 700 -- {shlex.quote(staging.path)} || exit\n{along}"
        staging.said = _run(env, make, timeout, "no directory for the script could be made")
    try:
        yield staging
    finally:
        if local:
            remove_tree(Path(staging.path), staging.removal_limit)
        else:
            with in_no_scope(), contextlib.suppress(TerminalError):  # whoever has cancelled it wants it away, too
                _run(env, removing(staging.path), staging.removal_limit, "the script's directory could not be removed")


@cache
def start_source() -> str:
    """Return the source of that program."""
    return resources.files("code_execution").joinpath("script_start.py").read_text("utf-8")


def stage(env: BaseEnvironment, directory: str, files: Mapping[str, str], timeout: float) -> None:
    """Write text files into the directory.

    On another machine all of them travel in one command, since there each file written costs a round trip.

    Args:
        env: Where the directory is.
        directory: Its path.
        files: Texts, by the names of the files.
        timeout: Seconds for all of it.

    Raises:
        TerminalError: They could not be written.
    """
    if env.capabilities.same_machine or any("\0" in text for text in files.values()):
        with unobserved():
            for name, text in files.items():
                env.write_bytes(f"{directory}/{name}", text.encode())
        return
    writes = [f"printf %s {shlex.quote(text)} >{name}" for name, text in files.items()]
    command = " && ".join([f"cd -- {shlex.quote(directory)}", *writes])
    _run(env, command, timeout, "the script could not be written")


def _run(env: BaseEnvironment, command: str, timeout: float, problem: str) -> str:
    result = env.execute_own(command, timeout=timeout)
    if not result.ok:
        env.check_usable()
        raise TerminalError(f"{problem} on backend {env.settings.env!r}: {result.output.strip()}")
    return result.output
