"""Operations of environments, and the observers that are told of them: a record in a file, OpenTelemetry.

An operation is a start, a command, a script, a call of a tool, a transfer, a call for files or a background process.
An observer has three callbacks: for its begin, for what happens meanwhile, and for its end. An operation without
observers is `UNOBSERVED`, and costs next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, ParamSpec, Protocol, Self

from environments.cancellation import current_scope, holding
from environments.errors import CallCancelledError, DeniedError, EnvironmentLostError, StartStoppedError
from environments.log import logger
from environments.redaction import Redactor

if TYPE_CHECKING:
    from environments.observation.observed import Observation

log = logger(__name__)

OperationKind = Literal["start", "command", "script", "tool_call", "transfer", "file", "process"]
Status = Literal["success", "error", "timeout", "interrupted", "cancelled", "denied", "lost", "failed"]
Facts = Mapping[str, object]
"""Values by the keys of docs/records.md. None is a value that is not known."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens at one moment."""

    name: str
    """The `event` of its line in a record, such as `note` or `network_refused`."""
    facts: Facts
    environment: Observation | None
    """Where it happens."""


class Observer(Protocol):
    """Receives operations and events. An exception that it raises is logged, and changes nothing else."""

    def begun(self, operation: Operation, outer: object | None) -> object:
        """Handle the begin of an operation.

        Args:
            operation: The operation. Its `block` is closed, in the same thread, when its `with` block ends.
            outer: The mark of the operation that it is part of; None if there is none.

        Returns:
            The operation's mark, an argument of the other callbacks.
        """

    def happened(self, event: Event, mark: object | None) -> None:
        """Handle an event.

        Args:
            event: The event.
            mark: The mark of the operation that it is part of; None if there is none.
        """

    def ended(self, operation: Operation, mark: object) -> None:
        """Handle the end of an operation, whose `ending` is complete."""


