"""How a person logs in by hand where an environment is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from environments.ssh.config import Route
from environments.ssh.settings import SSHSettings


def way_in(own: SSHSettings, route: Route, command: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what to run to log in at the host of the settings. Secrets are asked for there, and not handed over.

    The name of the host is that of the settings, so that all else the SSH client's configuration says of it holds.

    Args:
        own: What was set.
        route: What became of it.
        command: What to run there on a terminal; the login shell, if it is empty.
    """
    config = ("-F", str(Path(own.config).expanduser())) if own.config else ()
    key = ("-i", str(Path(own.key).expanduser())) if own.key else ()
    login = ("ssh", *config, "-p", str(route.port), *key, f"{route.user}@{own.host}")
    return (*login[:-1], "-t", login[-1], shlex.join(command)) if command else login
