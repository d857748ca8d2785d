"""The shell text that waits in the target for requests and brings them, and the reading of what it prints."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rpc.messages import MAX_MESSAGE_BYTES

REQUESTS_AT_ONCE = 16
"""How many requests one command brings at most; the rest is brought by the next one."""

# - Names that aren't numbers are passed over: printing one would only bring it back for ever.
# - What isn't a regular file comes as an empty request, so that it gets its error answer.
# - The pipe is opened before the first scan: a script renames its request into place before it writes to the
#   pipe, so whatever the scan misses wakes the read. `read -t`, which only bash has, is a net under that.
# - Descriptors from 7 on belong to the shell that runs this.
_COLLECT = """\
cd {queue} && {{
rm -rf {taken} || sleep 0.5
if [ -p wake ]; then exec 5<>wake; hermes_wake=y; else hermes_wake=; fi
hermes_found=0
while [ "$hermes_found" = 0 ] && [ ! -e stop ]; do
  for hermes_file in req_*; do
    hermes_number=${{hermes_file#req_}}
    case $hermes_number in '' | *[!0123456789]*) continue ;; esac
    [ -e "$hermes_file" ] || [ -L "$hermes_file" ] || continue
    printf '\\n%s %s\\n' {nonce} "$hermes_number"
    [ ! -f "$hermes_file" ] || head -c {limit} "$hermes_file"
    hermes_found=$((hermes_found + 1))
    [ "$hermes_found" -lt {at_once} ] || break
  done
  if [ "$hermes_found" -gt 0 ]; then :
  elif [ -z "$hermes_wake" ]; then sleep 0.05 2>/dev/null || sleep 1
  elif [ -n "$BASH_VERSION" ]; then read -r -t 30 -u 5 hermes_line
  else read -r hermes_line <&5
  fi
done
printf '\\n%s end\\n' {nonce}
}}
"""


def collecting_command(queue: str, taken: Sequence[str], nonce: str, at_once: int = REQUESTS_AT_ONCE) -> str:
    """Return the command that waits until there are requests, and prints them.

    Args:
        queue: The directory of the request files.
        taken: Numbers of requests that were brought before; their files are removed first. Because that is
            only done now, a request that got lost on its way here is still there.
        nonce: A word no request can hold, because it is made after they were written.
        at_once: How many it is to bring at most.
    """
    return _COLLECT.format(
        queue=shlex.quote(queue),
        taken=" ".join(f"req_{number}" for number in taken) or "req_",
        nonce=nonce,
        limit=MAX_MESSAGE_BYTES + 1,
        at_once=at_once,
    )


def collected_requests(output: str, nonce: str) -> dict[str, bytes] | None:
    """Return the requests in what the collecting command printed, by number; None if its end is missing."""
    frames = output.split(f"\n{nonce} ")[1:]
    if not frames or frames.pop() != "end\n":
        return None
    requests = {}
    for frame in frames:
        number, _, content = frame.partition("\n")
        requests[number] = content.encode()
    return requests
