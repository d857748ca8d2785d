"""The capacity of a batch's driver: the real driver, with a simulated engine."""
