"""What a script prints: standard output and standard error, each kept up to its limit."""

from __future__ import annotations

from code_execution.beginning import Beginning
from code_execution.result import with_truncation_notice
from code_execution.settings import CodeExecutionSettings
from code_execution.short_paths import ShortPaths
from environments.model_view import ModelView
from environments.output import BoundedCapture, Channel, LiveText, TextCallback


class ScriptOutput:
    """Takes a script's output; only standard output goes to the callback.

    Args:
        settings: How much is kept.
        on_output: The callback.
        view: What the output is to look like to a model.
    """

    separate = True

    def __init__(self, settings: CodeExecutionSettings, on_output: TextCallback | None, view: ModelView) -> None:
        self._limits = {Channel.STDOUT: settings.max_stdout_bytes, Channel.STDERR: settings.max_stderr_bytes}
        self._captures = {channel: BoundedCapture(limit) for channel, limit in self._limits.items()}
        self._on_output = on_output
        self._view = view
        self._live = LiveText()
        self._shown = view.pieces()
        self._frozen = False
        self.beginning = Beginning()
        """What the script's start says to us between what others say on standard error."""
        self._paths: dict[Channel, ShortPaths] = {}

    def shorten_paths(self, directory: str) -> None:
        """Show the paths of the script and its stub without their directory: those in tracebacks, and all on stderr."""
        self._paths = {channel: ShortPaths(directory, in_tracebacks=channel is Channel.STDOUT) for channel in Channel}

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel."""
        if not self._frozen:
            self._take(channel, data)
        elif channel is Channel.STDERR:
            self.beginning.feed(data)

    def _take(self, channel: Channel, data: bytes, final: bool = False) -> None:
        if channel is Channel.STDERR:
            data = self.beginning.feed(data, final)
        if paths := self._paths.get(channel):
            data = paths.feed(data, final)
        self._captures[channel].add(data)
        if self._on_output and channel is Channel.STDOUT:
            self._show(data)

    def _show(self, data: bytes, final: bool = False) -> None:
        if self._on_output and (text := self._shown.feed(self._live.feed(data, final), final)):
            self._on_output(text)

    def finish(self) -> None:
        """Take and show what was held back as something longer may have begun with it. Nothing more comes."""
        for channel in Channel:
            self._take(channel, b"", final=True)
        self._show(b"", final=True)

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
        captured = self._view.captured(self._captures[channel].text())
        return with_truncation_notice(captured, self._limits[channel])
