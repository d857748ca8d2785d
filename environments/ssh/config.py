"""Route to a host: the settings, on top of the SSH client's own configuration files."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from environments.errors import SettingsError
from environments.ssh.settings import SSHSettings

CONFIG_FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
USER_KNOWN_HOSTS = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
DEFAULT_PORT = 22
INCLUDE_DEPTH = 16
"""Limit of nested Include files, as in OpenSSH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A host, with the login and the jump hosts."""

    host: str
    """Name or address to connect to."""
    port: int
    user: str
    key_files: tuple[Path, ...] = ()
    """Private keys that are offered first."""
    other_keys: bool = True
    """True if the agent's keys may be offered too."""
    known_hosts: tuple[Path, ...] = ()
    """Files of known host keys. New keys are added to the first file."""
    accept_new: bool = True
    """True if an unknown host is accepted and added."""
    host_key_name: str | None = None
    """Name for the lookup of the host key, if it differs from the host's name."""
    proxy_command: str | None = None
    """ProxyCommand: a command with its input and output connected to the server."""
    via: Route | None = None
    """Host to connect through (ProxyJump)."""

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"

    @property
    def known_as(self) -> tuple[str, int]:
        """Name and port for the lookup of the host key. With an alias, the port is ignored."""
        return (self.host_key_name, DEFAULT_PORT) if self.host_key_name else (self.host, self.port)


def resolve(settings: SSHSettings) -> Route:
    """Return the route to the host of the settings.

    Raises:
        SettingsError: There is no host, or a configuration file is not understood.
    """
    if not settings.host:
        raise SettingsError("backend 'ssh' needs a host: set TERMINAL_SSH_HOST, or give the argument host")
    _check_host(settings.host)
    config = Path(settings.config).expanduser() if settings.config else None
    if config and not config.is_file():
        raise SettingsError(f"backend 'ssh': there is no file {config}; set config (TERMINAL_SSH_CONFIG) to a file")
    key = Path(settings.key).expanduser() if settings.key else None
    if key and not key.is_file():
        raise SettingsError(f"backend 'ssh': there is no file {key}; set key (TERMINAL_SSH_KEY) to a private key")
    files = [config] if config else [Path(name).expanduser() for name in CONFIG_FILES]
    # Each file begins with a block of its own: the last block of the file before ends there.
    text = "\n".join(line for file in files for line in ("Host *", *_lines(file)))
    return _route(text, settings.host, user=settings.user, port=settings.port, key=key)


def _split(place: str) -> tuple[str, str, str]:
    """Split `[ssh://][user@]host[:port]` into user, host and port; missing parts are empty."""
    user, _, place = place.removeprefix("ssh://").rpartition("@")
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]") or (":" in host and not host.endswith("]")):  # colons of an IPv6 address
        host, port = place, ""
    return user, host.strip("[]"), port


def _check_host(given: str) -> None:
    """Refuse a host with a user, a port or a scheme: these have settings of their own."""
    user, host, port = _split(given)
    if given.strip("[]") == host:
        return
    user, _, password = user.partition(":")
    if password:
        given = given.replace(f":{password}@", ":...@")
    values = {"HOST": host, "USER": user, "PORT": port, "PASSWORD": password and "..."}
    instead = " ".join(f"TERMINAL_SSH_{name}={value}" for name, value in values.items() if value)
    raise SettingsError(f"backend 'ssh': host is {given!r}, and should be the host alone; set {instead}")


def _route(
    text: str,
    name: str,
    *,
    user: str | None = None,
    port: int | None = None,
    key: Path | None = None,
    via: Route | None = None,
    above: tuple[str, ...] = (),
) -> Route:
    options = _lookup(text, name, user, port)
    jumps = options.get("proxyjump", "none")
    command = options.get("proxycommand")
    if via is None and jumps.lower() != "none":
        for jump in jumps.split(","):
            via = _jump(text, jump.strip(), via, (*above, name))
    key_files = [Path(path).expanduser() for path in options.get("identityfile", ())]
    known_hosts = [
        *options.get("userknownhostsfile", USER_KNOWN_HOSTS).split(),
        *options.get("globalknownhostsfile", SYSTEM_KNOWN_HOSTS).split(),
    ]
    return Route(
        host=options["hostname"],
        port=int(options.get("port", DEFAULT_PORT)),
        user=options.get("user") or getpass.getuser(),
        key_files=(*([key] if key else []), *(path for path in key_files if path.is_file())),
        other_keys=options.get("identitiesonly", "no").lower() != "yes",
        known_hosts=tuple(Path(file).expanduser() for file in known_hosts if file.lower() != "none"),
        accept_new=options.get("stricthostkeychecking", "ask").lower() not in ("yes", "true"),
        host_key_name=options.get("hostkeyalias"),
        proxy_command=None if via or command is None or command.lower() == "none" else command,
        via=via,
    )


def _jump(text: str, jump: str, via: Route | None, above: tuple[str, ...]) -> Route | None:
    """Return the route to a ProxyJump host. A ProxyJump under `Host *` applies to all hosts except that host."""
    user, host, port = _split(jump)
    if port and not port.isdigit():
        raise SettingsError(f"ProxyJump {jump!r} has no valid port; write it as user@host:port")
    if host in above:
        return via
    return _route(text, host, user=user or None, port=int(port) if port else None, via=via, above=above)


def _lookup(text: str, name: str, user: str | None, port: int | None) -> paramiko.SSHConfigDict:
    # The first value of most options counts. Ours come first, and so %p and %r in a ProxyCommand have them, too.
    first = ["Host *", *([f"User {user}"] if user else []), *([f"Port {port}"] if port else [])]
    try:
        return paramiko.SSHConfig.from_text("\n".join([*first, text])).lookup(name)
    except (paramiko.SSHException, ImportError, ValueError, KeyError) as error:
        raise SettingsError(
            f"backend 'ssh': the SSH client's configuration for host {name!r} cannot be used: {error}; "
            "correct it, or set TERMINAL_SSH_CONFIG to another file"
        ) from None


def _lines(path: Path, depth: int = 0) -> Iterator[str]:
    """Yield a file's lines, with Include files in place: paramiko ignores Include."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"backend 'ssh': the configuration {path} cannot be read: {error}") from None
    block = "Host *"
    for line in lines:
        words = line.replace("=", " ", 1).split()
        keyword = words[0].lower() if words else ""
        if keyword in ("host", "match"):
            block = line
        if keyword != "include":
            yield line
            continue
        if depth >= INCLUDE_DEPTH:
            raise SettingsError(f"{path}: more than {INCLUDE_DEPTH} files include one another; remove the circle")
        for pattern in words[1:]:  # relative to the directory of OpenSSH's file
            full = path.parent / Path(pattern.strip('"')).expanduser()
            for included in sorted(Path(full.anchor).glob(str(full.relative_to(full.anchor)))):
                yield from _lines(included, depth + 1)
                yield block  # the included file may have ended the block
