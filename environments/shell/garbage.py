"""What a process that was killed has left on a machine that it only ran shells on: this one, or one behind SSH."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from environments.files import removing
from environments.owner import Orphan, mark_is_orphaned
from environments.shell.cleanup import end_processes_of
from environments.shell.dialect.commands import LEFT_BEHIND
from environments.shell.environment import PersistentShellEnvironment

_DIRECTORY = re.compile(r".*/hermes-([^/]+)")


def orphans_in(env: PersistentShellEnvironment) -> Iterator[Orphan]:
    """Find what environments, of any backend, have left where `env` runs its commands."""
    env.internal.execute("true")
    found = [line.partition(" ")[::2] for line in env.run_control(LEFT_BEHIND).output.splitlines()]
    # Of what one environment has started from within another's command, the inner one stands last.
    owners = {name.rpartition(":")[2].partition("/")[0] for kind, name in found if kind == "process"}
    for owner in sorted(filter(mark_is_orphaned, owners)):
        yield Orphan(f"ended the processes of {owner}", partial(end_processes_of, env, owner))
    directories = {name for kind, name in found if kind == "directory"}
    for directory in sorted(directories):
        match = _DIRECTORY.fullmatch(directory)
        if match and mark_is_orphaned(match[1]):
            yield Orphan(f"removed {directory}", partial(env.run_control, removing(directory)))
