"""The `ShellTool` of openai-agents on the plug."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, ShellTool
from agents.testing import ScriptedModel, assistant_message
from openai.types.responses import ResponseFunctionShellToolCall
from place import PLACE

from environments import BaseEnvironment, create_environment

if PLACE.own:
    pytest.skip("it has none for other machines", allow_module_level=True)

from hermes_env.plugs.openai_agents import HermesShell


@pytest.fixture(scope="module")
def env() -> Iterator[BaseEnvironment]:
    with create_environment(**PLACE.settings) as env:
        yield env


async def called(executor: HermesShell, *commands: str, **action: object) -> list[dict[str, Any]]:
    """Let an agent make a shell call, and return the result of each command for the model."""
    call = ResponseFunctionShellToolCall(
        id="s1",
        call_id="c1",
        status="completed",
        type="shell_call",
        action={"commands": list(commands), **action},
    )
    model = ScriptedModel([[call], [assistant_message("done")]])
    agent = Agent(name="worker", model=model, tools=[ShellTool(executor=executor)])
    done = await Runner.run(agent, "work", run_config=RunConfig(tracing_disabled=True))
    assert done.final_output == "done"
    (told,) = (item for item in done.to_input_list() if item.get("type") == "shell_call_output")
    return told["output"]


async def test_each_command_has_its_channels_and_its_outcome(env: BaseEnvironment) -> None:
    first, second = await called(HermesShell(env), "echo out; echo err >&2; exit 3", "echo next")
    assert (first["stdout"], first["stderr"]) == ("out\n", "err\n")
    assert first["outcome"] == {"type": "exit", "exit_code": 3}
    assert (second["stdout"], second["outcome"]) == ("next\n", {"type": "exit", "exit_code": 0})


async def test_what_takes_too_long_is_ended_and_nothing_is_run_after_it(env: BaseEnvironment) -> None:
    (only,) = await called(HermesShell(env), "echo begun; sleep 60", "echo never", timeout_ms=2000)
    assert only["stdout"] == "begun\n"
    assert only["outcome"]["type"] == "timeout"


async def test_no_more_is_told_than_is_asked_for(env: BaseEnvironment) -> None:
    first, second = await called(HermesShell(env), "echo 12345678", "echo 90", max_output_length=5)
    assert (first["stdout"], second["stdout"]) == ("12345", "")


async def test_commands_share_a_session_on_request(env: BaseEnvironment) -> None:
    _, kept = await called(HermesShell(env, session=True), "cd /usr; export LEFT=behind", 'echo "$PWD $LEFT"')
    assert kept["stdout"] == "/usr behind\n"
    _, lost = await called(HermesShell(env), "export AGAIN=1", 'echo "[$AGAIN]"')
    assert lost["stdout"] == "[]\n"


async def test_a_secret_is_taken_out_of_both_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-plugs-0123456789abcdef")
    with create_environment(**PLACE.settings, env_passthrough=["SOME_API_KEY"]) as env:
        (told,) = await called(HermesShell(env), 'echo "$SOME_API_KEY"; echo "$SOME_API_KEY" >&2')
    assert told["outcome"]["exit_code"] == 0
    assert "0123456789" not in told["stdout"] + told["stderr"]
