"""What things cost, beside what they must cost at least on this machine at this moment: `python -m benchmarks`."""
