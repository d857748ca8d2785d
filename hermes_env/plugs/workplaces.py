"""Places to work in that a framework finds again: a target, and a directory in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from environments import create_environment
from hermes_env.aio import AsyncEnvironment

_JOINED_BY = {"docker": "container", "singularity": "instance", "modal": "sandbox", "daytona": "sandbox"}


def attaching(backend: str | None, target_id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `create_environment` that join a target, which then outlives the environment.

    Args:
        backend: The backend's name; None is the configured one. A machine or a host is only used again, as nothing
            was created there.
        target_id: The `id` of its `Target`.
        settings: The settings that it was created with. Those that only a new target has are left out.
    """
    new = create_environment(backend, **settings)  # which does not start it
    own, joined = new.settings_class, _JOINED_BY.get(new.backend)
    if joined is None:
        return {**settings, "backend": new.backend}
    aside = own.puts_aside[own.prefix + joined]
    kept = {name: value for name, value in settings.items() if name not in aside and own.prefix + name not in aside}
    return {**kept, "backend": new.backend, joined: target_id}


async def own_directory(env: AsyncEnvironment) -> str:
    """Return the directory for one user of a target, without links in its path. The environment is started.

    It is the configured directory, or the target's usual one. Where the usual one is everybody's, as on a host, or
    cannot be written to, it is a new directory, which is removed with the environment.
    """
    is_shared = (await env.target).kind in ("machine", "host") and env.settings.cwd is None
    made = None
    if is_shared or not (await env.execute_oneshot("[ -w . ]")).ok:
        made = f"{await env.scratch_directory()}/workspace"
        await env.mkdir(made)
    return (await env.execute_oneshot("pwd -P", cwd=made)).output.rstrip("\n")
