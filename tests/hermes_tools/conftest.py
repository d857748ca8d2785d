from __future__ import annotations

from targets.tool_fixtures import env

__all__ = ["env"]
