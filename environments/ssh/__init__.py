"""Commands on another machine, over SSH."""

from typing import TYPE_CHECKING

from environments.extras import lazy_export
from environments.ssh.settings import SSHSettings

if TYPE_CHECKING:
    from environments.ssh.environment import SSHEnvironment
else:
    __getattr__ = lazy_export(__name__, "SSHEnvironment", extra="ssh")

__all__ = ["SSHEnvironment", "SSHSettings"]
