from __future__ import annotations

from targets.pool_fixtures import _settings, make, scripted_pool, starts

__all__ = ["_settings", "make", "scripted_pool", "starts"]
