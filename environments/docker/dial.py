"""Reaching an engine on another machine: by the docker program there, which joins a stream to the engine's socket."""

from __future__ import annotations

import re

from environments.docker.wire import DialError, StreamSocket
from environments.errors import EnvironmentStartError
from environments.shell.host import Host

NO_PROGRAM = 127
# A shell that nobody logs in to may have less on its PATH than a person sees there. Podman has the same command.
_DIAL = f"""\
PATH=${{PATH:+$PATH:}}/usr/local/bin:/usr/bin:/bin:/snap/bin
for program in docker podman; do
    command -v $program >/dev/null 2>&1 && exec $program system dial-stdio
done
exit {NO_PROGRAM}
"""
_NOT_ALLOWED = re.compile(r"permission denied", re.IGNORECASE)
_NOT_RUNNING = re.compile(r"cannot connect|connection refused|no such file|is the docker daemon running", re.IGNORECASE)
_TOO_OLD = re.compile(r"dial-stdio.*not a|unknown (command|flag)|unrecognized command|usage:", re.IGNORECASE)


def dial(host: Host) -> StreamSocket:
    """Return a new connection to the engine of a host, which nothing has been asked over.

    Raises:
        DialError: The host cannot be reached, or no process can be started there.
    """
    try:
        stream = host.open_stream(["/bin/sh", "-c", _DIAL])
    except EnvironmentStartError as error:
        raise DialError(str(error)) from error
    return StreamSocket(stream, lambda exit_code, said: _complaint(host, exit_code, said))


def _complaint(host: Host, exit_code: int | None, said: str) -> str:
    """Say why no engine answers there, and what helps."""
    if exit_code is None:
        return host.target_loss() or f"the link to {host.place} dropped"
    user = host.place.partition("@")[0]
    said = " ".join(said.split())
    if exit_code == NO_PROGRAM and not said:
        return (
            f"there is no docker on {host.place}, whose program leads to the engine; install it there, or put it on "
            "the PATH that a command over SSH has"
        )
    if _NOT_ALLOWED.search(said):
        return (
            f"user {user} may not use the engine of {host.place} ({said}): add the user to the group docker there "
            f"(sudo usermod -aG docker {user}), or run an engine of the user's own (rootless Docker or Podman)"
        )
    if _NOT_RUNNING.search(said):
        return f"the engine of {host.place} does not answer ({said}); start it there"
    if _TOO_OLD.search(said):
        return f"docker on {host.place} has no `docker system dial-stdio` ({said}); have version 18.09 or later there"
    return f"the engine of {host.place} does not answer: {said or f'docker ended with exit code {exit_code}'}"
