"""The command line: run a command or a script in an environment, and see which backends are ready."""
