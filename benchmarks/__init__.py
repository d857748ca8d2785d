"""Benchmarks: the cost of each operation beside its raw cost in the same run, `python -m benchmarks`."""
