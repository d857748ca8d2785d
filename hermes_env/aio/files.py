"""The files of a target, awaited."""

from __future__ import annotations

from abc import ABC, abstractmethod

from environments import BaseEnvironment
from hermes_env.aio.calls import awaited


class AsyncFiles(ABC):
    """What an environment does with files of its target, see `environments.target_files.TargetFiles`.

    Cancelled, a transfer ends in the middle and leaves no part of a file.
    """

    @property
    @abstractmethod
    def sync(self) -> BaseEnvironment:
        """The environment beneath."""

    write_bytes = awaited(BaseEnvironment.write_bytes)
    """Write a file in the target, replacing it in one step, see `TargetFiles.write_bytes`."""
    read_bytes = awaited(BaseEnvironment.read_bytes)
    """Return a file of the target, or its beginning, see `TargetFiles.read_bytes`."""
    put_file = awaited(BaseEnvironment.put_file)
    """Copy a file from here to the target, see `TargetFiles.put_file`."""
    get_file = awaited(BaseEnvironment.get_file)
    """Copy a file from the target to here, see `TargetFiles.get_file`."""
    put_dir = awaited(BaseEnvironment.put_dir)
    """Copy a directory from here to the target, see `TargetFiles.put_dir`."""
    get_dir = awaited(BaseEnvironment.get_dir)
    """Copy a directory from the target to here, see `TargetFiles.get_dir`."""
    stat = awaited(BaseEnvironment.stat)
    """Return what is known of a path, see `TargetFiles.stat`."""
    list_dir = awaited(BaseEnvironment.list_dir)
    """Return what is in a directory, see `TargetFiles.list_dir`."""
    mkdir = awaited(BaseEnvironment.mkdir)
    """Make a directory, see `TargetFiles.mkdir`."""
    remove = awaited(BaseEnvironment.remove)
    """Remove a file, a link or a directory, see `TargetFiles.remove`."""
    exists = awaited(BaseEnvironment.exists)
    """Return whether there is something at a path, see `TargetFiles.exists`."""
