"""Other packages, each in an environment of its own: a process that times its own work on request."""
