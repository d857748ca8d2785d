"""Tools to read and write text files of the target, and their treatment of paths."""
