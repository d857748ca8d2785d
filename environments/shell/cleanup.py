"""The end of an environment, and its reset for the next user."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.log import logger
from environments.loop import done_within, in_worker
from environments.process import GRACE
from environments.shell.dialect.bash import Bash
from environments.shell.dialect.commands import brands
from environments.shell.lifecycle import call_backend
from environments.shell.session import Session

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment

log = logger(__name__)


async def renew(env: PersistentShellEnvironment) -> None:
    """Reset an environment: end all processes, and start a new session.

    Raises:
        TerminalError: A process could not be ended.
    """
    _abandon_all(env)
    if env.network:
        env.network.reset()
    earlier, env.session_of_execute = env.session_of_execute, Session(env, env.shells)
    await env.scratch.remove()
    if survivors := await _end_processes(env, env.ready_since, includes_unmarked=True):
        raise TerminalError(f"processes of an earlier use could not be ended: {survivors}")
    await earlier.close()


async def end_all(env: PersistentShellEnvironment) -> None:
    """End all processes, and take the target down."""
    _abandon_all(env)
    if env.network:
        env.network.stop()
    try:
        if not env.stop_ends_all:
            with contextlib.suppress(TerminalError):
                if survivors := await _end_processes(env):
                    log.warning("backend %r: processes could not be ended: %s", env.settings.env, survivors)
            with contextlib.suppress(TerminalError):
                await env.scratch.remove()
    finally:
        await _close(env)
    await in_worker(env.attachments.close)


def end_processes_of(env: PersistentShellEnvironment, owner: str) -> None:
    """End the orphan processes of another environment, left in a target by a killed program.

    Args:
        env: An environment in the target.
        owner: The name of the other environment.
    """
    from environments.shell.kill import ProcessSelector  # few programs look for orphans

    env.run_on_loop(
        lambda _: env.shells.control.tree(ProcessSelector(f"{owner}/", Bash, brand=brands(owner))).end(GRACE)
    )


def _abandon_all(env: PersistentShellEnvironment) -> None:
    """Mark all running commands as interrupted, as everything is about to be ended."""
    sessions = (env.session_of_execute, *env.named)
    for running in (*(each.running for each in sessions), *env.oneshots.running):
        if running:
            running.abandon()
    for process in env.internal.processes:
        process.running_command.abandon()


async def _end_processes(
    env: PersistentShellEnvironment, since: int | None = None, includes_unmarked: bool = False
) -> tuple[int, ...]:
    """End all shells and processes of an environment, and return the survivors."""
    kept = env.shells.control.idle[-1:]  # the shell lent next: any other would be waited for
    await env.shells.end_all(but=kept)
    (*of_users, control), marker = env.shells.controls(), f"{env.id}/"
    if env.shells.dialect is None and not of_users:
        return ()
    from environments.shell.kill import ProcessSelector  # most commands end by themselves

    dialect = env.shells.dialect or Bash  # only other users had a shell
    numbers = None if env.owns_all_processes else brands(env.id)
    failed: TerminalError | None = None
    for each in of_users:
        try:
            await each.tree(ProcessSelector(marker, dialect, brand=numbers)).end(GRACE)
        except TerminalError as error:  # the other users' processes are ended first
            failed = error
    survivors: tuple[int, ...] = ()
    if not await call_backend(env.has_no_process, marker, [shell.pid for shell in kept]):
        # Processes started by `service` or `su -` have a cleared environment, without any mark.
        selector = ProcessSelector(marker, dialect, since=since, brand=numbers, includes_unmarked=includes_unmarked)
        survivors = await control.tree(selector).end(GRACE)
    if failed:
        raise failed
    return survivors


async def _close(env: PersistentShellEnvironment) -> None:
    """Free local resources, and take the target down."""
    shells, processes = env.shells, env.internal.processes
    try:
        await shells.control.await_reserve()
        shells.forget()
        await shells.end_all()
        for session in (env.session_of_execute, *env.named):
            await session.close()
        await shells.end_all()  # also shells being opened to redirect a leftover's output
    finally:
        await call_backend(env.stop_target)
    for process in processes:
        await done_within(process.done, GRACE)
