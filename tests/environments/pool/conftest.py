from __future__ import annotations

from targets.pool_fixtures import _settings, make, mood, moody

__all__ = ["_settings", "make", "mood", "moody"]
