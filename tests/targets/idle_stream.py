"""A stream without a process: the base of streams that a test feeds by hand."""

from __future__ import annotations

from environments.shell.stream import Stream


class IdleStream(Stream):
    """Delivers no output, drops its input, and ends with exit code 0 when it is closed."""

    def _begin(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        pass

    def close_write(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    async def exit_code(self, timeout: float) -> int | None:
        return 0

    async def close(self) -> None:
        self._end()
