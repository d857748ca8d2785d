"""Workspaces for a framework to resume: a target, and a directory in the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from environments import create_environment
from hermes_env.aio import AsyncEnvironment

_JOINED_BY = {"docker": "container", "singularity": "instance", "modal": "sandbox", "daytona": "sandbox"}


def attach_settings(backend: str | None, target_id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `create_environment` to attach to an existing target. `cleanup` then keeps the target.

    Args:
        backend: The backend's name; None is the configured backend. A machine or a host needs no attachment.
        target_id: The `id` of the `Target`.
        settings: The settings of the target. Settings for new targets only are removed.
    """
    new = create_environment(backend, **settings)  # not started
    own, joined = new.settings_class, _JOINED_BY.get(new.backend)
    if joined is None:
        return {**settings, "backend": new.backend}
    aside = own.puts_aside[own.prefix + joined]
    kept = {name: value for name, value in settings.items() if name not in aside and own.prefix + name not in aside}
    return {**kept, "backend": new.backend, joined: target_id}


async def own_directory(env: AsyncEnvironment) -> str:
    """Return the workspace directory in a target, without links in the path. Starts the environment.

    The directory is the configured one, or the target's default. If the default is shared, as on a host, or not
    writable, a new directory is created, and removed with the environment.
    """
    is_shared = (await env.target).kind in ("machine", "host") and env.settings.cwd is None
    made = None
    if is_shared or not (await env.execute_oneshot("[ -w . ]")).ok:
        made = f"{await env.scratch_directory()}/workspace"
        await env.mkdir(made)
    return (await env.execute_oneshot("pwd -P", cwd=made)).output.rstrip("\n")
