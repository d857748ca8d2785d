"""What programs of the target show, and what they have switched on and not off again in the terminal that shows it."""

from __future__ import annotations

import re
import threading

from environments.output import Channel
from hermes_env.cli.streams import LiveOutput

_MODES = re.compile(rb"\x1b\[\?([0-9;]{1,64})([hl])")
_USUALLY_ON = frozenset((b"7", b"8", b"25"))
"""Lines that wrap, keys that repeat, and a cursor that is seen."""
_COLOURLESS = b"\x1b[0m"
_LONGEST = 72
"""Bytes of a sequence that is waited for."""


class Screen:
    """Shows output, and knows what of the terminal is to be put right when a program ended without doing so.

    That is the other screen of editors, a hidden cursor, a mouse that is reported, a paste that is bracketed.
    See `OutputSink`.

    Args:
        shown: Shows the output.
        is_ready: Is set when the terminal can show it. Until then it waits.
    """

    separate = False

    def __init__(self, shown: LiveOutput, is_ready: threading.Event) -> None:
        self._shown = shown
        self._is_ready = is_ready
        self._is_frozen = False
        self._rest = b""
        self._modes: dict[bytes, bool] = {}

    def add(self, channel: Channel, data: bytes) -> None:
        """Show bytes at once."""
        self._is_ready.wait()
        if self._is_frozen:
            return
        self._look_at(data)
        self._shown.add(channel, data)

    def freeze(self) -> None:
        """Show nothing more, and wait for nothing either."""
        self._is_frozen = True
        self._is_ready.set()
        self._shown.freeze()

    def _look_at(self, data: bytes) -> None:
        data, end = self._rest + data, 0
        for found in _MODES.finditer(data):
            end = found.end()
            for mode in found[1].split(b";"):
                self._modes[mode] = found[2] == b"h"
        begun = data.rfind(b"\x1b", max(end, len(data) - _LONGEST))
        self._rest = data[begun:] if begun >= 0 else b""

    def undoing(self) -> bytes:
        """Return what puts the terminal right; nothing if there is nothing to do."""
        wrong = [(mode, on) for mode, on in self._modes.items() if on != (mode in _USUALLY_ON)]
        sequences = [b"\x1b[?%b%b" % (mode, b"l" if on else b"h") for mode, on in wrong]
        return b"".join([*sequences, _COLOURLESS]) if sequences else b""
