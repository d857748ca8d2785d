"""Visible paths and variables of this machine in a sandbox.

Visible are the system's directories and the interpreters in use, both read-only, the working directory, and the paths
of the settings. Home, `/tmp` and `/run` are empty directories in memory. No other path exists in the sandbox.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from environments.bubblewrap.settings import BubblewrapSettings
from environments.errors import EnvironmentStartError, SettingsError
from environments.settings import EnvironmentSettings, hermes_home
from environments.variables import variables_named

SYSTEM = tuple(
    map(Path, "/bin /sbin /lib /lib32 /lib64 /libx32 /usr /etc /opt /snap /nix/store /gnu/store".split())  # noqa: SIM905
)
"""Programs, libraries, and files that every user may read; mounted read-only."""
IN_MEMORY = tuple(map(Path, ("/run", "/tmp", "/var/tmp")))  # noqa: S108 - the sandbox's own
"""Empty directories in memory. Outside, some of them have the sockets of services."""
_PROC = Path("/proc")
PRIVATE = (Path("/dev"), _PROC, *IN_MEMORY)
VERSION_MANAGERS = (".pyenv", ".rbenv", ".nodenv", ".nvm", ".asdf", ".rustup", ".volta", ".sdkman")
"""Directories of a home with programs and without secrets. Programs on PATH there call others beside them."""
_RESOLVER = Path("/etc/resolv.conf")

_Entries = dict[Path, list[str]]
"""Options of bubblewrap, by the path that they create."""
VARIABLES = (
    "LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
    "TERM", "COLORTERM", "NO_COLOR", "TZ", "USER", "LOGNAME", "SHELL", "EDITOR", "PAGER", "LD_LIBRARY_PATH",
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PYENV_VERSION", "JAVA_HOME",
)  # fmt: skip
"""Variables of this process that a sandbox receives. No name is a prefix, and none leads to a socket."""


@dataclass(frozen=True, slots=True)
class SharedPath:
    """A path to show in a sandbox."""

    name: str
    """The setting with the path."""
    path: Path
    """The path as given."""
    source: Path
    """The path without links, as resolved at the start."""

    @classmethod
    def of(cls, name: str, path: str) -> SharedPath:
        """Resolve a path.

        Raises:
            SettingsError: The path is not absolute, or contains a hidden path.
        """
        try:
            given = Path(os.path.normpath(Path(path).expanduser()))
            shown = cls(name, given, real(given))
        except (RuntimeError, ValueError) as error:  # an unknown user after `~`, a NUL character
            raise SettingsError(f"{name}: {path!r} is no path here: {error}") from None
        if not given.is_absolute():
            raise SettingsError(f"{name}: {path!r} is not an absolute path")
        if is_within(shown.source, (_PROC,)):
            raise SettingsError(f"{name}: a sandbox has a {_PROC} of its own, and cannot show {path}")
        hidden = [place for place in (*homes(), *PRIVATE, *SYSTEM) if place.is_relative_to(shown.source)]
        if shown.source == settings_home():
            hidden.append(shown.source)
        if hidden:
            raise SettingsError(
                f"{name}: a sandbox cannot show {path}, which is or contains {hidden[0]}; give a directory below it, "
                "such as a project's"
            )
        return shown

    def check(self) -> None:
        """Check the path again: a script could have replaced a part with a link.

        Raises:
            EnvironmentStartError: The path is missing, or leads elsewhere.
        """
        if (now := real(self.path)) != self.source:
            raise EnvironmentStartError(
                f"{self.name}: {self.path} led to {self.source}, and now leads to {now}; check the change, and "
                "create a new environment"
            )
        if not exists(self.source):
            raise EnvironmentStartError(f"{self.name}: {self.path} does not exist, and a sandbox cannot show it")


@dataclass(frozen=True, slots=True)
class Mounts:
    """The mounts of one sandbox."""

    writable: tuple[SharedPath, ...]
    """The working directory, and other writable paths."""
    read_only: tuple[SharedPath, ...]
    network: bool
    """True if the sandbox shares the machine's network."""

    @classmethod
    def of(cls, settings: EnvironmentSettings) -> Mounts:
        """Plan the mounts of a sandbox. Paths are resolved now, and only checked for later sandboxes.

        Raises:
            SettingsError: A path cannot be shown.
        """
        own = BubblewrapSettings.of(settings)
        named = settings.cwd or ""
        cwd = named if named.startswith(("/", "~")) else str(_working_directory() / named)
        writable = [("cwd (TERMINAL_CWD)", cwd), *(("backend 'bubblewrap': paths", path) for path in own.paths)]
        return cls(
            tuple(SharedPath.of(name, path) for name, path in writable),
            tuple(SharedPath.of("backend 'bubblewrap': read_only_paths", path) for path in own.read_only_paths),
            own.network == "full",
        )

    def options(self) -> list[str]:
        """Return bubblewrap's options for the mounts.

        Raises:
            EnvironmentStartError: A path of the settings no longer exists.
        """
        for shown in (*self.writable, *self.read_only):
            shown.check()
        # The last entry of a path counts. A path within another is mounted after the outer one.
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
            if path != source and not is_within(path, bound):  # inside a mount the link itself is visible
                entries[path] = ["--symlink", str(source), str(path)]
        ordered = [word for path in sorted(entries) for word in entries[path]]
        first = [*_kernel(), "--symlink", "/run", "/var/run"]
        return [*first, *ordered, "--remount-ro", "/", "--chdir", str(self.writable[0].source)]

    def _in_memory(self) -> _Entries:
        entries = {path: ["--perms", "1777", "--tmpfs", str(path)] for path in IN_MEMORY}
        hidden = homes()
        writable = [shown.source for shown in self.writable]
        # A script must not write the settings of the next environment, so an empty directory hides them.
        if is_within(settings_home(), writable) or exists(settings_home()):
            hidden.append(settings_home())
        return entries | {path: ["--perms", "0700", "--tmpfs", str(path)] for path in hidden}

    def _interpreters(self) -> Iterator[Path]:
        """Yield programs in use outside of the system: PATH, our Python, virtual environments.

        In a writable directory they are mounted read-only, too: this process and its user run them later.
        """
        named = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
        paths = [Path(path) for path in (*search_path(), sys.prefix, sys.base_prefix, *named)]
        managers = [home / name for home in homes() for name in VERSION_MANAGERS]
        paths += [manager for manager in managers if any(path.is_relative_to(manager) for path in paths)]
        writable = [shown.source for shown in self.writable]
        excluded = [*homes(), settings_home(), *PRIVATE, *SYSTEM, *writable]
        for path in paths:
            if not path.is_absolute() or not exists(path) or holds_any(real(path), excluded):
                continue
            if not is_within(real(path), SYSTEM) or is_within(real(path), writable):
                yield path


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise EnvironmentStartError(
            "backend 'bubblewrap': this process's working directory no longer exists, and a sandbox cannot show it; "
            "set cwd (TERMINAL_CWD)"
        ) from None


