"""Searching the web and reading pages of it, from here and not from the environment."""
