"""The checked arguments of one command."""

from __future__ import annotations

from dataclasses import dataclass

from environments.base import OutputCallback


@dataclass(frozen=True, slots=True)
class Call:
    """What `execute`, `execute_oneshot` or `start` was asked for."""

    command: str
    cwd: str | None
    timeout: float
    """Seconds; infinite for no limit."""
    stdin: bytes = b""
    separate: bool = False
    """Whether stderr is captured apart."""
    on_output: OutputCallback | None = None


def checked_call(
    command: str,
    *,
    cwd: str | None,
    timeout: float,
    stdin: str | bytes | None = None,
    stderr: str = "merge",
    on_output: OutputCallback | None = None,
) -> Call:
    """Check the arguments of a command.

    Raises:
        ValueError: One of them has a value that no backend can take.
    """
    if "\0" in command:
        raise ValueError(
            "the command holds a NUL character, which no shell can take; write \\0 and have printf make it"
        )
    if cwd is not None and (not cwd or "\0" in cwd):
        raise ValueError(f"cwd is {cwd!r}; give a directory of the target, or None for the session's")
    if stderr not in ("merge", "separate"):
        raise ValueError(f"stderr is {stderr!r}; allowed: 'merge', 'separate'")
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout} s; give a positive number, or math.inf for no limit")
    data = stdin.encode() if isinstance(stdin, str) else stdin or b""
    return Call(command, cwd, timeout, data, stderr == "separate", on_output)