def _bind(option: str, path: Path) -> _Entries:
    return {path: [option, str(path), str(path)]}


def _kernel() -> list[str]:
    """Return the options for `/proc` and `/dev`. The kernel's settings are read-only, also for root.

    bubblewrap protects some of them, but as root not `/proc/sys`.
    """
    names = ["sys"]
    if os.geteuid() == 0:
        with os.scandir(_PROC) as found:
            entries = [entry for entry in found if not (entry.name.isdigit() or entry.is_symlink())]
        names = sorted(entry.name for entry in entries if entry.is_dir() or entry.stat().st_mode & 0o222)
    covers = [word for name in names for word in ("--ro-bind", f"{_PROC}/{name}", f"{_PROC}/{name}")]
    return ["--proc", str(_PROC), *covers, "--dev", "/dev"]


def _system() -> _Entries:
    entries: _Entries = {}
    for path in SYSTEM:
        if path.is_symlink():
            entries[path] = ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            entries |= _bind("--ro-bind", path)
    if os.geteuid() == 0:
        for path in _private_to_root(Path("/etc")):
            mask = ["--perms", "0000", "--tmpfs"] if path.is_dir() else ["--ro-bind", "/dev/null"]
            entries[path] = [*mask, str(path)]
    return entries


def _private_to_root(folder: Path) -> Iterable[Path]:
    """Yield files for root only: passwords and host keys. Root can read them even without capabilities."""
    with os.scandir(folder) as found:
        for entry in found:
            mode = entry.stat(follow_symlinks=False).st_mode
            needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
            if not stat.S_ISLNK(mode) and mode & needed != needed:
                yield Path(entry.path)
            elif stat.S_ISDIR(mode):
                yield from _private_to_root(Path(entry.path))


def homes() -> list[Path]:
    """Return the user's homes: HOME, and the home of the system's user entry; each with and without links."""
    named = [os.environ.get("HOME", "")]
    with contextlib.suppress(KeyError):  # a user without an entry, such as in a container
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    paths = [Path(os.path.normpath(name)) for name in named if name.startswith("/")]
    found = dict.fromkeys(place for path in paths for place in (path, real(path)))
    return [path for path in found if not holds_any(path, (*SYSTEM, *PRIVATE))]  # the home of some services is /


def settings_home() -> Path:
    """Return `HERMES_HOME` without links. Files there decide about permissions."""
    return real(hermes_home())


def real(path: Path) -> Path:
    """Resolve links. Missing or unreadable parts are unchanged."""
    return Path(os.path.realpath(path))


def exists(path: Path) -> bool:
    """Return True if a path exists, as far as this user can see."""
    return os.access(path, os.F_OK)


def holds_any(path: Path, others: Iterable[Path]) -> bool:
    """Return True if a path equals or contains any of the others."""
    return any(other.is_relative_to(path) for other in others)


def is_within(path: Path, others: Iterable[Path]) -> bool:
    """Return True if a path equals or lies in any of the others."""
    return any(path.is_relative_to(other) for other in others)


def search_path() -> list[str]:
    """Return the directories of PATH, and last that of our Python: there may be no other Python."""
    ours = [str(Path(sys.executable).parent)] if sys.executable else []
    return [*os.environ.get("PATH", os.defpath).split(os.pathsep), *ours]


def passed_variables() -> dict[str, str]:
    """Return the variables of processes in the sandbox."""
    here = variables_named(VARIABLES)
    return {"PATH": os.pathsep.join(search_path()), "HOME": str([*homes(), Path("/tmp")][0]), **here}  # noqa: S108
