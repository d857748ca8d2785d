"""Commands in an instance of Singularity or Apptainer."""

from typing import TYPE_CHECKING

from environments.extras import lazy_export
from environments.singularity.settings import SingularitySettings

if TYPE_CHECKING:
    from environments.singularity.environment import SingularityEnvironment
else:
    __getattr__ = lazy_export(__name__, "SingularityEnvironment")

__all__ = ["SingularityEnvironment", "SingularitySettings"]
