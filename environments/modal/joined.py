"""A sandbox that runs already, and stays when the environment ends."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import modal
from modal import exception

from environments.errors import EnvironmentStartError
from environments.modal.service import connect, reported, retried
from environments.modal.target import ModalTarget
from environments.starting import current_start


class JoinedTarget(ModalTarget):
    """Somebody else's sandbox, from `start` to `stop`, see `ModalTarget`. It is neither tagged nor terminated."""

    async def start(self) -> bool:
        """Find the sandbox, and return whether that had not been done, see `ModalTarget`."""
        await current_start().told(f"joining sandbox {self._own.sandbox}")
        self._client = await connect()
        with reported("no sandbox can be joined"):
            if self._sandbox and await self._still_runs(self._sandbox):
                return False
            await self._detach()
            self._sandbox = await self._found()
            return True

    async def _found(self) -> modal.Sandbox:
        name = str(self._own.sandbox)
        try:
            sandbox = await self._by_id(name)
            code = await retried(sandbox.poll.aio, "the sandbox cannot be asked for")
        except exception.NotFoundError:
            raise EnvironmentStartError(
                f"backend 'modal': there is no sandbox {name} to join; `modal container list` lists what runs"
            ) from None
        if code is not None:
            raise EnvironmentStartError(
                f"backend 'modal' cannot join sandbox {name}: it has ended ({code}), and cannot be started anew; "
                "create another"
            )
        return sandbox

    def discard(self) -> Coroutine[Any, Any, None]:
        """Leave the sandbox, see `ModalTarget`."""
        return self._detach()

    def _why_ended(self) -> str:
        return ""

    def _how_to_have_it(self, port: int) -> str:
        return f"whoever creates one has to say so, by encrypted_ports=[{port}]"

    async def stop(self) -> None:
        """Leave the sandbox, see `ModalTarget`. It goes on as it did before."""
        await self._detach()
