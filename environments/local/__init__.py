"""Commands on this machine."""

from typing import TYPE_CHECKING

from environments.extras import lazy_export
from environments.local.settings import LocalSettings

if TYPE_CHECKING:
    from environments.local.environment import LocalEnvironment
else:
    __getattr__ = lazy_export(__name__, "LocalEnvironment")

__all__ = ["LocalEnvironment", "LocalSettings"]
