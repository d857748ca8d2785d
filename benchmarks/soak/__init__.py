"""Soak test: very much work on an environment, with faults, without growth or leftovers."""
