"""How many environments one driver of a batch can keep at work: the real driver, and an engine that only takes time."""
