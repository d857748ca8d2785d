"""The private directory in the target that holds a script and its stub."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator

from environments.base import BaseEnvironment, TerminalError

SCRIPT = "script.py"
STUB = "hermes_tools.py"


@contextlib.contextmanager
def staging_directory(env: BaseEnvironment) -> Iterator[str]:
    """Make a directory in the target that only its user can enter, and remove it after the block.

    Raises:
        TerminalError: It could not be made.
    """
    name = f"hermes-script-{os.urandom(8).hex()}"
    made = env.execute_oneshot(f'd=${{TMPDIR:-/tmp}}/{name}; mkdir -m 700 -- "$d" && cd -- "$d" && pwd -P', timeout=60)
    if not made.ok:
        raise TerminalError(
            f"no directory for the script could be made on backend {env.settings.env!r}: {made.output.strip()}"
        )
    directory = made.output.rstrip("\n")
    try:
        yield directory
    finally:
        with contextlib.suppress(TerminalError):
            env.execute_oneshot(f"rm -rf -- {shlex.quote(directory)}", timeout=60)


def stage(env: BaseEnvironment, directory: str, script: str, stub: str) -> None:
    """Write the script and its stub.

    Raises:
        TerminalError: They could not be written.
        ValueError: The script is not text that UTF-8 can carry.
    """
    for name, text in ((STUB, stub), (SCRIPT, script)):
        env.write_bytes(f"{directory}/{name}", text.encode())
