"""Commands in a sandbox of Modal."""

from typing import TYPE_CHECKING

from environments.extras import handing_on
from environments.modal.settings import ModalSettings

if TYPE_CHECKING:
    from environments.modal.environment import ModalEnvironment
else:
    __getattr__ = handing_on(__name__, "ModalEnvironment", extra="modal")

__all__ = ["ModalEnvironment", "ModalSettings"]
