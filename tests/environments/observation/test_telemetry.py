"""Spans and measurements for OpenTelemetry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from code_execution import execute_code
from environments import BaseEnvironment, create_environment
from environments.conformance.check import wait_until
from environments.errors import DeniedError

SECRET = "hunter2-hunter2-hunter2"


class Collected:
    """The spans and measurements so far."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The ended spans, in the order of their ends."""
        return self._spans.get_finished_spans()

    def span(self, name: str) -> ReadableSpan:
        """Return the only span of a name."""
        (found,) = [each for each in self.spans if each.name == name]
        return found

    def way_down(self, span: ReadableSpan) -> list[str]:
        """Return the names from the outermost span down to a span."""
        known = {each.context.span_id: each for each in self.spans}
        return [*(self.way_down(known[span.parent.span_id]) if span.parent else []), span.name]

    def measured(self) -> dict[str, list[tuple[dict[str, object], float]]]:
        """Return the measurements by name: their attributes, and their sum."""
        data = self._reader.get_metrics_data()
        found = data.resource_metrics[0].scope_metrics[0].metrics if data else []
        return {
            each.name: [
                (dict(point.attributes), point.sum if hasattr(point, "sum") else point.value)
                for point in each.data.data_points
            ]
            for each in found
        }


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collected]:
    """Set OpenTelemetry up, as a program does."""
    collected = Collected()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: collected.tracers)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: collected.meters)
    monkeypatch.setenv("MY_SERVICE_TOKEN", SECRET)
    yield collected
    collected.tracers.shutdown()
    collected.meters.shutdown()


@pytest.fixture
def env(collected: Collected) -> Iterator[BaseEnvironment]:
    with create_environment("local", task_id="mine") as env:
        yield env


def test_a_command_and_the_start_it_waits_for_are_spans(env: BaseEnvironment, collected: Collected):
    with collected.tracers.get_tracer("mine").start_as_current_span("outer"):
        env.execute("echo out; exit 3", cwd="/")
    command, start = collected.span("command local"), collected.span("start local")
    assert collected.way_down(start) == ["outer", "command local", "start local"]
    exported = dict(command.attributes or {})
    assert (
        exported["hermes.backend"] == "local"
        and exported["hermes.task"] == "mine"
        and exported["hermes.way"] == "session"
    )
    assert exported["process.exit.code"] == 3 and exported["process.working_directory"] == "/"
    assert exported["hermes.output.size"] == 4 and exported["hermes.status"] == exported["error.type"] == "error"
    assert float(str(exported["hermes.waited"])) > 0 and command.status.status_code is trace.StatusCode.ERROR
    assert start.status.status_code is trace.StatusCode.UNSET and "error.type" not in (start.attributes or {})
    assert command.instrumentation_scope.name == "hermes_environments" and command.instrumentation_scope.version


def test_a_span_that_a_tool_makes_stands_between_its_call_and_its_command(env: BaseEnvironment, collected: Collected):
    def tool() -> str:
        with collected.tracers.get_tracer("mine").start_as_current_span("inner"):
            return env.execute("echo deep").output

    execute_code("import hermes_tools\nhermes_tools.tool()", env=env, tools={"tool": tool})
    command, call = collected.span("command local"), collected.span("execute_tool tool")
    assert collected.way_down(command) == ["script local", "execute_tool tool", "inner", "command local"]
    exported = dict(call.attributes or {})
    assert (exported["gen_ai.operation.name"], exported["gen_ai.tool.name"]) == ("execute_tool", "tool")
    assert dict(collected.span("script local").attributes or {})["hermes.script.tool_calls"] == 1


def test_a_process_is_a_span_and_not_the_parent_of_later_commands(env: BaseEnvironment, collected: Collected):
    process = env.start("read line; exit 4")
    env.execute("true")
    assert collected.way_down(collected.span("command local")) == ["command local"]
    process.write("go\n")
    process.wait()
    assert wait_until(lambda: any(each.name == "process local" for each in collected.spans))
    assert dict(collected.span("process local").attributes or {})["process.exit.code"] == 4


