"""Who searches the web: a module for each, and how one is chosen."""
