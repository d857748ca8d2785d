"""A command in a thread, while the test causes a fault."""

from __future__ import annotations

import threading

from environments import BaseEnvironment, EnvironmentLostError, TerminalError


class CommandThread:
    """A command in a thread of its own. The constructor returns after the first output, or after the end.

    Args:
        env: The environment.
        command: Prints some output before the fault may come.
        timeout: Seconds of the command.
    """

    def __init__(self, env: BaseEnvironment, command: str, timeout: float = 110.0) -> None:
        self.error: TerminalError | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(env, command, timeout))
        self._thread.start()
        assert self._begun.wait(60)

    def _run(self, env: BaseEnvironment, command: str, timeout: float) -> None:
        try:
            env.execute(command, on_output=lambda _: self._begun.set(), timeout=timeout)
        except TerminalError as error:
            self.error = error
        finally:
            self._begun.set()

    def lost(self) -> EnvironmentLostError:
        """Wait for the end of the command; return the loss of the target."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert isinstance(self.error, EnvironmentLostError), self.error
        return self.error
