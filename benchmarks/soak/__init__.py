"""Very much work on one environment, with faults all along: nothing may grow, and nothing may be left."""
