"""What of this machine is seen in a sandbox.

Nothing but what is named here: the system's directories, read-only; the interpreters that are in use, read-only; the
working directory, and what the settings name. Home, `/tmp` and `/run` are empty directories in memory. So what nobody
has thought of is not there.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from environments.errors import EnvironmentStartError
from environments.bubblewrap.paths import (
    IN_MEMORY,
    PRIVATE,
    SYSTEM,
    Shown,
    holds_any,
    homes,
    is_there,
    is_within,
    real,
    settings_home,
)
from environments.bubblewrap.variables import search_path
from environments.local.settings import LocalSettings
from environments.settings import EnvironmentSettings

VERSION_MANAGERS = (".pyenv", ".rbenv", ".nodenv", ".nvm", ".asdf", ".rustup", ".volta", ".sdkman")
"""Directories of a home that hold programs and no secrets: what is on PATH there calls what lies beside it."""
_RESOLVER = Path("/etc/resolv.conf")

_Entries = dict[Path, list[str]]
"""Options of bubblewrap by the path that they make."""


@dataclass(frozen=True, slots=True)
class Mounts:
    """What is seen in one sandbox."""

    home: Path
    """The home within."""
    cwd: Shown
    """The working directory."""
    writable: tuple[Shown, ...]
    """It, and what else may be written."""
    read_only: tuple[Shown, ...]
    network: bool

    @classmethod
    def of(cls, settings: EnvironmentSettings) -> Mounts:
        """Plan the mounts of a sandbox. Where paths lead is looked up now, and only checked for a later sandbox.

        Raises:
            SettingsError: A path cannot be shown.
        """
        own = LocalSettings.of(settings)
        named = settings.cwd or ""
        cwd = Shown.of("cwd (TERMINAL_CWD)", named if named.startswith(("/", "~")) else str(_here() / named))
        return cls(
            next(iter(homes()), IN_MEMORY[1]),
            cwd,
            (cwd, *(Shown.of("local_sandbox_paths", path) for path in own.sandbox_paths)),
            tuple(Shown.of("local_sandbox_read_only_paths", path) for path in own.sandbox_read_only_paths),
            own.sandbox_network,
        )

    def options(self) -> list[str]:
        """Return bubblewrap's options for them.

        Raises:
            EnvironmentStartError: A path that was named is not there any more.
        """
        for shown in (*self.writable, *self.read_only):
            shown.check()
        # A path has one entry, the last one; what lies within another comes behind it, whoever named it.
        entries = {**_system(), **self._in_memory()}
        links: dict[Path, Path] = {}
        for path in self._interpreters():
            entries |= _bind("--ro-bind", real(path))
            links[path] = real(path)
        for option, group in (("--ro-bind", self.read_only), ("--bind", self.writable)):
            for shown in group:
                entries |= _bind(option, shown.source)
                links[shown.path] = shown.source
        if self.network and not is_within(real(_RESOLVER), SYSTEM):
            entries |= _bind("--ro-bind-try", real(_RESOLVER))
        bound = [path for path, entry in entries.items() if "bind" in entry[0]]
        for path, source in links.items():
            if path != source and not is_within(path, bound):  # where the link itself is seen
                entries[path] = ["--symlink", str(source), str(path)]
        ordered = [word for path in sorted(entries) for word in entries[path]]
        first = ["--proc", "/proc", "--dev", "/dev", "--symlink", "/run", "/var/run"]
        return [*first, *ordered, "--remount-ro", "/", "--chdir", str(self.cwd.source)]

    def _in_memory(self) -> _Entries:
        entries = {path: ["--perms", "1777", "--tmpfs", str(path)] for path in IN_MEMORY}
        hidden = homes()
        writable = [shown.source for shown in self.writable]
        # A script must not be able to write the settings of the next environment: an empty directory is made for them.
        if is_within(settings_home(), writable) or is_there(settings_home()):
            hidden.append(settings_home())
        return entries | {path: ["--perms", "0700", "--tmpfs", str(path)] for path in hidden}

    def _interpreters(self) -> Iterator[Path]:
        """Go through the programs that are in use and would not be seen: PATH, our Python, virtual environments.

        Within a directory that can be written they are read-only too: this process and its user go on to run them.
        """
        named = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
        paths = [Path(path) for path in (*search_path(), sys.prefix, sys.base_prefix, *named)]
        managers = [home / name for home in homes() for name in VERSION_MANAGERS]
        paths += [manager for manager in managers if any(path.is_relative_to(manager) for path in paths)]
        writable = [shown.source for shown in self.writable]
        kept_apart = [*homes(), settings_home(), *PRIVATE, *SYSTEM, *writable]
        for path in paths:
            if not path.is_absolute() or not is_there(path) or holds_any(real(path), kept_apart):
                continue
            if not is_within(real(path), SYSTEM) or is_within(real(path), writable):
                yield path


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise EnvironmentStartError(
            "this process's working directory is not there any more, and a sandbox cannot show it; set cwd "
            "(TERMINAL_CWD)"
        ) from None


def _bind(option: str, path: Path) -> _Entries:
    return {path: [option, str(path), str(path)]}


def _system() -> _Entries:
    entries: _Entries = {}
    for path in SYSTEM:
        if path.is_symlink():
            entries[path] = ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            entries |= _bind("--ro-bind", path)
    if os.geteuid() == 0:
        for path in _not_for_everybody(Path("/etc")):
            mask = ["--perms", "0000", "--tmpfs"] if path.is_dir() else ["--ro-bind", "/dev/null"]
            entries[path] = [*mask, str(path)]
    return entries


def _not_for_everybody(folder: Path) -> Iterable[Path]:
    """Go through what others than root may not read: passwords and host keys. Root reads it also without privileges."""
    with os.scandir(folder) as found:
        for entry in found:
            mode = entry.stat(follow_symlinks=False).st_mode
            needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
            if not stat.S_ISLNK(mode) and mode & needed != needed:
                yield Path(entry.path)
            elif stat.S_ISDIR(mode):
                yield from _not_for_everybody(Path(entry.path))
