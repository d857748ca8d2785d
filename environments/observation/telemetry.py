"""OpenTelemetry: spans and metrics of operations, if the program has set up OpenTelemetry; see docs/records.md.

Imported only if `opentelemetry` is imported already.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import metrics, trace

from environments.observation.events import Event, Observer, Operation
from environments.observation.record import Fitting

NAME = "hermes_environments"
"""Name of tracer and meter, and prefix of the metrics."""
_Value = str | int | float | bool | list[str]

_AT_BEGIN = {
    "operation": "hermes.operation",
    "way": "hermes.way",
    "session": "hermes.session",
    "mode": "hermes.script.mode",
    "transport": "hermes.script.transport",
    "pty": "process.interactive",
    "cwd": "process.working_directory",
    "user": "process.user.name",
    "tool": "gen_ai.tool.name",
}
_AT_END = {
    "status": "hermes.status",
    "exit_code": "process.exit.code",
    "waited": "hermes.waited",
    "approval": "hermes.approval",
    "output_bytes": "hermes.output.size",
    "omitted_bytes": "hermes.output.omitted",
    "tool_calls": "hermes.script.tool_calls",
    "bytes": "hermes.transfer.size",
}
_TEXTS = {
    "command": "process.command_line",
    "script": "hermes.script.source",
    "path": "file.path",
}
"""Attributes that require `telemetry_text`."""
_OF_TARGETS = {"container": "container.id", "host": "host.name", "machine": "host.name"}


class Telemetry(Observer):
    """Reports each operation as a span and by metrics."""

    def __init__(self) -> None:
        self._tracers: trace.TracerProvider | None = None
        self._meters: metrics.MeterProvider | None = None

    def is_wanted(self) -> bool:
        """Return True if the program has set up tracing or metrics; stores the providers."""
        tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
        if tracers is not self._tracers:
            self._tracer = tracers.get_tracer(NAME, _version())
            self._tracers = tracers
        if meters is not self._meters:
            self._instruments = _Instruments(meters.get_meter(NAME, _version()))
            self._meters = meters
        return not (isinstance(tracers, trace.ProxyTracerProvider) and type(meters).__name__ == "_ProxyMeterProvider")

    def begun(self, operation: Operation, outer: object | None) -> trace.Span:
        dimensions = _dimensions(operation)
        self._instruments.active.add(1, dimensions)
        span = self._tracer.start_span(_span_name(operation), attributes=dimensions)
        if span.is_recording():
            facts = operation.facts()
            span.set_attributes(_named(_AT_BEGIN, facts))
            if environment := operation.environment:
                span.set_attribute("hermes.task", environment.task_id)
            if operation.batch_task is not None:
                span.set_attribute("hermes.batch_task", str(operation.batch_task))
            if operation.kind == "tool_call":
                span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attributes(_texts(operation, _TEXTS, facts))
        operation.block.enter_context(
            trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False)
        )
        return span

    def happened(self, event: Event, mark: object | None) -> None:
        if event.name == "note":  # a pulled image has thousands of notes
            return
        span = mark if isinstance(mark, trace.Span) else trace.get_current_span()
        with_text = event.environment and event.environment.telemetry_text
        told = {f"hermes.{key}": value for key, value in event.facts.items() if isinstance(value, str | int | float)}
        span.add_event(f"hermes.{event.name}", told if with_text else {})

    def ended(self, operation: Operation, mark: object) -> None:
        dimensions = _dimensions(operation)
        self._instruments.active.add(-1, dimensions)
        failure = _error_type(operation)
        outcome = {**dimensions, "hermes.status": str(operation.ending.get("status")), **failure}
        self._instruments.measure(operation, dimensions, outcome)
        assert isinstance(mark, trace.Span)
        if mark.is_recording():
            mark.set_attributes({**_named(_AT_END, operation.ending), **failure, **_target(operation)})
            mark.set_attributes(_texts(operation, {"error": "error.message"}, operation.ending))
            if failure:
                mark.set_status(trace.StatusCode.ERROR, str(operation.ending.get("status")))
        mark.end()


class _Instruments:
    def __init__(self, meter: metrics.Meter) -> None:
        self.active = meter.create_up_down_counter(f"{NAME}.active", "{operation}", "Operations in progress.")
        self._operations = meter.create_counter(f"{NAME}.operations", "{operation}", "Finished operations.")
        self._duration = meter.create_histogram(f"{NAME}.duration", "s", "Duration of an operation.")
        self._of_endings = {
            "waited": meter.create_histogram(
                f"{NAME}.waited", "s", "Part of the duration before the target received the command."
            ),
            "output_bytes": meter.create_histogram(
                f"{NAME}.output.size", "By", "Bytes printed by commands and scripts."
            ),
            "bytes": meter.create_histogram(f"{NAME}.transfer.size", "By", "Bytes moved by transfers."),
        }

    def measure(self, operation: Operation, dimensions: Mapping[str, str], outcome: Mapping[str, str]) -> None:
        """Record the metrics of a finished operation."""
        self._operations.add(1, outcome)
        self._duration.record(operation.seconds, outcome)
        for key, histogram in self._of_endings.items():
            value = operation.ending.get(key)
            if isinstance(value, int | float):
                histogram.record(value, dimensions)


telemetry = Telemetry()
"""The instance of this process."""


def _version() -> str:
    try:
        return version("hermes-environments")
    except PackageNotFoundError:
        return ""


def _span_name(operation: Operation) -> str:
    """Return a span name of low cardinality, without the command."""
    if operation.kind == "tool_call":
        return f"execute_tool {operation.name}"
    what = operation.name if operation.kind in ("transfer", "file") else operation.kind
    return f"{what} {operation.environment.backend}" if operation.environment else what


def _dimensions(operation: Operation) -> dict[str, str]:
    of_tool = {"gen_ai.tool.name": operation.name} if operation.kind == "tool_call" else {}
    of_place = {"hermes.backend": operation.environment.backend} if operation.environment else {}
    return {"hermes.kind": operation.kind, **of_place, **of_tool}


def _error_type(operation: Operation) -> dict[str, str]:
    if operation.ending.get("status") == "success":
        return {}
    return {"error.type": str(operation.ending.get("error_type") or operation.ending.get("status"))}


def _target(operation: Operation) -> dict[str, str]:
    if operation.environment is None or operation.environment.target is None:
        return {}
    kind, name = operation.environment.target
    return {_OF_TARGETS.get(kind, f"hermes.{kind}.id"): name}


def _named(names: Mapping[str, str], facts: Mapping[str, object]) -> dict[str, _Value]:
    known = {name: facts.get(key) for key, name in names.items()}
    return {name: value for name, value in known.items() if isinstance(value, str | int | float)}


def _texts(operation: Operation, names: Mapping[str, str], facts: Mapping[str, object]) -> dict[str, str]:
    if not (operation.environment and operation.environment.telemetry_text):
        return {}
    fitting = Fitting(operation.redactor())
    return {name: str(fitting.value(key, facts[key])) for key, name in names.items() if isinstance(facts.get(key), str)}
