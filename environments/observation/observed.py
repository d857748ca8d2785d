"""The operations of one environment, and the choice of their observers."""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping
from types import CodeType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from environments.observation.events import (
    CURRENT,
    UNOBSERVED,
    Event,
    Facts,
    Observer,
    Operation,
    OperationKind,
    current_operation,
    interruption,
    safely,
)
from environments.options import CheckedCommand
from environments.output import CapturedText, byte_size
from environments.redaction import Redactor
from environments.result import CommandResult
from environments.secrets import SecretValues, secret_among
from environments.settings import EnvironmentSettings

if TYPE_CHECKING:
    from environments.base import BaseEnvironment

_TRACE = "opentelemetry.trace"


def observed(
    kind: OperationKind,
    name: str,
    facts: Callable[[], Facts] = dict,
    environment: Observation | None = None,
    *observers: Observer,
) -> Operation:
    """Return a new operation, not begun.

    Its observers are the given ones, those of the enclosing operation, and OpenTelemetry if in use.

    Args:
        kind: Kind of the operation.
        name: Name for people.
        facts: Returns the facts known at the start. Called only with observers.
        environment: Environment of the operation.
        observers: Observers of this operation.
    """
    outer = CURRENT.get()
    if outer is not None or len(observers) > 1:
        observers = tuple(dict.fromkeys((*(outer.observers if outer else ()), *observers)))
    observers = _with_telemetry(observers)
    return Operation(kind, name, facts, environment, observers, outer) if observers else UNOBSERVED


def _with_telemetry(observers: tuple[Observer, ...]) -> tuple[Observer, ...]:
    """Add OpenTelemetry to observers, if the program has set up OpenTelemetry, beyond importing it."""
    if _TRACE not in sys.modules:
        return observers
    try:
        from environments.observation.telemetry import telemetry

        return (*observers, telemetry) if telemetry not in observers and telemetry.is_wanted() else observers
    except Exception:  # such as during an import in another thread
        return observers


class Observation:
    """Operations and observers of one environment.

    Args:
        settings: Settings with backend, task and record.
        secrets: Secrets of the environment, hidden from observers.

    Raises:
        SettingsError: The record cannot be written.
    """

    def __init__(self, settings: EnvironmentSettings, secrets: SecretValues) -> None:
        self.backend = settings.env
        self.task_id = settings.task_id
        self.batch_task: str | float | None = None
        """Id of the current batch task in the environment."""
        self.target: tuple[str, str] | None = None
        """Kind and id of the target, as in `Target`; set by the start."""
        self.telemetry_text = settings.telemetry_text
        """True if OpenTelemetry receives the text of commands and scripts."""
        self._secrets = secrets
        self._observers = (_recorder(settings.record),) if settings.record else ()

    def redactor(self, variables: Mapping[str, str]) -> Redactor:
        """Return a redactor for the secrets known now, including those among some variables."""
        return Redactor.of({**self._secrets.known(), **secret_among(variables)})

    @property
    def is_observed(self) -> bool:
        """True if an operation that begins now has observers."""
        return self.observed("file", "", dict) is not UNOBSERVED

    def observed(
        self,
        kind: OperationKind,
        name: str,
        facts: Callable[[], Facts],
        record: str | os.PathLike[str] | None = None,
    ) -> Operation:
        """Return a new operation in the environment, see the function of the same name.

        Args:
            kind: Kind of the operation.
            name: Name for people.
            facts: Returns the facts known at the start.
            record: Additional record for the operation and its parts.

        Raises:
            SettingsError: The record cannot be written.
        """
        more = () if record is None else (_recorder(record),)
        return observed(kind, name, facts, self, *self._observers, *more)

    def command(self, command: CheckedCommand, way: str, session: str | None = None) -> Operation:
        """Return the operation of a command.

        Args:
            command: The command.
            way: `session` or `oneshot`.
            session: Name of the session, if any.
        """
        asked = self.observed("command", command.judged, lambda: {**_facts(command), "way": way, "session": session})
        return asked.with_variables(command.env)

    def process(self, command: CheckedCommand, pty: bool) -> Operation:
        """Return the operation of a background command."""
        return self.observed("process", command.judged, lambda: {**_facts(command), "pty": pty}).with_variables(
            command.env
        )

    def start(self) -> Operation:
        """Return the operation of a target's start."""
        return self.observed("start", f"start {self.backend}", dict)

    def emit(self, name: str, **facts: object) -> None:
        """Emit an event in the environment, from any thread.

        Args:
            name: The `event` of its line in a record, such as `network_refused`.
            facts: Further keys of the line, see docs/records.md.
        """
        operation = current_operation()
        event = Event(name, facts, self)
        for observer in _with_telemetry(tuple(dict.fromkeys((*operation.observers, *self._observers)))):
            safely(observer.happened, event, operation.mark_of(observer))


