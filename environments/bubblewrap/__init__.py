"""Commands on this machine, in a bubblewrap sandbox."""

from typing import TYPE_CHECKING

from environments.bubblewrap.settings import BubblewrapSettings
from environments.extras import lazy_export

if TYPE_CHECKING:
    from environments.bubblewrap.environment import BubblewrapEnvironment
else:
    __getattr__ = lazy_export(__name__, "BubblewrapEnvironment")

__all__ = ["BubblewrapEnvironment", "BubblewrapSettings"]
