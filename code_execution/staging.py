"""The private directory in the target that holds a script and its stub."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from environments.base import BaseEnvironment
from environments.errors import TerminalError

SCRIPT = "script.py"
STUB = "hermes_tools.py"


@contextlib.contextmanager
def staging_directory(env: BaseEnvironment) -> Iterator[str]:
    """Make a directory in the target that only its user can enter, and remove it after the block.

    On this machine it is made without a command, which would cost as much as a tenth of starting Python.

    Raises:
        TerminalError: It could not be made.
    """
    path = f"{env.scratch_directory()}/script-{os.urandom(6).hex()}"
    local = env.capabilities.same_machine
    if local:
        try:
            Path(path).mkdir(mode=0o700)
        except OSError as error:
            raise TerminalError(f"no directory for the script could be made: {error}") from error
    else:
        _run(env, f"mkdir -m 700 -- {shlex.quote(path)}", "no directory for the script could be made")
    try:
        yield path
    finally:
        if local:
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(TerminalError):
                _run(env, f"rm -rf -- {shlex.quote(path)}", "the script's directory could not be removed")


def stage(env: BaseEnvironment, directory: str, files: Mapping[str, str]) -> None:
    """Write text files into the directory.

    On another machine all of them travel in one command, since there each file written costs a round trip.

    Raises:
        TerminalError: They could not be written.
    """
    if env.capabilities.same_machine or any("\0" in text for text in files.values()):
        for name, text in files.items():
            env.write_bytes(f"{directory}/{name}", text.encode())
        return
    writes = [f"printf %s {shlex.quote(text)} >{name}" for name, text in files.items()]
    _run(env, " && ".join([f"cd -- {shlex.quote(directory)}", *writes]), "the script could not be written")


def _run(env: BaseEnvironment, command: str, problem: str) -> None:
    result = env.execute_oneshot(command, timeout=60)
    if not result.ok:
        raise TerminalError(f"{problem} on backend {env.settings.env!r}: {result.output.strip()}")
