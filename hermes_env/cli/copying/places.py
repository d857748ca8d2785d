"""What `cp` is told to copy, and where to."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from environments.errors import TerminalError

MARK = ":"
"""What a path of the target begins with."""
STREAM = "-"
"""Standard input, or standard output."""
_NAMELESS = ("", ".", "..")
"""What stands at the end of a directory's path where that says nothing of its name."""


@dataclass(frozen=True, slots=True)
class Route:
    """From where to where."""

    source: str
    """A path, or `-`."""
    destination: str
    is_upload: bool
    """Whether the destination is in the target, and otherwise the source."""

    @property
    def is_streamed(self) -> bool:
        """Whether the side that is here is standard input or standard output."""
        return (self.source if self.is_upload else self.destination) == STREAM


def route_of(source: str, destination: str) -> Route:
    """Return what two words of the command line say.

    Raises:
        TerminalError: Not one of them, and only one, is a path of the target; or one is empty.
    """
    there = [word.startswith(MARK) for word in (source, destination)]
    if all(there):
        raise TerminalError(
            f"cp {source} {destination}: both are in the target; use `hermes-env exec -- cp -R "
            f"{_path(source)} {_path(destination)}`"
        )
    if not any(there):
        raise TerminalError(
            f"cp {source} {destination}: both are on this machine; write {MARK} before the path that is in the target, "
            f"such as {MARK}/srv/data"
        )
    if not (source and destination):
        raise TerminalError("cp: a path is empty; write . for this directory")
    if there[1]:
        return Route(source, _path(destination), is_upload=True)
    return Route(_path(source), destination, is_upload=False)


def _path(word: str) -> str:
    """Return a path of the target. A mark alone is the session's directory."""
    return word.removeprefix(MARK) or "."


def place_in(directory: str, source: str) -> str:
    """Return where in a directory a source goes: under its name, or for `folder/.` into the directory itself."""
    name = posixpath.basename(source.rstrip("/"))
    return directory if name in _NAMELESS or source.rstrip("/") == "~" else posixpath.join(directory, name)
