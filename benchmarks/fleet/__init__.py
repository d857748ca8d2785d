"""The capacity of the driver of a batch: the real driver, and an engine that only spends time."""
