"""The shell text that waits in the target for requests and brings them, and the reading of what it prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from environments.errors import TerminalError
from rpc.messages import MAX_MESSAGE_BYTES

AT_ONCE = 16
"""How many requests one command brings at most, where it brings what it finds at one look and ends."""
IN_ALL = 256
"""How many one command brings at most, where it goes on looking: what it has brought is noted as long as it runs."""
SMALL_REQUEST = 8 * 1024
"""Bytes up to which bash reads a request itself, which is quicker than a program that does."""
MAX_COLLECTED = MAX_MESSAGE_BYTES + 1024 * 1024
"""Characters that one request may have on its way here."""
_LONGEST_NUMBER = 300

# - Names that aren't numbers are passed over: printing one would only bring it back for ever.
# - What isn't a regular file comes as an empty request, so that it gets its error answer, and is removed.
# - The pipe is opened before the first scan: a script renames its request into place before it writes to the
#   pipe, so whatever the scan misses wakes the read. `read -t`, which only bash has, is a net under that.
# - `stop` is told through the pipe and is a file, for where there is none: a queue that is being removed may lose the
#   file before it is looked for.
# - A process costs more than all else here, so that none is started for a request in bash, and `head` in other shells.
# - Descriptors from 7 on belong to the shell that runs this.
_COLLECT = """\
cd {queue} && {{
rm -rf {files} || sleep 0.5
LC_ALL=C
if [ -p wake ]; then exec 5<>wake; hermes_wake=y; else hermes_wake=; fi
hermes_taken=' {numbers} '
hermes_room={room}
while [ "$hermes_room" -gt 0 ] && [ ! -e stop ] && [ . -ef {queue} ]; do
  hermes_there=' ' hermes_before=$hermes_room
  for hermes_file in req_*; do
    hermes_number=${{hermes_file#req_}}
    case $hermes_number in '' | *[!0123456789]*) continue ;; esac
    [ -e "$hermes_file" ] || [ -L "$hermes_file" ] || continue
    hermes_there="$hermes_there$hermes_number "
    case $hermes_taken in *" $hermes_number "*) continue ;; esac
    hermes_line= hermes_large=
    if [ ! -f "$hermes_file" ]; then rm -rf "$hermes_file"
    elif [ -z "$BASH_VERSION" ]; then hermes_large=y
    else
      IFS= read -r -N {small} hermes_line <"$hermes_file"
      [ "${{#hermes_line}}" -lt {small} ] || hermes_large=y
    fi 2>/dev/null
    if [ -z "$hermes_large" ]; then
      printf '\\n%s %s\\n%s\\n%s .\\n' {nonce} "$hermes_number" "$hermes_line" {nonce}
      hermes_room=$((hermes_room - 1))
    else
      printf '\\n%s %s\\n' {nonce} "$hermes_number"
      head -c {limit} "$hermes_file" 2>/dev/null
      printf '\\n%s .\\n' {nonce}
      hermes_room=$((hermes_room - {room} / {at_once}))
    fi
    [ "$hermes_room" -gt 0 ] || break
  done
  hermes_taken=$hermes_there
  if [ "$hermes_room" -lt "$hermes_before" ]; then {having_found}
  elif [ -z "$hermes_wake" ]; then sleep 0.05 2>/dev/null || sleep 1
  else
    hermes_line=
    if [ -n "$BASH_VERSION" ]; then read -r -t 30 -u 5 hermes_line; else read -r hermes_line <&5; fi
    [ "$hermes_line" != stop ] || break
  fi
done
printf '\\n%s end\\n' {nonce}
}}
"""


def collecting_command(queue: str, taken: Sequence[str], nonce: str, goes_on: bool) -> str:
    """Return the command that waits for requests, and prints them.

    Args:
        queue: The directory of the request files.
        taken: Numbers of requests that were brought before; their files are removed first. Because that is
            only done now, a request that got lost on its way here is still there.
        nonce: A word that tells what the command says itself from what requests hold.
        goes_on: Whether it waits for more once it has brought something, or ends then.
    """
    return _COLLECT.format(
        queue=shlex.quote(queue),
        files=" ".join(f"req_{number}" for number in taken) or "req_",
        numbers=" ".join(taken),
        nonce=nonce,
        limit=MAX_MESSAGE_BYTES + 1,
        small=SMALL_REQUEST,
        room=IN_ALL if goes_on else AT_ONCE,
        at_once=AT_ONCE,
        having_found=":" if goes_on else "break",
    )


class CollectedRequest(NamedTuple):
    """A request as it was brought."""

    number: str
    line: bytes


class GarbledError(TerminalError):
    """What was brought is not what the collecting command prints."""


class CollectedRequests:
    """Cuts what the collecting command prints into requests, without any I/O.

    A script may write to where the command prints, so that nothing of it is trusted.

    Args:
        nonce: The word that the command was given.

    Attributes:
        ended: Whether the command has said that it ends.
    """

    def __init__(self, nonce: str) -> None:
        self.ended = False
        self._mark = f"\n{nonce} "
        self._number: str | None = None
        self._held: list[str] = []
        self._size = 0
        self._rest = ""

    def feed(self, piece: str) -> Iterator[CollectedRequest]:
        """Take what was printed next, and go through the requests that it completes.

        Raises:
            GarbledError: It is no request of ours, or too much for one.
        """
        text = self._rest + piece
        while (at := text.find(self._mark)) >= 0:
            word, newline, behind = text[at + len(self._mark) :].partition("\n")
            if len(word) > _LONGEST_NUMBER:
                raise GarbledError
            if not newline:
                break
            self._hold(text[:at])
            if self._number is not None and word == ".":
                yield CollectedRequest(self._number, "".join(self._held).encode())
            self.ended = self.ended or word == "end"
            # It becomes a part of shell text.
            self._number = word if word.isascii() and word.isdigit() else None
            self._held, self._size = [], 0
            text = behind
        else:
            at = max(0, len(text) - len(self._mark) + 1)
        self._hold(text[:at])
        self._rest = text[at:]

    def _hold(self, text: str) -> None:
        """Keep a part of a request. What stands between two of them is nobody's."""
        if self._number is None:
            return
        self._held.append(text)
        self._size += len(text)
        if self._size > MAX_COLLECTED:
            raise GarbledError
