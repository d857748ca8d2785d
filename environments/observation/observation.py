"""One thing that is done, and what those who look on are told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self

from environments.cancellation import holding
from environments.errors import CallCancelledError, DeniedError, EnvironmentLostError, StartStoppedError
from environments.log import logger

if TYPE_CHECKING:
    from environments.observation.watched import Watched

log = logger(__name__)

Kind = Literal["start", "command", "script", "tool_call", "transfer", "file", "process"]
Status = Literal["success", "error", "timeout", "interrupted", "cancelled", "denied", "lost", "failed"]
Facts = Mapping[str, object]
"""What is known, by the keys of docs/records.md. A value of None is not known."""

NO_FACTS: Facts = {}


class Redacts(Protocol):
    """Takes the values of secrets out of text, see `Redactor`."""

    def text(self, text: str, *, cut_before: bool = False, cut_behind: bool = False) -> str:
        """Return a text without secrets."""


class Observer(Protocol):
    """Looks on. What it raises is logged, and nothing else comes of it."""

    def begun(self, seen: Observation, outer: object | None) -> object:
        """Note that something begins.

        Args:
            seen: What it is.
            outer: What this returned for the thing that it is done for; None if there is none.

        Returns:
            What the other methods are given.
        """

    def active(self, mark: object) -> AbstractContextManager[object]:
        """Return what makes it the thing that the current thread is at."""

    def noted(self, mark: object | None, seen: Observation, text: str, done: int | None, total: int | None) -> None:
        """Note how far it is."""

    def ended(self, mark: object, seen: Observation) -> None:
        """Note that it has ended, with all that it then holds."""


class Observation:
    """What is told of one thing. It begins and ends with a `with` block, unless it `goes_on` behind that.

    Args:
        kind: What kind of thing it is.
        name: What people call it: a command, a tool, a path.
        facts: Tells what is known when it begins.
        place: The environment it is done in; None is that of what it is done for.
        observers: Who looks on.
        outer: What it is done for.
    """

    def __init__(
        self,
        kind: Kind,
        name: str,
        facts: Callable[[], Facts],
        place: Watched | None,
        observers: tuple[Observer, ...],
        outer: Observation | None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.facts = facts
        self.place: Watched | None = place or (outer.place if outer else None)
        self.ending: dict[str, object] = {}
        """What is known when it has ended."""
        self.began_at = 0.0
        """When it began, in seconds since 1970."""
        self.seconds = 0.0
        """How long it took."""
        self.observers = observers
        """Who looks on."""
        self._variables: Mapping[str, str] = {}
        self._outer = outer
        self._marks: dict[Observer, object] = {}
        self._began = 0.0
        self._approval = 0.0
        self._goes_on = self._has_ended = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.began_at, self._began = time.time(), time.monotonic()
        for observer in self.observers:
            mark = _safely(lambda o=observer: o.begun(self, self._outer_mark(o)))  # type: ignore[misc]
            if mark is not None:
                self._marks[observer] = mark
        self._stack.enter_context(self.active())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if error is not None:
            self.failed(error)
        if error is not None or not self._goes_on:
            self.end()

    def _outer_mark(self, observer: Observer) -> object | None:
        outer = self._outer
        while outer is not None and observer not in outer._marks:
            outer = outer._outer
        return outer._marks[observer] if outer else None

    def active(self) -> AbstractContextManager[object]:
        """Return what makes this the thing that what the current thread does in the block is done for."""
        stack = ExitStack()
        stack.enter_context(holding(CURRENT, self))
        for observer, mark in self._marks.items():
            _safely(lambda o=observer, m=mark: stack.enter_context(o.active(m)))  # type: ignore[misc]
        return stack

    def tell(self, **facts: object) -> None:
        """Say more of how it ends, by the keys of docs/records.md. What was said before stays unless said again."""
        self.ending.update(facts)

    def given(self, variables: Mapping[str, str]) -> Self:
        """Note the variables that it alone has, some of which may be secrets, and return it."""
        self._variables = variables
        return self

    def redactor(self) -> Redacts | None:
        """Return what takes the secrets that are known now out of what is told of it; None where none is known."""
        return self.place.redactor(self._variables) if self.place else None

    @property
    def takes_notes(self) -> bool:
        """Whether it is something that is told how far it is."""
        return self.kind in ("start", "transfer")

    def is_of_files(self, place: Watched) -> bool:
        """Whether it is a file call in that environment."""
        return self.kind in ("transfer", "file") and self.place is place

    def note(self, text: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Say how far it is, in bytes; at the end of a transfer, how many there were."""
        if not self.takes_notes:
            return
        if complete and self.kind == "transfer":
            self.tell(bytes=done)
        for observer, mark in self._marks.items():
            _safely(lambda o=observer, m=mark: o.noted(m, self, text, done, total))  # type: ignore[misc]

    def approved_after(self, seconds: float) -> None:
        """Say that an approval took so many seconds of it."""
        self._approval += seconds

    def failed(self, error: BaseException) -> None:
        """Say that it ended with an exception."""
        self.tell(status=status_of(error), error=_text_of(error), error_type=type(error).__name__)
        if output := getattr(error, "output", None):
            self.ending.setdefault("output", output)

    def target_told(self) -> None:
        """Say that the target was told just now, and that all before was waiting."""
        self.tell(waited=time.monotonic() - self._began)

    def goes_on(self) -> None:
        """Have it not end with the block, if that raises nothing, but with `end`."""
        self._goes_on = True

    def end(self, **facts: object) -> None:
        """Let it end now, and say how, see `tell`. It ends once."""
        if self._has_ended:
            return
        self._has_ended = True
        self.tell(**facts)
        self.seconds = time.monotonic() - self._began
        if self._approval:
            self.tell(approval=self._approval)
        if (ran := self.ending.pop("ran", None)) is not None:
            self.tell(waited=max(0.0, self.seconds - float(ran)))  # type: ignore[arg-type]
        self.ending.setdefault("status", "success")
        for observer, mark in self._marks.items():
            _safely(lambda o=observer, m=mark: o.ended(m, self))  # type: ignore[misc]


