"""A warm shell over a duplex stream: sessions, shell pool, one-shots, the end of a process tree, file transfer."""
