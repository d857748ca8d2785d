"""The route to a host: the settings, over the SSH client's own configuration files."""

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
"""Files that include one another, as OpenSSH limits them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One host and the way to it."""

    host: str
    """The name or address to connect to."""
    port: int
    user: str
    key_files: tuple[Path, ...] = ()
    """Private keys to offer before any other."""
    other_keys: bool = True
    """True if keys of the agent may be offered too."""
    known_hosts: tuple[Path, ...] = ()
    """Files of known host keys. A new one is added to the first."""
    accept_new: bool = True
    """True if a host that is in none of them is accepted and added."""
    host_key_name: str | None = None
    """The name to look the host key up by, where it is not that of the host."""
    proxy_command: str | None = None
    """A command whose input and output lead to the server."""
    via: Route | None = None
    """The host to connect through."""

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"

    @property
    def known_as(self) -> tuple[str, int]:
        """The name and the port that the host's key is looked up by. With an alias, the port does not count."""
        return (self.host_key_name, DEFAULT_PORT) if self.host_key_name else (self.host, self.port)


def resolve(settings: SSHSettings) -> Route:
    """Return the route to the host that the settings name.

    Raises:
        SettingsError: They name none, or a configuration file cannot be understood.
    """
    if not settings.host:
        raise SettingsError("backend 'ssh' needs a host: set TERMINAL_SSH_HOST, or give the argument host")
    _check_host(settings.host)
    config = Path(settings.config).expanduser() if settings.config else None
    if config and not config.is_file():
        raise SettingsError(f"backend 'ssh': there is no file {config}; set config (TERMINAL_SSH_CONFIG) to one")
    key = Path(settings.key).expanduser() if settings.key else None
    if key and not key.is_file():
        raise SettingsError(f"backend 'ssh': there is no file {key}; set key (TERMINAL_SSH_KEY) to a private key")
    files = [config] if config else [Path(name).expanduser() for name in CONFIG_FILES]
    # Each begins a block of its own, so that the last of one file does not go on in the next.
    text = "\n".join(line for file in files for line in ("Host *", *_lines(file)))
    return _route(text, settings.host, user=settings.user, port=settings.port, key=key)


def _split(place: str) -> tuple[str, str, str]:
    """Return the user, the host and the port of `[ssh://][user@]host[:port]`; each is empty if it is not given."""
    user, _, place = place.removeprefix("ssh://").rpartition("@")
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]") or (":" in host and not host.endswith("]")):  # an IPv6 address's own colons
        host, port = place, ""
    return user, host.strip("[]"), port


def _check_host(given: str) -> None:
    """Refuse a host with a user, a port or a scheme, which have settings of their own."""
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
    """Return the route to a host of ProxyJump. One under `Host *` holds for all hosts but itself."""
    user, host, port = _split(jump)
    if port and not port.isdigit():
        raise SettingsError(f"ProxyJump {jump!r} has no valid port; write it as user@host:port")
    if host in above:
        return via
    return _route(text, host, user=user or None, port=int(port) if port else None, via=via, above=above)


def _lookup(text: str, name: str, user: str | None, port: int | None) -> paramiko.SSHConfigDict:
    # For most options the first value counts. In front, ours are also what %p and %r in a ProxyCommand become.
    first = ["Host *", *([f"User {user}"] if user else []), *([f"Port {port}"] if port else [])]
    try:
        return paramiko.SSHConfig.from_text("\n".join([*first, text])).lookup(name)
    except (paramiko.SSHException, ImportError, ValueError, KeyError) as error:
        raise SettingsError(
            f"the SSH client's configuration for host {name!r} cannot be used: {error}; "
            "correct it, or set TERMINAL_SSH_CONFIG to another file"
        ) from None


def _lines(path: Path, depth: int = 0) -> Iterator[str]:
    """Yield a file's lines with those of the files it includes. paramiko ignores Include."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the SSH client's configuration {path} cannot be read: {error}") from None
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
        for pattern in words[1:]:  # a relative one is beside OpenSSH's file
            full = path.parent / Path(pattern.strip('"')).expanduser()
            for included in sorted(Path(full.anchor).glob(str(full.relative_to(full.anchor)))):
                yield from _lines(included, depth + 1)
                yield block  # which the included file may have ended
