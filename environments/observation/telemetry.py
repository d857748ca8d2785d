"""Spans and metrics through the API of OpenTelemetry, where a program has set that up; see docs/telemetry.md.

It is imported only where `opentelemetry` is in use already.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import metrics, trace

from environments.observation.fitting import Fitting
from environments.observation.observation import Observation

NAME = "hermes_environments"
"""Of the tracer and of the meter, and what the names of metrics begin with."""
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
"""What is told only where `telemetry_text` is set."""
_OF_TARGETS = {"container": "container.id", "host": "host.name", "machine": "host.name"}


class Telemetry:
    """Makes a span and some measurements of whatever it looks at, see `Observer`."""

    def __init__(self) -> None:
        self._tracers: trace.TracerProvider | None = None
        self._meters: metrics.MeterProvider | None = None

    def is_wanted(self) -> bool:
        """Return whether a program has set up where spans or measurements go; and take note of it."""
        tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
        if tracers is not self._tracers:
            self._tracer = tracers.get_tracer(NAME, _version())
            self._tracers = tracers
        if meters is not self._meters:
            self._instruments = _Instruments(meters.get_meter(NAME, _version()))
            self._meters = meters
        return not (isinstance(tracers, trace.ProxyTracerProvider) and type(meters).__name__ == "_ProxyMeterProvider")

    def begun(self, seen: Observation, outer: object | None) -> trace.Span:
        """Start a span, see `Observer`."""
        dimensions = _dimensions(seen)
        self._instruments.active.add(1, dimensions)
        span = self._tracer.start_span(_span_name(seen), attributes=dimensions)
        if span.is_recording():
            facts = seen.facts()
            span.set_attributes(_named(_AT_BEGIN, facts))
            if place := seen.place:
                span.set_attribute("hermes.task", place.task_id)
            if seen.kind == "tool_call":
                span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attributes(_texts(seen, _TEXTS, facts))
        return span

    def active(self, mark: object) -> AbstractContextManager[object]:
        """Return what makes the span the current one, see `Observer`."""
        assert isinstance(mark, trace.Span)
        return trace.use_span(mark, end_on_exit=False, record_exception=False, set_status_on_exception=False)

    def noted(self, mark: object | None, seen: Observation, text: str, done: int | None, total: int | None) -> None:
        """Add nothing to a span: of a pulled image there would be thousands, see `Observer`."""

    def ended(self, mark: object, seen: Observation) -> None:
        """End the span, and measure, see `Observer`."""
        dimensions = _dimensions(seen)
        self._instruments.active.add(-1, dimensions)
        failure = _error_type(seen)
        outcome = {**dimensions, "hermes.status": str(seen.ending.get("status")), **failure}
        self._instruments.measure(seen, dimensions, outcome)
        assert isinstance(mark, trace.Span)
        if mark.is_recording():
            mark.set_attributes({**_named(_AT_END, seen.ending), **failure, **_target(seen)})
            mark.set_attributes(_texts(seen, {"error": "error.message"}, seen.ending))
            if failure:
                mark.set_status(trace.StatusCode.ERROR, str(seen.ending.get("status")))
        mark.end()


@dataclass(frozen=True, slots=True)
class _Instruments:
    """What is measured."""

    active: metrics.UpDownCounter
    operations: metrics.Counter
    duration: metrics.Histogram
    waited: metrics.Histogram
    output: metrics.Histogram
    moved: metrics.Histogram

    def __init__(self, meter: metrics.Meter) -> None:
        made = {
            "active": meter.create_up_down_counter(f"{NAME}.active", "{operation}", "What goes on now."),
            "operations": meter.create_counter(f"{NAME}.operations", "{operation}", "What has ended."),
            "duration": meter.create_histogram(f"{NAME}.duration", "s", "From the beginning to the end."),
            "waited": meter.create_histogram(f"{NAME}.waited", "s", "Of that, before the target was told."),
            "output": meter.create_histogram(f"{NAME}.output.size", "By", "What commands and scripts printed."),
            "moved": meter.create_histogram(f"{NAME}.transfer.size", "By", "What transfers moved."),
        }
        for name, instrument in made.items():
            object.__setattr__(self, name, instrument)

    def measure(self, seen: Observation, dimensions: Mapping[str, str], outcome: Mapping[str, str]) -> None:
        """Take the measurements of one thing that has ended."""
        self.operations.add(1, outcome)
        self.duration.record(seen.seconds, outcome)
        for key, histogram in (("waited", self.waited), ("output_bytes", self.output), ("bytes", self.moved)):
            value = seen.ending.get(key)
            if isinstance(value, int | float):
                histogram.record(value, dimensions)


telemetry = Telemetry()
"""The one of this process."""


def _version() -> str:
    try:
        return version("hermes-environments")
    except PackageNotFoundError:
        return ""


def _span_name(seen: Observation) -> str:
    """Return a name of which there are few, as one of a command would be another each time."""
    if seen.kind == "tool_call":
        return f"execute_tool {seen.name}"
    what = seen.name if seen.kind in ("transfer", "file") else seen.kind
    return f"{what} {seen.place.backend}" if seen.place else what


def _dimensions(seen: Observation) -> dict[str, str]:
    of_tool = {"gen_ai.tool.name": seen.name} if seen.kind == "tool_call" else {}
    of_place = {"hermes.backend": seen.place.backend} if seen.place else {}
    return {"hermes.kind": seen.kind, **of_place, **of_tool}


def _error_type(seen: Observation) -> dict[str, str]:
    if seen.ending.get("status") == "success":
        return {}
    return {"error.type": str(seen.ending.get("error_type") or seen.ending.get("status"))}


def _target(seen: Observation) -> dict[str, str]:
    if seen.place is None or seen.place.target is None:
        return {}
    kind, name = seen.place.target
    return {_OF_TARGETS.get(kind, f"hermes.{kind}.id"): name}


def _named(names: Mapping[str, str], facts: Mapping[str, object]) -> dict[str, _Value]:
    known = {name: facts.get(key) for key, name in names.items()}
    return {name: value for name, value in known.items() if isinstance(value, str | int | float)}


def _texts(seen: Observation, names: Mapping[str, str], facts: Mapping[str, object]) -> dict[str, str]:
    redactor = seen.redactor() if seen.place and seen.place.tells_text else None
    if redactor is None:
        return {}
    fitting = Fitting(redactor)
    return {name: str(fitting.value(key, facts[key])) for key, name in names.items() if isinstance(facts.get(key), str)}
