"""A sandbox that runs already, and stays when the environment ends."""

from __future__ import annotations

from functools import partial

from environments.daytona.sandbox import settled_state
from environments.daytona.service import retried, sdk
from environments.errors import EnvironmentStartError
from environments.starting import current_start

_STOPPED = ("stopped", "archived", "paused")


async def join(service: sdk.AsyncDaytona, name: str) -> sdk.AsyncSandbox:
    """Return somebody else's sandbox, which is neither started, labelled nor changed.

    One that does not run is not started: it would have to be stopped again in the end, and nobody could tell whether
    others have come to use it.

    Args:
        service: The service.
        name: Its id or its name.

    Raises:
        EnvironmentStartError: There is none, or it does not run.
    """
    await current_start().told(f"joining sandbox {name}")
    try:
        sandbox = await retried(partial(service.get, name), "a sandbox cannot be looked for")
        state = await settled_state(sandbox)
    except sdk.DaytonaNotFoundError:
        raise EnvironmentStartError(
            f"backend 'daytona': there is no sandbox {name} to join; `daytona list` lists those there are"
        ) from None
    if state in _STOPPED:
        raise EnvironmentStartError(
            f"backend 'daytona' cannot join sandbox {name}: it is {state}; start it with `daytona start {name}`"
        )
    if state != "started":
        why = f": {sandbox.error_reason}" if sandbox.error_reason else ""
        raise EnvironmentStartError(f"backend 'daytona' cannot join sandbox {name}: it is in state {state}{why}")
    return sandbox
