"""A stream to a process in a sandbox."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from environments.bubblewrap.sandbox import Sandbox
from environments.output import Channel
from environments.shell.child_stream import ChildStream, set_size
from environments.shell.stream import Terminal


class SandboxStream(ChildStream):
    """Reads and writes the same pipes as for a child of our own; only who starts and reaps it is another."""

    def __init__(self, sandbox: Sandbox, argv: Sequence[str], terminal: Terminal | None = None) -> None:
        self._sandbox = sandbox
        super().__init__(argv, terminal=terminal)

    def _open_pipes(self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> None:
        (stdin, ours_in), (ours_out, stdout), (ours_err, stderr) = os.pipe(), os.pipe(), os.pipe()
        self._files = (open(ours_in, "wb", 0), open(ours_out, "rb", 0), open(ours_err, "rb", 0))  # noqa: SIM115
        try:
            self._child = self._sandboxed = self._sandbox.spawn(argv, (stdin, stdout, stderr))
        finally:
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)
        self._input = ours_in
        self._channels = {ours_out: Channel.STDOUT, ours_err: Channel.STDERR}

    def _open_terminal(
        self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, terminal: Terminal
    ) -> None:
        self._child = self._sandboxed = child = self._sandbox.spawn(argv, ())
        self._files = (open(child.terminal, "r+b", 0),)  # noqa: SIM115
        self._input = child.terminal
        self._channels = {child.terminal: Channel.STDOUT}
        set_size(child.terminal, terminal)

    def _watch_child(self) -> None:
        self._end_of_child = self._sandboxed.watch()

    async def close(self) -> None:
        """Have the process killed, and close the descriptors, see `Stream.close`."""
        try:
            await super().close()
        finally:
            self._sandboxed.close()
