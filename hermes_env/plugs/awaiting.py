"""What takes its time, for frameworks that await: done in a thread, and ended in the target when nobody awaits it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from environments import EnvironmentLostError, EnvironmentStartError
from hermes_env.aio.calls import in_thread

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


class Threads:
    """Threads for the calls of one environment. As many work at once as there are calls.

    Args:
        unavailable: What is raised when the environment was lost or cannot be started; None leaves our own errors.
    """

    def __init__(self, unavailable: type[Exception] | None = None) -> None:
        self._unavailable = unavailable

    async def call(
        self, function: Callable[_Arguments, _Answer], *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Answer:
        """Call a function in a thread, and return what it returns.

        When the task is cancelled, what the function does in a target is ended there first.

        Raises:
            Exception: What the function raises.
        """
        try:
            return await in_thread(partial(function, *args, **kwargs))
        except (EnvironmentLostError, EnvironmentStartError) as error:
            if self._unavailable:
                raise self._unavailable(str(error)) from error
            raise
