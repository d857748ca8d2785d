"""Ending every process of a command, in the target, wherever it has moved to.

What belongs to a command is found in three ways, as each alone can be escaped: it carries the command's marker in its
environment, it holds the command's leash (see `dialect`), or it descends from one that does. What an earlier command
left in the background carries another marker and another leash, and is not touched.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from environments.errors import TerminalError
from environments.owner import MARKER_VARIABLE
from environments.result import CommandResult
from environments.shell.dialect import Dialect

KILL_LIMIT = 2.0
"""Seconds in which KILL must have ended everything. A process in an uninterruptible wait outlives it."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.1

# Set in front of this: $marker, $leash, $holders (where to look for the leash), $spare, $wake, $signal.
# Only builtins and grep, as a target may lack ps and pgrep.
_SCAN = r"""
read -r self rest </proc/self/stat
spare=" $spare $$ $self "
found=' ' alive=' ' rope= seen= more=
add() { case "$found$spare" in *" $1 "*) ;; *) found="$found$1 " more=1 ;; esac; }
for p in $holders; do
  if [ -e "/proc/$p/fd/$leash" ]; then rope=/proc/$p/fd/$leash; break; fi
done
marked=$(command -p grep -zlsF -- "$marker" /proc/[0-9]*/environ)
for p in $marked; do
  p=${p%/environ} p=${p#/proc/}
  case $spare in *" $p "*) ;; *) if [ -e "/proc/$p" ]; then seen="$seen $p"; fi ;; esac
done
# Mostly nothing is left, and the look at each process of the target can be spared.
if [ -n "$rope$seen" ]; then
  for d in /proc/[0-9]*; do
    { IFS= read -r stat <"$d/stat"; } 2>/dev/null || continue
    stat=${stat##*) }
    case $stat in [ZX]*) continue ;; esac
    stat=${stat#? } p=${d#/proc/}
    alive="$alive$p:${stat%% *} "
    if [ -n "$rope" ] && [ "$d/fd/$leash" -ef "$rope" ]; then add "$p"; fi
  done
  for p in $seen; do
    case $alive in *" $p:"*) add "$p" ;; esac
  done
fi
while [ -n "$more" ]; do
  more=
  for pair in $alive; do
    case $found in
      *" ${pair%%:*} "*) ;;
      *" ${pair#*:} "*) add "${pair%%:*}" ;;
    esac
  done
done
if [ -n "$wake" ]; then kill -s USR1 "$wake" 2>/dev/null; fi
if [ "$found" != ' ' ] && [ -n "$signal" ]; then kill -s "$signal" $found 2>/dev/null; fi
echo $found
"""


@dataclass(frozen=True, slots=True)
class Quarry:
    """Whose processes are to be ended."""

    marker: str
    """The value of the marker variable, or what it begins with."""
    dialect: Dialect
    """The kind of shell that runs the command, which says where its leash is."""
    shell_pid: int | None = None
    """The shell that runs the command and holds its leash."""
    wakes_shell: bool = False
    """Whether that shell must leave the command by itself: it is then told to, before anything is signalled, as it
    would otherwise go on with what stands behind the command that was ended."""
    ends_shell: bool = False
    """Whether that shell is one of the processes to be ended."""


RunInTarget = Callable[[str], CommandResult]


class ProcessTree:
    """Finds and signals the processes of one command through another shell of the same target."""

    def __init__(self, run: RunInTarget, quarry: Quarry) -> None:
        self._run = run
        self._quarry = quarry
        self._holders: list[int] = [quarry.shell_pid] if quarry.shell_pid else []

    def end(self, grace: float, running: bool = True) -> bool:
        """Send TERM, wait, send KILL, and wait again.

        Args:
            grace: Seconds between TERM and KILL.
            running: Whether the shell still runs the command. Otherwise it holds the leash of another by now, if any.

        Returns:
            Whether nothing is left.

        Raises:
            TerminalError: The target does not answer.
        """
        if not running:
            self._holders = []
        if self._pass("TERM", wake=self._quarry.wakes_shell) and not self._wait(grace, ""):
            self._pass("KILL")
            return self._wait(KILL_LIMIT, "KILL")
        return True

    def look(self) -> Sequence[int]:
        """Return the process ids of what there is, and signal nothing. Raises as `end` does."""
        return self._pass("")

    def kill_shell(self) -> None:
        """Send KILL to the shell itself, which did not leave its command."""
        self._run(f"kill -s KILL {self._quarry.shell_pid}")

    def _wait(self, limit: float, signal: str) -> bool:
        deadline = time.monotonic() + limit
        pause = _FIRST_PAUSE
        while time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            if not self._pass(signal):
                return True
        return False

    def _pass(self, signal: str, wake: bool = False) -> Sequence[int]:
        """Look once, send `signal` (or nothing) to what is found, and return it."""
        quarry = self._quarry
        shell = str(quarry.shell_pid or "")
        settings = {
            "marker": f"{MARKER_VARIABLE}={quarry.marker}",
            "leash": str(quarry.dialect.leash),
            "holders": " ".join(map(str, self._holders)),
            "spare": "" if quarry.ends_shell else shell,
            "wake": shell if wake else "",
            "signal": signal,
        }
        head = "\n".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
        result = self._run(head + _SCAN)
        words = result.output.split()
        if result.exit_code != 0 or not all(word.isdigit() for word in words):  # such as when nothing can be forked
            raise TerminalError(f"cannot look for a command's processes: {result.output.strip()}")
        found = [int(word) for word in words]
        self._holders = [*self._holders[:1], *found]
        return found
