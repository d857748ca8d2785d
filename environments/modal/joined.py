"""A sandbox that runs already, and stays when the environment ends."""

from __future__ import annotations

from functools import partial

import modal
from modal import exception

from environments.errors import EnvironmentStartError
from environments.modal.service import connect, reported, retried
from environments.modal.target import ModalTarget, nothing
from environments.starting import current_start


class JoinedTarget(ModalTarget):
    """Somebody else's sandbox, from `start` to `stop`, see `ModalTarget`. It is neither tagged nor terminated."""

    def start(self) -> bool:
        """Find the sandbox, and return whether that had not been done, see `ModalTarget`."""
        start = current_start()
        start.tell(f"joining sandbox {self._own.sandbox}")
        self._client = start.alone(connect, undo=nothing)
        with reported("no sandbox can be joined"):
            if self._sandbox and start.alone(partial(self._still_runs, self._sandbox), undo=nothing):
                return False
            self._detach()
            self._sandbox = start.alone(self._found, undo=nothing)
            return True

    def _found(self) -> modal.Sandbox:
        name = str(self._own.sandbox)
        try:
            sandbox = self._by_id(name)
            code = retried(sandbox.poll, "the sandbox cannot be asked for")
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

    def discard(self) -> None:
        """Leave the sandbox, see `ModalTarget`."""
        self._detach()

    def _why_ended(self) -> str:
        return ""

    def _how_to_have_it(self, port: int) -> str:
        return f"whoever creates one has to say so, by encrypted_ports=[{port}]"

    def stop(self) -> None:
        """Leave the sandbox, see `ModalTarget`. It goes on as it did before."""
        self._detach()
