"""What a script prints: standard output and standard error, each kept up to its limit."""

from __future__ import annotations

from code_execution.result import with_truncation_notice
from code_execution.settings import CodeExecutionSettings
from environments.call import OutputCallback
from environments.capture import BoundedCapture, LiveText
from environments.sink import Channel


class ScriptOutput:
    """Takes a script's output; only standard output goes to the callback."""

    separate = True

    def __init__(self, settings: CodeExecutionSettings, on_output: OutputCallback | None) -> None:
        self._limits = {Channel.STDOUT: settings.max_stdout_bytes, Channel.STDERR: settings.max_stderr_bytes}
        self._captures = {channel: BoundedCapture(limit) for channel, limit in self._limits.items()}
        self._on_output = on_output
        self._live = LiveText()
        self._frozen = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel."""
        if self._frozen:
            return
        self._captures[channel].add(data)
        if self._on_output and channel is Channel.STDOUT and (text := self._live.feed(data)):
            self._on_output(text)

    def freeze(self) -> None:
        """Take nothing more: what is printed while the script is being ended is not its output."""
        self._frozen = True

    def stdout(self) -> str:
        """Return what was kept of standard output."""
        return self._text(Channel.STDOUT)

    def stderr(self) -> str:
        """Return what was kept of standard error."""
        return self._text(Channel.STDERR)

    def _text(self, channel: Channel) -> str:
        return with_truncation_notice(self._captures[channel].text(), self._limits[channel])
