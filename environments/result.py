"""Results of commands, and capabilities of backends."""

from __future__ import annotations

from dataclasses import dataclass, field

from environments.output import CapturedText

TIMEOUT_EXIT_CODE = 124
"""Exit code of `timeout(1)` for a command past its time-out."""
DENIED_EXIT_CODE = 126
"""Exit code of a shell for a command without permission to run."""
INTERRUPT_EXIT_CODE = 130
"""128 + SIGINT: exit code of a shell for a command interrupted from the keyboard."""
KILLED_EXIT_CODE = 137
"""128 + SIGKILL: exit code of a shell for a killed command, such as by the kernel's out-of-memory killer."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command."""

    output: str
    """Standard output, merged with standard error in the order written, unless stderr is captured separately."""
    exit_code: int
    """Exit code of the command; 124 after a time-out, 130 after an interrupt."""
    stderr: str | None = None
    """Standard error with `stderr="separate"`, else None."""
    output_bytes: bytes | None = field(default=None, repr=False)
    """The bytes of `output` with `binary=True`, else None."""
    stderr_bytes: bytes | None = field(default=None, repr=False)
    """The bytes of `stderr` with `binary=True`, else None."""
    timed_out: bool = False
    """True if the command was ended at its time-out. A command may also exit 124 by itself."""
    interrupted: bool = False
    """True if the command was ended by `interrupt()`. A command may also exit 130 by itself."""
    cwd: str = ""
    """Working directory after the command."""
    duration_seconds: float = 0.0
    """Wall-clock seconds from sending the command to receiving the result."""
    omitted_bytes: int = 0
    """Bytes cut from the middle of the output (and of stderr) because of the limit."""
    omitted_at: int = 0
    """Index in `output` of the cut, between head and tail."""
    survivors: tuple[int, ...] = ()
    """Process ids, in the target, of processes that survived a time-out or an interrupt; normally empty. Such a
    process may belong to another user, or wait in the kernel for a device."""
    note: str | None = None
    """For exit code 137, the exceeded limit of the target, with its value; else None."""

    @property
    def ok(self) -> bool:
        """True if the command exited by itself with code 0."""
        return self.exit_code == 0

    @property
    def captured(self) -> CapturedText:
        """`output` with its cut: `result.captured.with_count()` marks the cut by a line."""
        return CapturedText(self.output, self.omitted_bytes, self.omitted_at)

    @classmethod
    def never_ran(cls, cwd: str) -> CommandResult:
        """Return the result of a command whose scope was cancelled before the start."""
        return cls("", INTERRUPT_EXIT_CODE, interrupted=True, cwd=cwd)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a backend on a started target."""

    persistent_session: bool = True
    """True if one shell runs all commands of the session, see `EnvironmentSettings.persistent_shell`."""
    pty: bool = True
    """True if `start(pty=True)` works."""
    duplex: bool = True
    """True if the handle of `start` can write to the running process."""
    same_machine: bool = False
    """True if the target shares files, sockets and processes with this machine."""
    shell: str = "bash"
    """`bash`, or `sh` for any other POSIX shell."""
    enforced_limits: frozenset[str] = field(default_factory=frozenset)
    """Names of the resource settings that the backend enforces, such as `container_memory`."""
