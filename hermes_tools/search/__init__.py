"""Searching for text in files and for files by name, with the same results whatever the target has to search with."""
