from __future__ import annotations

from targets.default_task import env

__all__ = ["env"]
