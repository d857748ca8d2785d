"""The charts: growth with the number of environments, the size of results and the distance."""
