"""Environments that are started ahead, and lent."""

from environments.pool.pool import Pool, PoolStats

__all__ = ["Pool", "PoolStats"]
