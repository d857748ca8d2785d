"""Copying files and directories between this machine and a target."""
