"""Costs of operations in units that do not depend on the machine."""
