"""Pools of environments that are started ahead and leased."""

from environments.pool.pool import Pool, PoolStats

__all__ = ["Pool", "PoolStats"]