class _Unobserved(Observation):
    """What nobody looks at."""

    def __init__(self) -> None:
        super().__init__("command", "", lambda: NO_FACTS, None, (), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def active(self) -> AbstractContextManager[object]:
        return nullcontext()

    def given(self, variables: Mapping[str, str]) -> Self:
        return self

    def tell(self, **facts: object) -> None:
        pass

    def approved_after(self, seconds: float) -> None:
        pass

    def failed(self, error: BaseException) -> None:
        pass

    def target_told(self) -> None:
        pass

    def goes_on(self) -> None:
        pass

    def end(self, **facts: object) -> None:
        pass


UNOBSERVED = _Unobserved()
"""Stands for everything that nobody looks at. It holds nothing."""
CURRENT: ContextVar[Observation | None] = ContextVar("hermes_observation", default=None)
"""What the current thread is at."""


def _safely(tell: Callable[[], object]) -> object | None:
    """Call somebody who looks on. An error of theirs is logged, with no text of what they were told."""
    try:
        return tell()
    except Exception as error:
        log.warning("somebody who looks on failed: %s", type(error).__name__)
        return None


def _text_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # of a class of somebody else's
        return type(error).__name__


def status_of(error: BaseException) -> Status:
    """Return how something ended that raised an exception."""
    if isinstance(error, StartStoppedError):
        return "timeout" if error.timed_out else "interrupted"
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return "failed"


_STATUSES: tuple[tuple[type[BaseException], Status], ...] = (
    (DeniedError, "denied"),
    (CallCancelledError, "cancelled"),
    (EnvironmentLostError, "lost"),
    (KeyboardInterrupt, "interrupted"),
)
