"""Commands on this machine, in a sandbox that bubblewrap makes."""

from typing import TYPE_CHECKING

from environments.bubblewrap.settings import BubblewrapSettings
from environments.extras import handing_on

if TYPE_CHECKING:
    from environments.bubblewrap.environment import BubblewrapEnvironment
else:
    __getattr__ = handing_on(__name__, "BubblewrapEnvironment")

__all__ = ["BubblewrapEnvironment", "BubblewrapSettings"]
