"""Uses of a workspace by pydantic-ai that the conformance suite does not check."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator

import pytest
from place import PLACE
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import Workspace, WorkspaceOutputLimitError, WorkspaceUnavailableError
from threads import threads_of

from hermes_env.plugs.pydantic_ai import HermesWorkspace

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def backend() -> AsyncIterator[HermesWorkspace]:
    backend = HermesWorkspace(**PLACE.settings, max_output_bytes=100_000)
    yield backend
    await backend.close()


def counted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    (*_, last) = messages[-1].parts
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"It has {str(last.content).strip()} lines.")])
    return ModelResponse(parts=[ToolCallPart("execute", {"command": "wc -l < poem.txt"})])


async def test_an_agent_works_in_a_workspace_and_goes_on_there(backend: HermesWorkspace) -> None:
    agent = Agent(FunctionModel(counted))

    @agent.tool
    async def execute(ctx: RunContext[None], command: str) -> str:
        return (await ctx.workspace.run(command, shell=True, timeout=30)).stdout

    await Workspace(backend).write_text("poem.txt", "one\ntwo\n")
    done = await agent.run("How many lines has it?", workspace=backend)
    assert done.output == "It has 2 lines."
    await done.workspace.write_text("poem.txt", "one\n")
    again = await agent.run("And now?", workspace=done.workspace)
    assert again.output == "It has 1 lines."
    assert again.workspace.ref == backend.ref


async def test_what_was_made_goes_when_the_workspace_is_closed(backend: HermesWorkspace) -> None:
    place = await backend.working_dir()
    await backend.write_bytes(f"{place}/file", b"")
    other = HermesWorkspace(**PLACE.settings)
    try:
        await backend.close()
        if {"local", "ssh"} & set(PLACE.tags):
            assert not await other.exists(place)
    finally:
        await other.close()
    with pytest.raises(WorkspaceUnavailableError):
        await backend.exists(place)


@pytest.mark.skipif("docker" not in PLACE.tags, reason="it removes a container")
async def test_a_container_that_is_removed_is_not_replaced(backend: HermesWorkspace) -> None:
    await backend.working_dir()
    subprocess.run(["docker", "rm", "--force", (await backend.env.target).id], check=True, capture_output=True)
    for _ in range(2):
        with pytest.raises(WorkspaceUnavailableError, match="removed"):
            await backend.run(["true"])


async def test_too_much_output_is_an_error_that_has_the_beginning(backend: HermesWorkspace) -> None:
    with pytest.raises(WorkspaceOutputLimitError) as caught:
        await backend.run("echo first; yes | head -n 500000; echo last", shell=True)
    assert caught.value.limit == 100_000
    assert caught.value.stdout.startswith("first\n") and "last" not in caught.value.stdout


async def test_links_are_listed_as_what_they_lead_to(backend: HermesWorkspace) -> None:
    made = await backend.run(
        "mkdir d; touch 'd/a b'; ln -s d to_dir; ln -s 'd/a b' to_file; ln -s nowhere to_none", shell=True
    )
    assert made.exit_code == 0, made.stderr
    found = {entry.name: entry.is_dir for entry in await backend.list_dir(await backend.working_dir())}
    assert found.items() >= {"d": True, "to_dir": True, "to_file": False, "to_none": False}.items()


@pytest.mark.skipif("local" not in PLACE.tags, reason="clients of engines and of SSH have threads of their own")
async def test_commands_need_no_thread_each(backend: HermesWorkspace) -> None:
    assert await threads_of(lambda: backend.run(["sleep", "0.3"])) < 5
