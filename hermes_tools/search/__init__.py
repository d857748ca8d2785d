"""Searching for text in files and for files by name, by the programs of the target: ripgrep or grep, and find."""
