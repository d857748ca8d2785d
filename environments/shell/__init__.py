"""One warm shell over one duplex stream: its session, pool and output, ending a process tree, and files through it."""
