"""Snapshots of a target, and forks of an environment, for all backends with snapshots."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from environments.base import BaseEnvironment, no_snapshots
from environments.errors import TerminalError
from environments.log import logger
from environments.loop import Call, in_worker, shielded, spawn
from environments.options import check_text
from environments.shell.lifecycle import call_backend

if TYPE_CHECKING:
    from environments.settings import EnvironmentSettings
    from environments.shell.environment import PersistentShellEnvironment

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

log = logger(__name__)


async def take_snapshot(env: PersistentShellEnvironment, name: str) -> str:
    """Take a snapshot, see `BaseEnvironment.snapshot`."""
    return await _snapshot(env, _checked_name(name))


async def fork(env: PersistentShellEnvironment, call: Call[BaseEnvironment] | None) -> BaseEnvironment:
    """Return a fork, see `BaseEnvironment.fork`.

    Args:
        env: The environment.
        call: The user's call, possibly abandoned just as the fork is made; None without a call.
    """
    snapshot = await _snapshot(env, None)
    try:
        cwd = await env.session_of_execute.variable("PWD", sourced=False)
        made = await in_worker(_make_fork, env, env.settings_on(snapshot), cwd)
    except BaseException:
        spawn(_drop(env, snapshot))
        raise
    made.forked_from = snapshot
    if call:
        call.undo = lambda _: made.close()
    return made


def _checked_name(name: object) -> str:
    check_text("name", name)
    if not _NAME.fullmatch(text := str(name)):
        raise ValueError(
            f"name is {name!r:.100}; give a snapshot at most 63 letters, digits, '_', '.' and '-', the first of them a "
            "letter or a digit, such as 'after-setup'"
        )
    return text


async def _snapshot(env: PersistentShellEnvironment, name: str | None) -> str:
    if not env.has_snapshots:
        raise no_snapshots(env.settings.env)
    await env.life.ensure_started()
    env.touch()
    taking = spawn(call_backend(env.take_snapshot, name), may_fail=True)
    try:
        return cast("str", await shielded(taking))
    except asyncio.CancelledError:  # the backend goes on, and its snapshot for a fork is unused
        if name is None:
            spawn(_drop_late(env, taking))
        raise


async def _drop_late(env: PersistentShellEnvironment, taking: asyncio.Task[object]) -> None:
    await asyncio.wait((taking,))
    if not taking.cancelled() and not taking.exception():
        await _drop(env, str(taking.result()))


def _make_fork(env: PersistentShellEnvironment, settings: EnvironmentSettings, cwd: str) -> PersistentShellEnvironment:
    """Make an environment with the same hooks."""
    settings = replace(settings, cwd=cwd, container_persistent=False)
    made = cast("PersistentShellEnvironment", type(env).create(settings))
    made.progress.callback = env.progress.callback
    made.passthrough.allow(env.passthrough.names)
    for name in ("rules", "approve", "before_command", "before_script", "before_tool_call"):
        setattr(made.gate, name, getattr(env.gate, name))
    return made


async def drop_own(env: PersistentShellEnvironment) -> None:
    """Remove the snapshot of an ended fork."""
    snapshot, env.forked_from = env.forked_from, None
    if snapshot:
        await _drop(env, snapshot)


async def _drop(env: PersistentShellEnvironment, snapshot: str) -> None:
    try:
        await call_backend(env.drop_snapshot, snapshot)
    except TerminalError as error:
        log.warning("snapshot %s may still be there; `hermes-env gc` removes it: %s", snapshot, error)
