"""Settings of backend `ssh`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Self
from urllib.parse import urlsplit

from environments.errors import SettingsError
from environments.settings import NOT_IN_FILE, BackendSettings

if TYPE_CHECKING:
    from pydantic import Field, SecretStr


@dataclass(frozen=True, slots=True, kw_only=True)
class SSHSettings(BackendSettings):
    """Settings of backend `ssh`. The backend enforces no limits."""

    prefix: ClassVar[str] = "ssh_"
    carries: ClassVar[bool] = True

    host: str | None = None
    """Host name, address, or a `Host` of the SSH configuration; required."""
    user: str | None = None
    """User to log in as; the SSH configuration's choice if not set."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the SSH server; the configuration's choice, then 22, if not set."""
    key: str | None = None
    """Path of the private key here, offered before any other."""
    config: str | None = None
    """SSH configuration file here; `~/.ssh/config`, then `/etc/ssh/ssh_config` if not set."""
    password: SecretStr | None = field(default=None, metadata=NOT_IN_FILE)
    """Password of the user. Refused in `config.yaml`."""
    passphrase: SecretStr | None = field(default=None, metadata=NOT_IN_FILE)
    """Passphrase of the private key. Refused in `config.yaml`."""

    def at(self, url: str) -> Self:
        # Another host keeps the configured settings, except for the user, the port and the password.
        try:
            parts = urlsplit(url)
            host, user, port = parts.hostname, parts.username, parts.port
        except ValueError as error:
            why = f"the host of an engine cannot be understood ({error}); write it as ssh://user@host:port"
            raise SettingsError(why) from None
        if not host or parts.password or parts.path.strip("/") or parts.query:
            raise SettingsError("an engine's host is written as ssh://user@host:port, without a password or a path")
        same = host == self.host
        return replace(
            self,
            host=host,
            user=user or (self.user if same else None),
            port=port or (self.port if same else None),
            password=self.password if same else None,
        )
