"""The family of errors that this package raises."""

from __future__ import annotations


class TerminalError(Exception):
    """The root of every error this package raises."""


class EnvironmentStartError(TerminalError):
    """The target could not be started or reached."""


class StartStoppedError(EnvironmentStartError):
    """A start was stopped from outside before the target was up, and what it had made by then was removed.

    `timed_out` says whether that was a time limit, and not an interrupt, a cancelled scope or `cleanup`.
    """

    def __init__(self, message: str, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class EnvironmentLostError(TerminalError):
    """The target went away while it was in use: container removed, link dropped, parent killed.

    `output` holds what the command had printed by then. Whether the command had finished cannot be known,
    so it is never sent again.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class UnsupportedError(TerminalError):
    """The backend cannot do what was asked, and refuses it instead of doing less."""


class SettingsError(TerminalError):
    """A setting is unknown or has a value that is not allowed. The message names source, key and remedy."""


DENIED = "denied, and nothing was run"
"""What the message of a `DeniedError` begins with."""


class DeniedError(TerminalError):
    """A hook, a rule or a person did not allow it, so that nothing was run. `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{DENIED}: {reason}")
        self.reason = reason


class MissingExtraError(TerminalError, ImportError):
    """The backend's client library is not installed. The message names the pip extra that brings it."""
