"""What can be set of a host that is reached over SSH."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from environments.settings import NOT_IN_FILE, BackendSettings

if TYPE_CHECKING:
    from pydantic import Field, SecretStr


@dataclass(frozen=True, slots=True, kw_only=True)
class SSHSettings(BackendSettings):
    """The settings of backend `ssh`. It holds no limits."""

    prefix: ClassVar[str] = "ssh_"

    host: str | None = None
    """Host name or address, or a `Host` of the SSH client's configuration; needed."""
    user: str | None = None
    """User to log in as; the SSH client's own choice if not set."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the SSH server; 22 if nothing else says so."""
    key: str | None = None
    """Path of the private key here, which is offered before any other."""
    config: str | None = None
    """The SSH client's configuration file here; `~/.ssh/config`, then `/etc/ssh/ssh_config` if not set."""
    password: SecretStr | None = field(default=None, metadata=NOT_IN_FILE)
    """Password to log in with. Refused in `config.yaml`."""
    passphrase: SecretStr | None = field(default=None, metadata=NOT_IN_FILE)
    """Passphrase of the private key. Refused in `config.yaml`."""
