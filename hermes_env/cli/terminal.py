"""The local terminal of `hermes-env shell`: size, raw mode, keyboard input, and screen output."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import termios
import threading
import tty
from collections.abc import Callable

from environments.errors import TerminalError
from environments.output import Channel
from environments.process import Process, Terminal
from hermes_env.cli.streams import InputReceiver, LiveOutput

_TILDE, _DOT = b"~."
_MODES = re.compile(rb"\x1b\[\?([0-9;]{1,64})([hl])")
_USUALLY_ON = frozenset((b"7", b"8", b"25"))
"""Modes that are usually on: line wrap, key repeat, and a visible cursor."""
_COLOURLESS = b"\x1b[0m"
_LONGEST = 72
"""Bytes of the longest incomplete sequence to keep."""


def terminal_of_input() -> int:
    """Return the file descriptor of standard input.

    Raises:
        TerminalError: Standard input is not a terminal.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise TerminalError(
            "standard input is no terminal, and a shell needs one; use `hermes-env exec`, which takes a pipe or a file"
        )
    return sys.stdin.fileno()


def size_of(terminal: int) -> Terminal:
    """Return the size of a terminal, by file descriptor; the usual size if unknown, or after a hang-up."""
    usual = Terminal()
    try:
        size = os.get_terminal_size(terminal)
    except OSError:
        return usual
    return Terminal(size.lines or usual.rows, size.columns or usual.columns)


class RawTerminal:
    """A terminal in raw mode: control-C is an ordinary byte. The end of the block restores the settings.

    Args:
        terminal: The file descriptor.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def __enter__(self) -> RawTerminal:
        self._before = termios.tcgetattr(self._terminal)
        self.enforce()
        return self

    def enforce(self) -> None:
        """Set raw mode, also again after SIGCONT: the shell that continued this process has changed the settings.

        Keeps pending input.
        """
        with contextlib.suppress(termios.error):  # after a hang-up, which the reader reports
            tty.setraw(self._terminal, termios.TCSADRAIN)

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)


class Keys(InputReceiver):
    """Forwards keyboard input. `~.` at the beginning of a line ends the session, also if the target hangs.

    `~~` at the beginning of a line is a tilde. Before any other character a tilde is unchanged.

    Args:
        process: The receiver.
        leave: Ends the session. Also called after a hang-up of the terminal.
    """

    def __init__(self, process: Process, leave: Callable[[], object]) -> None:
        self._process = process
        self._leave = leave
        self._begins_line = True
        self._is_held = False
        """True while a tilde is held back until the next byte."""

    def write(self, data: bytes) -> None:
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
        self._leave()


class Screen:
    """Shows output, and tracks the modes of the terminal, to reset modes left set by a killed program.

    Such modes are an editor's alternate screen, a hidden cursor, mouse reports and bracketed paste. An `OutputSink`.

    Args:
        shown: Shows the output.
        is_ready: Set once the terminal is in raw mode. Until then output is held back.
    """

    separate = False

    def __init__(self, shown: LiveOutput, is_ready: threading.Event) -> None:
        self._shown = shown
        self._is_ready = is_ready
        self._is_frozen = False
        self._rest = b""
        self._modes: dict[bytes, bool] = {}

    def add(self, channel: Channel, data: bytes) -> None:
        """Show output at once, see `OutputSink`."""
        self._is_ready.wait()
        if self._is_frozen:
            return
        self._note_modes(data)
        self._shown.add(channel, data)

    def freeze(self) -> None:
        """Discard later output, and release waiting output."""
        self._is_frozen = True
        self._is_ready.set()
        self._shown.freeze()

    def _note_modes(self, data: bytes) -> None:
        data, end = self._rest + data, 0
        for found in _MODES.finditer(data):
            end = found.end()
            for mode in found[1].split(b";"):
                self._modes[mode] = found[2] == b"h"
        begun = data.rfind(b"\x1b", max(end, len(data) - _LONGEST))
        self._rest = data[begun:] if begun >= 0 else b""

    def reset_sequence(self) -> bytes:
        """Return the bytes that reset the changed modes; empty without changes."""
        wrong = [(mode, on) for mode, on in self._modes.items() if on != (mode in _USUALLY_ON)]
        sequences = [b"\x1b[?%b%b" % (mode, b"l" if on else b"h") for mode, on in wrong]
        return b"".join([*sequences, _COLOURLESS]) if sequences else b""
