"""Environments that are started ahead, and lent to whoever needs one."""

from environments.pool.pool import Pool
from environments.pool.start_limits import StartLimits
from environments.pool.stats import PoolStats

__all__ = ["Pool", "PoolStats", "StartLimits"]
