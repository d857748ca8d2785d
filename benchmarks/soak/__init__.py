"""Soak: very much work on one environment with faults, without growth or leftovers."""
