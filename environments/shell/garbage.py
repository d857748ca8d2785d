"""What a process that was killed has left on a machine that it only ran shells on: this one, or one behind SSH."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import partial

from environments.base import GRACE
from environments.owner import MARKER_VARIABLE, Orphan, mark_is_orphaned
from environments.shell.dialect import BASH
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.process_tree import ProcessTree, Quarry

_LOOK = f"""\
for f in $(command -p grep -lsF {MARKER_VARIABLE}= /proc/[0-9]*/environ); do
  command -p tr '\\0' '\\n' <"$f" | command -p sed -n 's|^{MARKER_VARIABLE}=|process |p'
done 2>/dev/null
for d in /tmp/hermes-* "${{TMPDIR:-/tmp}}"/hermes-*; do if [ -d "$d" ]; then printf 'directory %s\\n' "$d"; fi; done
"""
_DIRECTORY = re.compile(r".*/hermes-([^/]+)")


def orphans_in(env: PersistentShellEnvironment) -> Iterator[Orphan]:
    """Find what environments, of any backend, have left where `env` runs its commands."""
    env.execute_oneshot("true")
    found = [line.partition(" ")[::2] for line in env.run_control(_LOOK).output.splitlines()]
    owners = {name.partition("/")[0] for kind, name in found if kind == "process"}
    for owner in sorted(filter(mark_is_orphaned, owners)):
        tree = ProcessTree(env.run_control, Quarry(f"{owner}/", BASH))
        yield Orphan(f"ended the processes of {owner}", partial(tree.end, GRACE))
    directories = {name for kind, name in found if kind == "directory"}
    for directory in sorted(directories):
        match = _DIRECTORY.fullmatch(directory)
        if match and mark_is_orphaned(match[1]):
            yield Orphan(f"removed {directory}", partial(env.run_control, f"rm -rf -- {shlex.quote(directory)}"))
