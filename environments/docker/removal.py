"""The removal of a container, which others may remove at the same time."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from docker.errors import APIError, NotFound

if TYPE_CHECKING:
    from docker import APIClient

REMOVAL_TIMEOUT = 10.0
"""Seconds that somebody else's removal of a container may take."""
_POLL = 0.05
_CONFLICT = 409


def remove(api: APIClient, container: str) -> None:
    """Remove a container, if it is there. Where somebody else has begun to, such as another `gc`, wait for that.

    Raises:
        APIError: The engine refused.
    """
    with contextlib.suppress(NotFound):
        try:
            api.remove_container(container, force=True, v=True)
        except APIError as error:
            if error.status_code == _CONFLICT:
                _look_until_it_is_gone(api, container)
            raise


def _look_until_it_is_gone(api: APIClient, container: str) -> None:
    """Wait for a removal. Returns when it takes too long.

    Raises:
        NotFound: The container is gone.
    """
    deadline = time.monotonic() + REMOVAL_TIMEOUT
    while time.monotonic() < deadline:
        api.inspect_container(container)
        time.sleep(_POLL)