def test_an_event_without_duration_is_an_event_of_the_span(collected: Collected):
    for asked in (False, True):
        with (
            create_environment("local", telemetry_text=asked) as env,
            collected.tracers.get_tracer("mine").start_as_current_span(f"outer {asked}"),
        ):
            env.observation.emit("network_refused", host="example.org", port=443)
        (event,) = collected.span(f"outer {asked}").events
        assert event.name == "hermes.network_refused"
        assert dict(event.attributes or {}) == ({"hermes.host": "example.org", "hermes.port": 443} if asked else {})


def test_a_failed_operation_has_the_class_of_its_error(env: BaseEnvironment, collected: Collected):
    env.gate.before_command = lambda request: "never"
    with pytest.raises(DeniedError):
        env.execute("true")
    with pytest.raises(FileNotFoundError):
        env.read_bytes("/none")
    command, read = collected.span("command local"), collected.span("read_bytes local")
    assert [dict(each.attributes or {})["error.type"] for each in (command, read)] == [
        "DeniedError",
        "TargetFileNotFoundError",
    ]
    assert command.status.description == "denied"


def test_texts_are_exported_only_on_request_and_without_secrets(collected: Collected, tmp_path: Path):
    for asked in (False, True):
        with create_environment("local", telemetry_text=asked) as env:
            env.execute(f"echo first-text {SECRET}")
            execute_code(f"print('second-text {SECRET}')", env=env)
            env.write_bytes(f"{tmp_path}/third-text", b"")
        exported = str([(each.name, dict(each.attributes or {}), each.status.description) for each in collected.spans])
        assert SECRET not in exported
        assert [word in exported for word in ("first-text", "second-text", "third-text")] == [asked] * 3
    last = [each for each in collected.spans if each.name == "command local"][-1]
    assert dict(last.attributes or {})["process.command_line"] == "echo first-text [REDACTED:MY_SERVICE_TOKEN]"


def test_durations_counts_and_sizes_are_measured(env: BaseEnvironment, collected: Collected, tmp_path: Path):
    env.execute("printf 12345")
    env.execute("exit 1")
    env.write_bytes(str(tmp_path / "measured"), b"123")
    env.remove(str(tmp_path / "measured"))
    measured = collected.measured()
    command = {"hermes.kind": "command", "hermes.backend": "local"}
    assert (command, 5) in measured["hermes_environments.output.size"]
    moved = {"hermes.kind": "transfer", "hermes.backend": "local"}
    assert measured["hermes_environments.transfer.size"] == [(moved, 3)]
    counts = measured["hermes_environments.operations"]
    assert ({**command, "hermes.status": "success"}, 1) in counts
    assert ({**command, "hermes.status": "error", "error.type": "error"}, 1) in counts
    assert {count for _, count in measured["hermes_environments.active"]} == {0}
    assert len(measured["hermes_environments.duration"]) == len(counts)
    assert all(seconds > 0 for _, seconds in measured["hermes_environments.duration"])


class FailingExporter(SpanProcessor):
    """A span processor that fails at the end of each span."""

    def on_end(self, span: ReadableSpan) -> None:
        raise ZeroDivisionError


def test_a_failing_exporter_fails_nothing_else(
    env: BaseEnvironment, collected: Collected, caplog: pytest.LogCaptureFixture
):
    collected.tracers.add_span_processor(FailingExporter())
    assert env.execute("echo on").output == "on\n"
    assert "ZeroDivisionError" in caplog.text


def test_opentelemetry_is_not_imported_by_the_package():
    code = (
        "import sys; from environments import create_environment\n"
        "with create_environment('local') as env: env.execute('true')\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
        " and 'environments.observation.record' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
