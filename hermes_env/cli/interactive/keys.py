"""What is typed, on its way to the target, and the one thing that is not for there: `~.` ends it all."""

from __future__ import annotations

from collections.abc import Callable

from environments.process import Process

_TILDE, _DOT = b"~."


class Keys:
    """Types to a process. `~.` at the beginning of a line ends the session, as a target that hangs takes no control-C.

    `~~` there is one tilde, and with anything else a tilde is itself.

    Args:
        process: Where all else goes.
        leave: Ends the session. It is also called when there is no terminal any more.
    """

    def __init__(self, process: Process, leave: Callable[[], object]) -> None:
        self._process = process
        self._leave = leave
        self._begins_line = True
        self._is_held = False
        """Whether a tilde waits for what comes behind it."""

    def write(self, data: bytes) -> None:
        """Type what was typed here. Raises what `Process.write` raises."""
        passed, is_over = self._passed(data)
        if passed:
            self._process.write(passed)
        if is_over:
            self._leave()

    def _passed(self, data: bytes) -> tuple[bytes, bool]:
        passed = bytearray()
        for byte in data:
            if self._is_held:
                self._is_held = self._begins_line = False
                if byte == _DOT:
                    return bytes(passed), True
                passed.append(_TILDE)
                if byte == _TILDE:
                    continue
            elif self._begins_line and byte == _TILDE:
                self._is_held = True
                continue
            passed.append(byte)
            self._begins_line = byte in b"\r\n"
        return bytes(passed), False

    def close_stdin(self) -> None:
        """Note that nothing will be typed any more."""
        self._leave()
