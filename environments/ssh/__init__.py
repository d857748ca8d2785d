"""Commands on another machine, over SSH."""

from typing import TYPE_CHECKING

from environments.extras import handing_on
from environments.ssh.settings import SSHSettings

if TYPE_CHECKING:
    from environments.ssh.environment import SSHEnvironment
else:
    __getattr__ = handing_on(__name__, "SSHEnvironment", extra="ssh")

__all__ = ["SSHEnvironment", "SSHSettings"]
