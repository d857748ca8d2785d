"""Shell text with which the shell of a script asks a server for a fork of it, and waits for its end.

The shell stands for the script: it has its marker, its leash, its directory and its output, of all of which the fork
takes its own. Until the shell has said that the script begins, it just ends when anything is not as it should be, and
the script is started without a server. Only builtins are used, so that no value shows in a process list.
"""

from __future__ import annotations

import json
import shlex
from typing import NamedTuple

from code_execution.beginning import TOOLS_WANTED

PIPES = ("in", "go")
"""The pipes in a script's directory: what the shell is told, and with what it has the script begin."""
SECRET = "secret"  # noqa: S105  # a file's name
KEEP = "keep"
"""A file that says that the directory is removed by somebody else."""
WITHDRAWN = "withdrawn"
IN_VAIN = 79
"""Exit code of a shell that has asked in vain."""
NOT_ASKED = 1
"""That of one that has not, as the session's directory is gone."""


class Server(NamedTuple):
    """A server that has said that it is ready."""

    directory: str
    pid: int
    number: int
    """Which of the candidates its Python is."""


def job_text(word: str, mode: str, arguments: list[str], candidates: tuple[str, ...], search: str) -> str:
    """Return what the server is to know, but for the variables."""
    return json.dumps({"word": word, "mode": mode, "arguments": arguments, "candidates": candidates, "search": search})


def asking(server: Server, directory: str, job: str, variables: str, word: str) -> str:
    """Return that text.

    Args:
        server: Who is asked.
        directory: That of the script, with its files and `PIPES`.
        job: See `job_text`.
        variables: Shell text that makes what the script sees the shell's arguments.
        word: With which our side is told that the script begins.
    """
    place, pipe = shlex.quote(directory), shlex.quote(f"{server.directory}/ask")
    # The line break in front ends what somebody may have left there. The pipes are opened for both, which never waits;
    # the second time `in` is opened so that the death of who speaks there is its end, and not if it was taken away.
    # A process that has ended is in /proc until somebody waits for it, but has no program any more.
    return f"""\
read -r hermes_me hermes_rest </proc/self/stat && [ -p {pipe} ] && [ -e /proc/{server.pid}/exe ] || exit {IN_VAIN}
{variables}IFS=' '
printf '%s\\0' {shlex.quote(job)} "$@" >{place}/job && exec 3<>{place}/in 4<>{place}/go 9<>{pipe} || exit {IN_VAIN}
printf '\\n%s\\n' "$hermes_me "{place} >&9
exec 9>&-
read -r hermes_said <&3 && [ "$hermes_said" = taken ] && exec 9<{place}/in || exit {IN_VAIN}
exec 3<&-
trap '' TERM INT HUP QUIT USR1 USR2
printf '\\036{word} +\\n' >&2
printf g >&4
exec 4>&-
while read -r hermes_code hermes_said <&9; do
  case $hermes_code in
    [0-9]*) printf '\\036{word} %s\\n' "$hermes_said" >&2; exit "$hermes_code" ;;
    {TOOLS_WANTED}) printf '\\036{word} {TOOLS_WANTED}\\n' >&2 ;;
  esac
done
exit 137
"""


def withdrawing(directory: str) -> str:
    """Return shell text that withdraws what was asked for, unless the script has begun: its shell then ends."""
    place = shlex.quote(directory)
    return f"mv -- {place}/in {place}/{WITHDRAWN} && printf 'cold\\n' 1<>{place}/{WITHDRAWN}"
