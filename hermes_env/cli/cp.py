"""`hermes-env cp`: copies files and directories to and from a target."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from environments.base import BaseEnvironment
from environments.errors import CallCancelledError, TerminalError
from hermes_env.cli.copying import CopyRoute, download, download_stream, route_of, upload, upload_stream
from hermes_env.cli.errors import print_message
from hermes_env.cli.foreground import Foreground
from hermes_env.cli.options import Backend, Cwd, Record, Settings, Verbose, settings_from
from hermes_env.cli.streams import BROKEN_PIPE_EXIT_CODE, LiveOutput


def cp_command(
    source: Annotated[str, typer.Argument(metavar="SRC", help="The source; - is standard input.")],
    destination: Annotated[str, typer.Argument(metavar="DST", help="The destination; - is standard output.")],
    *,
    backend: Backend = None,
    cwd: Cwd = None,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Copy a file or a directory to or from the target.

    A path with a leading `:` is in the target: `cp data :/srv/data`, `cp :log log`, `cp :~/.profile -`. The rules are
    those of `cp -R`. Missing parent directories are created.

    A target created for this command is removed at the end, with the copy: name an existing target by
    `--set container=NAME`, or keep the new target by `--set container_persistent=true`.

    Exit codes: 130 Ctrl-C, 141 standard output has no reader, 125 another error, 2 wrong usage or setting.
    """
    route = route_of(source, destination)
    foreground = Foreground()
    output = LiveOutput(foreground.scope.cancel) if route.is_streamed and not route.is_upload else None

    def work(environment: BaseEnvironment) -> None:
        _copy(environment, route, output)

    settings = settings_from(assignments, cwd=cwd, record=record)
    try:
        foreground.run_in_environment(work, output, backend=backend, settings=settings, verbose=verbose)
    except CallCancelledError as error:  # by no signal
        raise typer.Exit(BROKEN_PIPE_EXIT_CODE) from error


def _copy(environment: BaseEnvironment, route: CopyRoute, output: LiveOutput | None) -> None:
    if output:
        download_stream(environment, route.source, output)
    elif not route.is_upload:
        download(environment, route.source, route.destination)
    elif not route.is_streamed:
        upload(environment, route.source, route.destination)
    elif sys.stdin is None:
        raise TerminalError("cannot copy from standard input, because it is closed; redirect it from a file")
    else:
        upload_stream(environment, sys.stdin.fileno(), route.destination)
    if route.is_upload and (warning := _removal_warning(environment)):
        print_message(warning, "yellow")


def _removal_warning(environment: BaseEnvironment) -> str | None:
    """Return a warning if the target, and the copy in it, is removed at the end of the command; None if not."""
    target, settings = environment.target, environment.settings
    joined = getattr(settings.own, target.kind, None)  # the setting for an existing target is named like its kind
    if target.kind in ("machine", "host") or settings.container_persistent or joined:
        return None
    return (
        f"all files outside volumes are removed with {target.kind} {target.name or target.id}, which was made for this "
        f"copy; name an existing one by --set {target.kind}=NAME, or keep it by --set container_persistent=true"
    )
