"""What the exit code of a command means, by the command that decides it."""