class Operation:
    """Reports one operation to its observers. It lasts as long as a `with` block, or to `end` after `keep_open`.

    Args:
        kind: Its kind.
        name: A name for people: the command, the tool, the path.
        facts: Returns the facts that are known at its begin.
        environment: Where it is done; None is that of the outer operation.
        observers: Receive it.
        outer: The operation that it is part of.
    """

    def __init__(
        self,
        kind: OperationKind,
        name: str,
        facts: Callable[[], Facts],
        environment: Observation | None,
        observers: tuple[Observer, ...],
        outer: Operation | None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.facts = facts
        self.environment: Observation | None = environment or (outer.environment if outer else None)
        self.batch_task = self.environment.batch_task if self.environment else None
        """See `Observation.batch_task`, when it was made."""
        self.ending: dict[str, object] = {}
        """The facts that are known at its end."""
        self.began_at = 0.0
        """Seconds since 1970."""
        self.seconds = 0.0
        """How long it took."""
        self.observers = observers
        """Receive it."""
        self.block = ExitStack()
        """Closed at the end of the `with` block."""
        self._outer = outer
        self._variables: Mapping[str, str] = {}
        self._marks: dict[Observer, object] = {}
        self._began = 0.0
        self._is_kept_open = self._has_ended = False

    def __enter__(self) -> Self:
        if not self.observers:
            return self
        self.began_at, self._began = time.time(), time.monotonic()
        for observer in self.observers:
            mark = safely(observer.begun, self, self._outer.mark_of(observer) if self._outer else None)
            if mark is not None:
                self._marks[observer] = mark
        self.block.enter_context(holding(CURRENT, self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.observers:
            return
        self.block.close()
        if error is not None:
            self.add_error(error)
        if error is not None or not self._is_kept_open:
            self.end()

    def mark_of(self, observer: Observer) -> object | None:
        """Return the mark that an observer gave it, or one that it is part of; None if there is none."""
        if observer in self._marks:
            return self._marks[observer]
        return self._outer.mark_of(observer) if self._outer else None

    def with_variables(self, variables: Mapping[str, str]) -> Self:
        """Add the variables of this operation alone, some of which may be secrets, and return it."""
        if self.observers:
            self._variables = variables
        return self

    def redactor(self) -> Redactor:
        """Return what removes the secrets that are known now from its texts."""
        return self.environment.redactor(self._variables) if self.environment else Redactor.of({})

    @property
    def takes_notes(self) -> bool:
        """True if its progress is reported, see `note`."""
        return self.kind in ("start", "transfer")

    def is_of_files(self, environment: Observation) -> bool:
        """Return whether it is a call for files in an environment."""
        return self.kind in ("transfer", "file") and self.environment is environment

    def note(self, text: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Report its progress, in bytes; at the end of a transfer, its size."""
        if not self.takes_notes:
            return
        if complete and self.kind == "transfer":
            self.add_facts(bytes=done)
        event = Event("note", {"text": text, "done": done, "total": total}, self.environment)
        for observer, mark in self._marks.items():
            safely(observer.happened, event, mark)

    def add_facts(self, **facts: object) -> None:
        """Add facts of its end, by the keys of docs/records.md. The last value of a key counts."""
        if self.observers:
            self.ending.update(facts)

    def add_error(self, error: BaseException) -> None:
        """Add the exception that it ended with."""
        self.add_facts(status=status_of(error), error=_text_of(error), error_type=type(error).__name__)
        if (output := getattr(error, "output", None)) and "output" not in self.ending:
            self.add_facts(output=output)

    def add_approval(self, seconds: float) -> None:
        """Add the seconds that an approval took."""
        self.add_facts(approval=seconds + float(self.ending.get("approval", 0.0)))  # type: ignore[arg-type]

    def mark_sent(self) -> None:
        """Mark this moment as the end of all waiting: the target has the command now."""
        self.add_facts(waited=time.monotonic() - self._began)

    def keep_open(self) -> None:
        """Have it last beyond its `with` block, unless that raises, until `end` is called."""
        self._is_kept_open = bool(self.observers)

    def end(self, **facts: object) -> None:
        """End it, with more facts, see `add_facts`. Further calls do nothing."""
        if self._has_ended or not self.observers:
            return
        self._has_ended = True
        self.add_facts(**facts)
        self.seconds = time.monotonic() - self._began
        if (ran := self.ending.pop("ran", None)) is not None:
            self.add_facts(waited=max(0.0, self.seconds - float(ran)))  # type: ignore[arg-type]
        self.ending.setdefault("status", "success")
        for observer, mark in self._marks.items():
            safely(observer.ended, self, mark)


UNOBSERVED = Operation("command", "", dict, None, (), None)
"""The operation without observers. It holds nothing, and all of them share it."""
CURRENT: ContextVar[Operation | None] = ContextVar("hermes_operation", default=None)
"""The operation that the current thread or task works on."""


def current_operation() -> Operation:
    """Return the operation that the current thread or task works on."""
    return CURRENT.get() or UNOBSERVED


def interruption() -> Status:
    """Return the status of an operation that was interrupted: `cancelled` if its scope was."""
    scope = current_scope()
    return "cancelled" if scope and scope.cancelled else "interrupted"


def status_of(error: BaseException) -> Status:
    """Return the status of an operation that raised an exception."""
    if isinstance(error, StartStoppedError):
        return "timeout" if error.timed_out else "interrupted"
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), "failed")


_STATUSES: tuple[tuple[type[BaseException], Status], ...] = (
    (DeniedError, "denied"),
    (CallCancelledError, "cancelled"),
    (EnvironmentLostError, "lost"),
    (KeyboardInterrupt, "interrupted"),
)


_Args = ParamSpec("_Args")


def safely(callback: Callable[_Args, object], *args: _Args.args, **kwargs: _Args.kwargs) -> object | None:
    """Call an observer. An exception is logged, without the text of its message."""
    try:
        return callback(*args, **kwargs)
    except Exception as error:
        log.warning("an observer failed: %s", type(error).__name__)
        return None


def _text_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # of a class from elsewhere
        return type(error).__name__
