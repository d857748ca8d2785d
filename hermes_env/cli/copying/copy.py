"""Copying by the rules of cp(1): into a directory that is there, under the name that the source has."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from environments.base import BaseEnvironment
from environments.errors import TargetFileNotFoundError, TerminalError
from environments.files import FileStatus
from hermes_env.cli.copying.places import place_in


def upload(environment: BaseEnvironment, source: str, destination: str) -> None:
    """Copy a file or a directory of this machine to the target.

    Args:
        environment: Where to.
        source: Its path here.
        destination: A path there. If that is a directory, or for a file ends in a slash, the copy goes into it.

    Raises:
        TerminalError: It could not be copied, or not all of it.
    """
    is_directory = stat.S_ISDIR(_status_here(source).st_mode)
    there = status_there(environment, destination)
    if (there and there.is_dir) or (destination.endswith("/") and not is_directory):
        destination = place_in(destination, source)
    copy = environment.put_dir if is_directory else environment.put_file
    try:
        copy(source, destination)
    except TerminalError:
        raise
    except OSError as error:
        raise TerminalError(f"cannot copy {source}: {error.strerror or error}") from error


def download(environment: BaseEnvironment, source: str, destination: str) -> None:
    """Copy a file or a directory of the target to this machine. Arguments and errors are as for `upload`."""
    is_directory = environment.stat(source).is_dir
    if Path(destination).is_dir() or (destination.endswith("/") and not is_directory):
        destination = place_in(destination, source)
    copy = environment.get_dir if is_directory else environment.get_file
    try:
        copy(source, destination)
    except TerminalError:
        raise
    except OSError as error:
        raise TerminalError(f"cannot write {destination}: {error.strerror or error}") from error


def status_there(environment: BaseEnvironment, path: str) -> FileStatus | None:
    """Return what is at a path of the target, None if nothing is."""
    try:
        return environment.stat(path)
    except TargetFileNotFoundError:
        return None


def _status_here(path: str) -> os.stat_result:
    try:
        return os.stat(path)  # noqa: PTH116  # a Path has no slash at its end, which a file may not have
    except OSError as error:
        raise TerminalError(f"cannot read {path}: {error.strerror or error}") from error
