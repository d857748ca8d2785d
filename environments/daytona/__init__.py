"""Commands in a sandbox of Daytona."""

from typing import TYPE_CHECKING

from environments.daytona.settings import DaytonaSettings
from environments.extras import lazy_export

if TYPE_CHECKING:
    from environments.daytona.environment import DaytonaEnvironment
else:
    __getattr__ = lazy_export(__name__, "DaytonaEnvironment", extra="daytona")

__all__ = ["DaytonaEnvironment", "DaytonaSettings"]
