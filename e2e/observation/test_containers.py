"""Records and spans of commands in a container: start, loss, scripts and the container's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from targets.run_record import RunRecord

from code_execution import execute_code
from environments import BaseEnvironment
from environments.errors import EnvironmentLostError

MakeDocker = Callable[..., BaseEnvironment]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def test_a_script_and_its_commands_are_recorded_and_are_spans_with_the_container(
    docker_environment: MakeDocker, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    env = docker_environment(record=path)
    execute_code("from hermes_tools import terminal\nterminal('hostname')", env=env)
    container = env.target.id
    env.cleanup()
    provider.shutdown()
    seen = RunRecord(path)
    assert ["script", "tool_call", "command"] in seen.ways_down() and ["script", "start"] in seen.ways_down()
    assert {each["environment"] for each in seen.all} == {"docker 1"}
    assert seen.one("start")["target"].startswith("container ")
    assert any("start" in each["text"] for each in seen.of("note")), "the steps of a start"
    named = {each.name: dict(each.attributes or {}).get("container.id") for each in spans.get_finished_spans()}
    assert named["start docker"] == named["command docker"] == container


def test_a_lost_target_and_the_output_until_then_are_recorded(
    docker_environment: Callable[..., BaseEnvironment], container_of: Callable, path: Path
):
    env = docker_environment(record=path)
    container = container_of(env)
    with pytest.raises(EnvironmentLostError):
        env.execute("echo by then; sleep 1000", on_output=lambda text: container.remove(force=True))
    lost = RunRecord(path).last("command")
    assert (lost["status"], lost["error_type"], lost["output"]) == ("lost", "EnvironmentLostError", "by then\n")
