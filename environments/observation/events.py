"""Operations of environments, and their observers: a record in a file, OpenTelemetry.

An operation is a start, a command, a script, a tool call, a transfer, a file call or a background process. An observer
has three callbacks: for the start, for events, and for the end. An operation without observers is `UNOBSERVED`, at
almost no cost.
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
"""Values by the keys of docs/records.md. None means unknown."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event at one moment."""

    name: str
    """The `event` of its line in a record, such as `note` or `network_refused`."""
    facts: Facts
    environment: Observation | None
    """Environment of the event."""


class Observer(Protocol):
    """Receives operations and events. Its exceptions are logged and ignored."""

    def begun(self, operation: Operation, outer: object | None) -> object:
        """Handle the beginning of an operation.

        Args:
            operation: The operation. Its `block` is closed at the end of its `with` block, in the same thread.
            outer: Mark of the enclosing operation; None without one.

        Returns:
            The operation's mark, an argument of the other callbacks.
        """

    def happened(self, event: Event, mark: object | None) -> None:
        """Handle an event.

        Args:
            event: The event.
            mark: Mark of the enclosing operation; None without one.
        """

    def ended(self, operation: Operation, mark: object) -> None:
        """Handle the end of an operation, with its `ending` complete."""


class Operation:
    """Reports an operation to its observers, for a `with` block, or until `end` after `keep_open`.

    Args:
        kind: Kind of the operation.
        name: Name for people: the command, the tool, the path.
        facts: Returns the facts known at the start.
        environment: Environment of the operation; None uses that of the enclosing operation.
        observers: Observers of the operation.
        outer: Enclosing operation.
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
        """`Observation.batch_task` at the creation of the operation."""
        self.ending: dict[str, object] = {}
        """Facts known at the end."""
        self.began_at = 0.0
        """Seconds since 1970."""
        self.seconds = 0.0
        """Duration in seconds."""
        self.observers = observers
        """Observers of the operation."""
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
        """Return an observer's mark of this or an enclosing operation; None without one."""
        if observer in self._marks:
            return self._marks[observer]
        return self._outer.mark_of(observer) if self._outer else None

    def with_variables(self, variables: Mapping[str, str]) -> Self:
        """Add the operation's own variables, for redaction of secrets, and return the operation."""
        if self.observers:
            self._variables = variables
        return self

    def redactor(self) -> Redactor:
        """Return a redactor for the secrets known now."""
        return self.environment.redactor(self._variables) if self.environment else Redactor.of({})

    @property
    def takes_notes(self) -> bool:
        """True if progress is reported, see `note`."""
        return self.kind in ("start", "transfer")

    def is_of_files(self, environment: Observation) -> bool:
        """True for a file call in the environment."""
        return self.kind in ("transfer", "file") and self.environment is environment

    def note(self, text: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Report progress in bytes; at the end of a transfer, its size."""
        if not self.takes_notes:
            return
        if complete and self.kind == "transfer":
            self.add_facts(bytes=done)
        event = Event("note", {"text": text, "done": done, "total": total}, self.environment)
        for observer, mark in self._marks.items():
            safely(observer.happened, event, mark)

    def add_facts(self, **facts: object) -> None:
        """Add facts about the end, by the keys of docs/records.md. Later values replace earlier ones."""
        if self.observers:
            self.ending.update(facts)

    def add_error(self, error: BaseException) -> None:
        """Add the final exception of the operation."""
        self.add_facts(status=status_of(error), error=_text_of(error), error_type=type(error).__name__)
        if (output := getattr(error, "output", None)) and "output" not in self.ending:
            self.add_facts(output=output)

    def add_approval(self, seconds: float) -> None:
        """Add the seconds of an approval."""
        self.add_facts(approval=seconds + float(self.ending.get("approval", 0.0)))  # type: ignore[arg-type]

    def mark_sent(self) -> None:
        """Mark the end of all waiting: the command is being sent to the target."""
        self.add_facts(waited=time.monotonic() - self._began)

    def keep_open(self) -> None:
        """Keep the operation open beyond a successful `with` block, until `end`."""
        self._is_kept_open = bool(self.observers)

    def end(self, **facts: object) -> None:
        """End the operation with more facts, see `add_facts`. Further calls do nothing."""
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
"""The shared operation without observers. Stores nothing."""
CURRENT: ContextVar[Operation | None] = ContextVar("hermes_operation", default=None)
"""Operation of the current thread or task."""


def current_operation() -> Operation:
    """Return the operation of the current thread or task."""
    return CURRENT.get() or UNOBSERVED


def interruption() -> Status:
    """Return the status of an interrupted operation: `cancelled` if its scope was cancelled."""
    scope = current_scope()
    return "cancelled" if scope and scope.cancelled else "interrupted"


def status_of(error: BaseException) -> Status:
    """Return the status of an operation for its exception."""
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
    """Call an observer. An exception is logged without its message."""
    try:
        return callback(*args, **kwargs)
    except Exception as error:
        log.warning("an observer failed: %s", type(error).__name__)
        return None


def _text_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # an external error class
        return type(error).__name__
