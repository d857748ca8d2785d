"""`hermes-env cp`: files and directories to a target and from it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from environments.base import BaseEnvironment
from environments.errors import CallCancelledError, TerminalError
from hermes_env.cli.copying import Route, download, download_stream, route_of, upload, upload_stream
from hermes_env.cli.errors import tell
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
    """Copy a file or a directory to the target, or from it.

    The path that begins with `:` is in the target: `cp data :/srv/data`, `cp :log log`, `cp :~/.profile -`. The rules
    are those of `cp -R`, and directories that are missing on the way are made.

    A target that is made for this command ends with it, and the copy too: name one that stays by
    `--set container=NAME`, or keep it by `--set container_persistent=true`.

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


def _copy(environment: BaseEnvironment, route: Route, output: LiveOutput | None) -> None:
    if output:
        download_stream(environment, route.source, output)
    elif not route.is_upload:
        download(environment, route.source, route.destination)
    elif not route.is_streamed:
        upload(environment, route.source, route.destination)
    elif sys.stdin is None:
        raise TerminalError("standard input is closed, and so nothing can be copied from it")
    else:
        upload_stream(environment, sys.stdin.fileno(), route.destination)
    if route.is_upload and (fate := _fate_of_copy(environment)):
        tell(fate, "yellow")


def _fate_of_copy(environment: BaseEnvironment) -> str | None:
    """Return a warning if the copy is removed with a target that ends now; None if that stays."""
    target, settings = environment.target, environment.settings
    joined = getattr(settings.own, target.kind, None)  # the setting that names a target has its kind as its name
    if target.kind in ("machine", "host") or settings.container_persistent or joined:
        return None
    return (
        f"what is not in a volume goes with {target.kind} {target.name or target.id}, which was made for this copy "
        f"alone; name one that stays by --set {target.kind}=NAME, or keep it by --set container_persistent=true"
    )
