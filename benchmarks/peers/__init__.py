"""Other packages (peers), each in its own virtual environment: a process that times its work on request."""
