"""Commands in a sandbox of Daytona."""

from typing import TYPE_CHECKING

from environments.daytona.settings import DaytonaSettings
from environments.extras import handing_on

if TYPE_CHECKING:
    from environments.daytona.environment import DaytonaEnvironment
else:
    __getattr__ = handing_on(__name__, "DaytonaEnvironment", extra="daytona")

__all__ = ["DaytonaEnvironment", "DaytonaSettings"]