def with_result(operation: Operation, result: CommandResult) -> CommandResult:
    """Add the result of a command to its operation, and return the result."""
    if operation is not UNOBSERVED:
        status = "timeout" if result.timed_out else interruption() if result.interrupted else None
        operation.add_facts(
            ran=result.duration_seconds,
            status=status or ("success" if result.ok else "error"),
            exit_code=result.exit_code,
            output=CapturedText(result.output, result.omitted_bytes, result.omitted_at),
            stderr=result.stderr,
            output_bytes=byte_size(result.output) + byte_size(result.stderr or "") + result.omitted_bytes,
            omitted_bytes=result.omitted_bytes or None,
            cwd=result.cwd or None,
            survivors=list(result.survivors) or None,
            note=result.note,
        )
    return result


def with_tool_result(operation: Operation, result: object) -> object:
    """Add the result of a tool to its operation, and return the result."""
    error = result.get("error") if isinstance(result, dict) else None
    operation.add_facts(result=result, status="error" if error else "success", error=str(error) if error else None)
    return result


_P = ParamSpec("_P")
_R = TypeVar("_R")
_Env = TypeVar("_Env", bound="BaseEnvironment")
_TRANSFERS = frozenset(("write_bytes", "read_bytes", "put_file", "get_file", "put_dir", "get_dir"))
_PATHS = {"remote": "path", "path": "path", "local": "local"}


def observed_call(method: Callable[Concatenate[_Env, _P], _R]) -> Callable[Concatenate[_Env, _P], _R]:
    """Return a file method that reports itself as an operation, unless called by another file method."""
    name = method.__name__
    kind: OperationKind = "transfer" if name in _TRANSFERS else "file"
    code: CodeType | None = getattr(inspect.unwrap(method), "__code__", None)
    names = code.co_varnames[1 : code.co_argcount] if code else ()

    @functools.wraps(method)
    def call(self: _Env, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if current_operation().is_of_files(self.observation):
            return method(self, *args, **kwargs)

        given = {**dict(zip(names, args, strict=False)), **kwargs}

        def facts() -> Facts:
            return {"operation": name, **{key: str(given[own]) for own, key in _PATHS.items() if own in given}}

        with self.observation.observed(kind, name, facts) as operation:
            result = method(self, *args, **kwargs)
            moved = result if name == "read_bytes" else given.get("data")
            if isinstance(moved, bytes | bytearray | memoryview):
                operation.add_facts(bytes=len(moved))
            return result

    return call


def _recorder(record: str | os.PathLike[str]) -> Observer:
    from environments.observation.record import Recorder  # rarely needed

    return Recorder.at(record)


def _facts(command: CheckedCommand) -> dict[str, object]:
    return {
        "command": command.judged,
        "cwd": command.cwd,
        "user": command.user,
        "timeout": command.timeout if math.isfinite(command.timeout) else None,
        "variables": sorted(command.env) or None,
        "input_bytes": len(command.stdin) or None,
    }
