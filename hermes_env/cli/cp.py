"""`hermes-env cp`: files and directories to a target and from it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from environments.errors import TerminalError
from hermes_env.cli.options import Backend, Cwd, Record, Settings, Verbose, settings_from

if TYPE_CHECKING:
    from environments import BaseEnvironment
    from hermes_env.cli.copying.places import Route
    from hermes_env.cli.streams import LiveOutput


def cp_command(
    source: Annotated[str, typer.Argument(metavar="SRC", help="What to copy; - is standard input.")],
    destination: Annotated[str, typer.Argument(metavar="DST", help="Where to; - is standard output.")],
    *,
    backend: Backend = None,
    cwd: Cwd = None,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Copy a file or a directory to the target, or from it.

    The path that begins with `:` is in the target: `cp data :/srv/data`, `cp :/srv/data/log log`. A relative one is
    taken from where the session starts, and `~` is the home there: `:~/.profile`.

    What goes to a directory that is there goes into it, under its own name; `folder/.` is what is in a folder. Else the
    destination is the copy's own path. Directories that are missing on the way are made. A file is replaced in one
    step. Permissions are copied, and links as links.

    A target that is made for this command ends with it, and the copy too: name one that stays, such as
    `--set container=NAME` or `--set container_persistent=true`.

    The exit code is 130 after Ctrl-C, 141 if nobody reads standard output any more, and 125 for an error.
    """
    from environments.cancellation import CancelScope
    from environments.errors import CallCancelledError
    from environments.result import INTERRUPT_EXIT_CODE
    from hermes_env.cli.copying.places import route_of
    from hermes_env.cli.foreground import run_in_environment
    from hermes_env.cli.streams import BROKEN_PIPE_EXIT_CODE, LiveOutput

    route = route_of(source, destination)
    scope = CancelScope()
    output = LiveOutput(scope.cancel) if route.is_streamed and not route.is_upload else None

    def work(environment: BaseEnvironment) -> None:
        with scope.active():
            _copy(environment, route, output)

    try:
        run_in_environment(
            work,
            scope.cancel,
            lambda: scope.cancelled,
            output,
            backend=backend,
            settings=settings_from(assignments, cwd=cwd, record=record),
            verbose=verbose,
        )
    except CallCancelledError as error:
        left = output is not None and output.reader_left
        raise typer.Exit(BROKEN_PIPE_EXIT_CODE if left else INTERRUPT_EXIT_CODE) from error


def _copy(environment: BaseEnvironment, route: Route, output: LiveOutput | None) -> None:
    from hermes_env.cli.copying.copy import download, upload
    from hermes_env.cli.copying.streams import download_stream, upload_stream

    if output:
        download_stream(environment, route.source, output)
    elif not route.is_upload:
        download(environment, route.source, route.destination)
    elif route.is_streamed:
        upload_stream(environment, _input(), route.destination)
    else:
        upload(environment, route.source, route.destination)
    if route.is_upload and (fate := _fate_of_copy(environment)):
        typer.secho(f"hermes-env: {fate}", fg="yellow", err=True)


def _input() -> int:
    if sys.stdin is None:
        raise TerminalError("standard input is closed, and so nothing can be copied from it")
    return sys.stdin.fileno()


def _fate_of_copy(environment: BaseEnvironment) -> str | None:
    """Say so if the copy goes with a target that ends now; None if that stays."""
    target, settings = environment.target, environment.settings
    joined = getattr(settings.own, target.kind, None)  # a setting has the name of what it names
    if target.kind in ("machine", "host") or settings.container_persistent or joined:
        return None
    return (
        f"what is not in a volume goes with {target.kind} {target.name or target.id}, which was made for this copy "
        f"alone; name one that stays by --set {target.kind}=NAME, or keep it by --set container_persistent=true"
    )
