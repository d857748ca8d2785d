"""Environments that are started ahead, and lent to whoever needs one."""

from environments.pool.keeper import PoolStats
from environments.pool.pool import Pool

__all__ = ["Pool", "PoolStats"]
