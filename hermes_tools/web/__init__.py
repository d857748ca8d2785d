"""Searches and pages of the web, from this machine and not from the environment."""
