"""A command on a terminal of the target, joined to the terminal of standard input."""
