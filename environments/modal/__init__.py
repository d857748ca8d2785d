"""Commands in a sandbox of Modal."""

from typing import TYPE_CHECKING

from environments.extras import lazy_export
from environments.modal.settings import ModalSettings

if TYPE_CHECKING:
    from environments.modal.environment import ModalEnvironment
else:
    __getattr__ = lazy_export(__name__, "ModalEnvironment", extra="modal")

__all__ = ["ModalEnvironment", "ModalSettings"]
