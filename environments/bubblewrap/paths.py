"""Paths of this machine: which are hidden, and which somebody wants seen in a sandbox."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from environments.config import hermes_home
from environments.errors import EnvironmentStartError, SettingsError

SYSTEM = tuple(
    map(Path, "/bin /sbin /lib /lib32 /lib64 /libx32 /usr /etc /opt /snap /nix/store /gnu/store".split())  # noqa: SIM905
)
"""What programs are made of, and what every user may read of a machine. It is seen read-only."""
IN_MEMORY = tuple(map(Path, ("/run", "/tmp", "/var/tmp")))  # noqa: S108 - the sandbox's own
"""Where a sandbox has empty directories of its own, in place of those with the sockets of services."""
PRIVATE = (Path("/dev"), Path("/proc"), *IN_MEMORY)


def homes() -> list[Path]:
    """Return the user's home: by HOME, and as the system knows it, where that is another; by its links, and without."""
    named = [os.environ.get("HOME", "")]
    with contextlib.suppress(KeyError):  # of a user without an entry, as in a container
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    paths = [Path(os.path.normpath(name)) for name in named if name.startswith("/")]
    found = dict.fromkeys(place for path in paths for place in (path, real(path)))
    return [path for path in found if not holds_any(path, (*SYSTEM, *PRIVATE))]  # services have / for one


def settings_home() -> Path:
    """Return `HERMES_HOME`, whose files decide what is allowed, without links."""
    return real(hermes_home())


def real(path: Path) -> Path:
    """Return a path without links. What is not there, or cannot be looked at, stays as it is."""
    return Path(os.path.realpath(path))


def is_there(path: Path) -> bool:
    """Whether a path leads to something, as far as this user can know."""
    return os.access(path, os.F_OK)


def holds_any(path: Path, others: Iterable[Path]) -> bool:
    """Whether a path is one of others, or leads to one."""
    return any(other.is_relative_to(path) for other in others)


def is_within(path: Path, others: Iterable[Path]) -> bool:
    """Whether a path is one of others, or lies in one."""
    return any(path.is_relative_to(other) for other in others)


@dataclass(frozen=True, slots=True)
class Shown:
    """A path that is to be seen in a sandbox."""

    name: str
    """The setting that names it."""
    path: Path
    """The path as it was given."""
    source: Path
    """Where that led when it was looked up, without links."""

    @classmethod
    def of(cls, name: str, path: str) -> Shown:
        """Look up where a path leads.

        Raises:
            SettingsError: It is not absolute, or with it the sandbox would show what it is there to hide.
        """
        try:
            given = Path(os.path.normpath(Path(path).expanduser()))
            shown = cls(name, given, real(given))
        except (RuntimeError, ValueError) as error:  # an unknown user behind `~`, a NUL character
            raise SettingsError(f"{name}: {path!r} is no path here: {error}") from None
        if not given.is_absolute():
            raise SettingsError(f"{name}: {path!r} is not an absolute path")
        hidden = [place for place in (*homes(), *PRIVATE, *SYSTEM) if place.is_relative_to(shown.source)]
        if shown.source == settings_home():
            hidden.append(shown.source)
        if hidden:
            raise SettingsError(
                f"{name}: a sandbox cannot show {path}, which is or holds {hidden[0]}; name a directory below it, such "
                "as a project's"
            )
        return shown

    def check(self) -> None:
        """Look whether it still leads there. A script could have put a link into its place.

        Raises:
            EnvironmentStartError: It is gone, or leads elsewhere.
        """
        if (now := real(self.path)) != self.source:
            raise EnvironmentStartError(
                f"{self.name}: {self.path} led to {self.source}, and now leads to {now}; see what has changed it, and "
                "create a new environment"
            )
        if not is_there(self.source):
            raise EnvironmentStartError(f"{self.name}: {self.path} is not there, and a sandbox cannot show it")
