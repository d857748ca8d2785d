"""What comes of a command, and what a backend says that it can do."""

from __future__ import annotations

from dataclasses import dataclass, field

from environments.output import CapturedText

TIMEOUT_EXIT_CODE = 124
"""What `timeout(1)` returns for a command that ran out of time."""
DENIED_EXIT_CODE = 126
"""What a shell returns for a command that it may not run."""
INTERRUPT_EXIT_CODE = 130
"""128 + SIGINT, what a shell returns for a command ended from the keyboard."""


KILLED_EXIT_CODE = 137
"""128 + SIGKILL, what a shell returns for a command that somebody ended at once, such as the kernel for its memory."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What came of one command."""

    output: str
    """Standard output, with standard error merged in where it was written, unless captured apart."""
    exit_code: int
    """The command's own exit code; 124 when it timed out and 130 when it was interrupted."""
    stderr: str | None = None
    """Standard error when it was asked for apart (`stderr="separate"`), else None."""
    output_bytes: bytes | None = field(default=None, repr=False)
    """What `output` is made of, byte for byte, when that was asked for (`binary=True`), else None."""
    stderr_bytes: bytes | None = field(default=None, repr=False)
    """The same of `stderr`."""
    timed_out: bool = False
    """Whether the command was ended because its time was up. A command may also exit 124 by itself."""
    interrupted: bool = False
    """Whether the command was ended by `interrupt()`. A command may also exit 130 by itself."""
    cwd: str = ""
    """The working directory when the command ended."""
    duration_seconds: float = 0.0
    """Wall-clock time from sending the command to having its result."""
    omitted_bytes: int = 0
    """How many bytes of output (and of stderr) were left out of the middle because of the cap."""
    omitted_at: int = 0
    """Where in `output` the left-out bytes were: an index between the kept head and the kept tail."""
    survivors: tuple[int, ...] = ()
    """Process ids, in the target, of what could not be ended when the command timed out or was interrupted; mostly
    none. They may be another user's, or wait in the kernel for a device."""
    note: str | None = None
    """What ended a command with exit code 137, if it was a limit of the target: which one, and what it is set to."""

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with exit code 0."""
        return self.exit_code == 0

    @property
    def captured(self) -> CapturedText:
        """`output` with its omission: `result.captured.with_count()` has a line where bytes were left out."""
        return CapturedText(self.output, self.omitted_bytes, self.omitted_at)

    @classmethod
    def never_ran(cls, cwd: str) -> CommandResult:
        """Return the result of a command whose scope was cancelled before it began."""
        return cls("", INTERRUPT_EXIT_CODE, interrupted=True, cwd=cwd)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend, as it was found when it started, can do."""

    persistent_session: bool = True
    """Whether one shell runs all commands of the session, see `EnvironmentSettings.persistent_shell`."""
    pty: bool = True
    """Whether `start(pty=True)` is possible."""
    duplex: bool = True
    """Whether a process that `start` started can be written to while it runs."""
    same_machine: bool = False
    """Whether the target shares this machine's files, sockets and processes."""
    shell: str = "bash"
    """`bash`, or `sh` for any other POSIX shell."""
    enforced_limits: frozenset[str] = field(default_factory=frozenset)
    """Names of the resource settings this backend enforces, such as `container_memory`."""
