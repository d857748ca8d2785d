"""Places to work in that a framework finds again: a target, and a directory in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from environments import BaseEnvironment
from environments.registry import backend_settings_class

_JOINED_BY = {"docker": "container", "singularity": "instance", "modal": "sandbox", "daytona": "sandbox"}


def attaching(backend: str, target_id: str, settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments of `create_environment` by which a target is joined, which is then left as it is.

    Args:
        backend: The backend's name. This machine and hosts are not joined: there nothing is created.
        target_id: The `id` of its `Target`.
        settings: Those that it was created with. Of them, what only a new target has is left out.
    """
    own, joined = backend_settings_class(backend), _JOINED_BY.get(backend)
    if joined is None:
        return {**settings, "backend": backend}
    aside = own.puts_aside[own.prefix + joined]
    kept = {name: value for name, value in settings.items() if name not in aside and own.prefix + name not in aside}
    return {**kept, "backend": backend, joined: target_id}


def own_directory(env: BaseEnvironment) -> str:
    """Return the directory for one user of a target, without links in its path. It starts the environment.

    That is the configured or usual one. Where everybody's is usual, as on a host, or it cannot be written to, a new
    one is made, which goes with the environment.
    """
    is_shared = env.target.kind in ("machine", "host") and env.settings.cwd is None
    made = None
    if is_shared or not env.execute_oneshot("[ -w . ]").ok:
        made = f"{env.internal.scratch_directory()}/workspace"
        env.mkdir(made)
    return env.execute_oneshot("pwd -P", cwd=made).output.rstrip("\n")
