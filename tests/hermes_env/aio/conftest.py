from __future__ import annotations

from targets.aio_fixtures import _no_settings_of_the_user, anyio_backend, env, work

__all__ = ["_no_settings_of_the_user", "anyio_backend", "env", "work"]
