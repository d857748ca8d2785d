"""What a script prints: standard output and standard error, each kept up to its limit."""

from __future__ import annotations

from code_execution.result import with_truncation_notice
from code_execution.settings import CodeExecutionSettings
from environments.call import OutputCallback
from environments.capture import BoundedCapture, LiveText
from environments.model_view import ModelView
from environments.sink import Channel


class ScriptOutput:
    """Takes a script's output; only standard output goes to the callback.

    Args:
        settings: How much is kept.
        on_output: The callback.
        view: What the output is to look like to a model.
    """

    separate = True

    def __init__(self, settings: CodeExecutionSettings, on_output: OutputCallback | None, view: ModelView) -> None:
        self._limits = {Channel.STDOUT: settings.max_stdout_bytes, Channel.STDERR: settings.max_stderr_bytes}
        self._captures = {channel: BoundedCapture(limit) for channel, limit in self._limits.items()}
        self._on_output = on_output
        self._view = view
        self._live = LiveText()
        self._shown = view.pieces()
        self._frozen = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel."""
        if self._frozen:
            return
        self._captures[channel].add(data)
        if self._on_output and channel is Channel.STDOUT:
            self._show(data)

    def _show(self, data: bytes, final: bool = False) -> None:
        if self._on_output and (text := self._shown.feed(self._live.feed(data, final), final)):
            self._on_output(text)

    def finish(self) -> None:
        """Show what was held back as a character, a control or a secret may have begun with it. Nothing more comes."""
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
