"""Commands on this machine."""

from typing import TYPE_CHECKING

from environments.extras import handing_on
from environments.local.settings import LocalSettings

if TYPE_CHECKING:
    from environments.local.environment import LocalEnvironment
else:
    __getattr__ = handing_on(__name__, "LocalEnvironment")

__all__ = ["LocalEnvironment", "LocalSettings"]
