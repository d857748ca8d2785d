"""Searching for text in files and for files by name, by what the target has: ripgrep or grep, and find."""
