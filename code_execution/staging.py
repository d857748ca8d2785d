"""The private directory in the target that holds a script and its stub."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from code_execution.beginning import NO_DIRECTORY, NO_FILES, Beginning
from code_execution.ending import Deadline, side_by_side
from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.files import removing
from environments.local_files import remove_tree

_PROBLEMS = {
    NO_DIRECTORY: "no directory for the script could be made",
    NO_FILES: "the script could not be written",
}
START = "start-script"
"""The program that becomes the script. No module of a project has a name that it could hide."""


@dataclass(slots=True)
class Staging:
    """The directory."""

    path: str
    local: bool
    """Whether it is on this machine, where no command is needed: one costs as much as a tenth of starting Python."""
    exists: bool = False
    """Whether there may be anything to remove."""
    removal_limit: float = 10.0
    """Seconds to remove it."""

    def make(self, env: BaseEnvironment, timeout: float) -> None:
        """Make it now, if what makes the files in it is not to do so as well.

        Raises:
            TerminalError: It could not be made.
        """
        self.exists = True
        if self.local:
            try:
                self._make_here()
            except OSError as error:
                raise TerminalError(f"no directory for the script could be made: {error}") from error
        else:
            made = env.internal.execute(self.making, timeout=timeout)
            if not made.ok:
                env.internal.check_usable()
                raise not_staged(env, NO_DIRECTORY, made.output)

    def _make_here(self) -> None:
        place = Path(self.path)
        try:
            place.mkdir(mode=0o700)
        except FileNotFoundError:  # a command like `rm -rf /tmp/*` has removed what it is to be in
            place.parent.mkdir(mode=0o700, exist_ok=True)
            place.mkdir(mode=0o700)

    @property
    def making(self) -> str:
        """Shell text that makes it, and fails if it cannot be made. Others may do so at the same time.

        What it is to be in is made anew where a command like `rm -rf /tmp/*` has removed it.
        """
        word = shlex.quote(self.path)
        return f"{{ [ -d {word} ] || mkdir -m 700 -- {word} 2>/dev/null || (umask 077; mkdir -p -- {word}); }}"


@contextlib.contextmanager
def staging_directory(env: BaseEnvironment) -> Iterator[Staging]:
    """Name a directory in the target that only its user can enter, and remove it after the block.

    Raises:
        TerminalError: There is no place for it.
    """
    path = f"{env.internal.scratch_directory()}/script-{os.urandom(4).hex()}"
    staging = Staging(path, env.capabilities.same_machine)
    try:
        yield staging
    finally:
        if not staging.exists:
            pass
        elif staging.local:
            remove_tree(Path(staging.path), staging.removal_limit)
        else:
            limit, text = staging.removal_limit, removing(staging.path)
            # In a thread of its own, and so in no scope: whoever has cancelled it wants it away, too.
            side_by_side([lambda: env.internal.execute(text, timeout=limit)], Deadline(limit))


@cache
def start_source() -> str:
    """Return the source of that program."""
    return resources.files("code_execution").joinpath("script_start.py").read_text("utf-8")


def stage(staging: Staging, files: Mapping[str, str], pipes: Sequence[str], beginning: Beginning) -> str:
    """Write text files into the directory, and make named pipes in it.

    Args:
        staging: The directory. On this machine it is there already.
        files: Texts, by the names of the files.
        pipes: The names of the pipes.
        beginning: Says what could not be done.

    Returns:
        Shell text that does so, to stand in front of what makes use of them; empty if it is done.

    Raises:
        TerminalError: They could not be written.
    """
    if not staging.local:
        return _staging_text(staging, files, pipes, beginning)
    try:
        for name, text in files.items():
            Path(staging.path, name).write_bytes(text.encode())
        for name in pipes:
            os.mkfifo(f"{staging.path}/{name}", 0o600)
    except OSError as error:
        raise TerminalError(f"{_PROBLEMS[NO_FILES]}: {error}") from error
    return ""


def _staging_text(staging: Staging, files: Mapping[str, str], pipes: Sequence[str], beginning: Beginning) -> str:
    """Return it. It makes the directory, too: each command that is waited for is a round trip."""
    staging.exists = True
    place = shlex.quote(staging.path)
    writes = [f"{_printing(text)} >{place}/{name}" for name, text in files.items()]
    if pipes:
        writes.append(f"mkfifo -m 600 {' '.join(f'{place}/{name}' for name in pipes)}")
    failed = beginning.failing
    return f"{staging.making} || {failed(NO_DIRECTORY)}\n{' && '.join(writes)} || {failed(NO_FILES)}\n"


def _printing(text: str) -> str:
    """Return the command that prints a text. A shell has no words with a zero byte in them."""
    if "\0" not in text:
        return f"printf %s {shlex.quote(text)}"
    escaped = text.replace("\\", "\\\\").replace("\0", "\\0000")
    return f"printf %b {shlex.quote(escaped)}"


def not_staged(env: BaseEnvironment, what: str, said: str) -> TerminalError:
    """Return the error for a script that could not be put into the target.

    Args:
        env: Where.
        what: `NO_DIRECTORY` or `NO_FILES`.
        said: What the target said.
    """
    return TerminalError(f"{_PROBLEMS[what]} on backend {env.settings.env!r}: {said.strip()}")
