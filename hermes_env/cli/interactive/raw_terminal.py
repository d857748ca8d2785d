"""The terminal of standard input: its size, and letting everything that is typed through."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
import tty

from environments.errors import TerminalError
from environments.process import Terminal


def terminal_of_input() -> int:
    """Return the descriptor of standard input, which is a terminal.

    Raises:
        TerminalError: It is none.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise TerminalError(
            "standard input is no terminal, and a shell needs one; use `hermes-env exec`, which takes a pipe or a file"
        )
    return sys.stdin.fileno()


def size_of(terminal: int) -> Terminal:
    """Return the size of a terminal; the usual one where it does not know its own, or is gone.

    Args:
        terminal: Its descriptor.
    """
    try:
        size = os.get_terminal_size(terminal)
    except OSError:
        return Terminal()
    usual = Terminal()
    return Terminal(size.lines or usual.rows, size.columns or usual.columns)


class RawTerminal:
    """A terminal that makes nothing of what is typed and shown: control-C is a byte like any other.

    In the end, however that comes about, its settings are what they were.

    Args:
        terminal: Its descriptor.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def __enter__(self) -> RawTerminal:
        self._before = termios.tcgetattr(self._terminal)
        self.enforce()
        return self

    def enforce(self) -> None:
        """Set it so, also once more: the shell that has stopped and continued us has its own settings meanwhile.

        What was typed already stays.
        """
        with contextlib.suppress(termios.error):  # it is gone, of which its reader hears
            tty.setraw(self._terminal, termios.TCSADRAIN)

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)
