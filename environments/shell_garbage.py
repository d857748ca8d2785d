"""What a process that was killed has left on a machine that it only ran shells on: this one, or one behind SSH."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import partial

from environments.base import GRACE
from environments.dialect import BASH, MARKER_VARIABLE
from environments.garbage import Orphan
from environments.owner import mark_is_orphaned
from environments.persistent_shell import PersistentShellEnvironment
from environments.process_tree import ProcessTree, Quarry
from environments.registry import create_environment
from environments.settings import load_settings

_LOOK = f"""\
for f in $(command -p grep -lsF {MARKER_VARIABLE}= /proc/[0-9]*/environ); do
  command -p tr '\\0' '\\n' <"$f" | command -p sed -n 's|^{MARKER_VARIABLE}=|process |p'
done 2>/dev/null
for d in /tmp/hermes-* "${{TMPDIR:-/tmp}}"/hermes-*; do if [ -d "$d" ]; then printf 'directory %s\\n' "$d"; fi; done
"""
_DIRECTORY = re.compile(r".*/hermes-([^/]+)")


def find_orphans_here() -> Iterator[Orphan]:
    """Find what environments, of any backend, have left on this machine outside of containers."""
    yield from _orphans_in("local")


def find_orphans_over_ssh() -> Iterator[Orphan]:
    """Find what is left on the host of the settings; without one, nothing.

    Raises:
        EnvironmentStartError: The host cannot be reached.
    """
    if load_settings("ssh").ssh_host:
        yield from _orphans_in("ssh")


def _orphans_in(backend: str) -> Iterator[Orphan]:
    with create_environment(backend) as env:
        assert isinstance(env, PersistentShellEnvironment)
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
