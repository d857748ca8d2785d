"""Uses of a sandbox by openai-agents, on its own sandboxes and on ours."""

from __future__ import annotations

import io
import json
import secrets
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from agents import RunConfig, Runner
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.entries import Dir, File
from agents.sandbox.errors import (
    ExecTimeoutError,
    InvalidManifestPathError,
    PtySessionNotFoundError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.manifest import Environment
from agents.sandbox.session import SandboxSession
from agents.testing import ScriptedModel, assistant_message, function_call
from place import PLACE

Client = tuple[Any, Any]
LEFT_OF = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep {nap}' || :"


def new_client() -> Client:
    """Return a client, and its options."""
    if PLACE.own == "local":
        from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

        return UnixLocalSandboxClient(), None
    if PLACE.own == "docker":
        import docker
        from agents.sandbox.sandboxes.docker import DockerSandboxClient, DockerSandboxClientOptions

        return DockerSandboxClient(docker.from_env()), DockerSandboxClientOptions(image=PLACE.settings["image"])
    from hermes_env.plugs.openai_agents import HermesSandboxClient

    return HermesSandboxClient(**PLACE.settings), None


@pytest.fixture(scope="module")
def client() -> Client:
    return new_client()


@pytest_asyncio.fixture(scope="module")
async def session(client: Client) -> AsyncIterator[SandboxSession]:
    manifest = Manifest(
        entries={
            "given.txt": File(content=b"given\n"),
            "passing": Dir(children={"a": File(content=b"")}, ephemeral=True),
        },
        environment=Environment(value={"GREETING": "hi there"}),
    )
    session = await client[0].create(manifest=manifest, options=client[1])
    async with session:
        yield session
    await client[0].delete(session)


async def text(session: SandboxSession, command: str, **arguments: Any) -> str:
    done = await session.exec(command, **arguments)
    assert done.ok(), done.stderr
    return done.stdout.decode()


async def test_a_command_has_both_channels_as_bytes_and_an_exit_code(session: SandboxSession) -> None:
    done = await session.exec(r"printf 'out\377'; printf 'err\376' >&2; exit 7")
    assert (done.stdout, done.stderr, done.exit_code) == (b"out\xff", b"err\xfe", 7)


async def test_arguments_without_a_shell_are_taken_as_they_are(session: SandboxSession) -> None:
    done = await session.exec("printf", "%s|", "a b", "$HOME", shell=False)
    assert done.stdout == b"a b|$HOME|"


async def test_the_manifests_files_and_variables_are_there(session: SandboxSession) -> None:
    assert await text(session, 'cat given.txt; echo "$GREETING"') == "given\nhi there\n"
    assert (await text(session, "pwd -P")).strip() == session.state.manifest.root


async def test_a_command_that_takes_too_long_is_ended_with_its_children(session: SandboxSession) -> None:
    nap = f"31.{secrets.randbelow(10**9):09}"
    with pytest.raises(ExecTimeoutError):
        await session.exec(f"sleep {nap} & sleep {nap}", timeout=2)
    assert await text(session, LEFT_OF.format(nap=nap)) == "0\n"


async def test_a_file_is_written_and_read(session: SandboxSession) -> None:
    content = bytes(range(256)) * 1000
    await session.write(Path("new/data.bin"), io.BytesIO(content))
    assert (await session.read(Path("new/data.bin"))).read() == content
    assert await session.read_bounded(Path("new/data.bin"), max_bytes=5) == content[:5]
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("new/missing"))


async def test_entries_are_listed_moved_and_removed(session: SandboxSession) -> None:
    await session.mkdir("kept/in", parents=True)
    await session.write(Path("kept/a"), io.BytesIO(b"a"))
    await session.mv("kept/a", "kept/b")
    assert sorted(Path(entry.path).name for entry in await session.ls("kept") if entry.path[-1] != ".") == ["b", "in"]
    await session.rm("kept", recursive=True)
    assert await text(session, "ls -d kept || :") == ""


async def test_a_link_out_of_the_workspace_is_not_followed(session: SandboxSession) -> None:
    await text(session, "ln -sfn /etc out")
    with pytest.raises(InvalidManifestPathError):
        await session.read(Path("out/passwd"))
    with pytest.raises(InvalidManifestPathError):
        await session.write(Path("out/hosts"), io.BytesIO(b""))
    await text(session, "rm out")


async def test_a_command_goes_on_when_the_time_of_a_call_is_up(session: SandboxSession) -> None:
    update = await session.pty_exec_start("echo begun; sleep 2; echo ended; exit 3", yield_time_s=0.5)
    output = update.output
    while update.process_id is not None:
        update = await session.pty_write_stdin(session_id=update.process_id, chars="")
        output += update.output
    assert (output, update.exit_code) == (b"begun\nended\n", 3)


async def test_a_command_on_a_terminal_is_typed_to(session: SandboxSession) -> None:
    started = await session.pty_exec_start(
        "test -t 0 && echo ready; read -r a; echo got:$a", tty=True, yield_time_s=0.5
    )
    assert started.output == b"ready\r\n" and started.process_id
    update = await session.pty_write_stdin(session_id=started.process_id, chars="hello\n", yield_time_s=5)
    assert b"got:hello\r\n" in update.output and update.exit_code == 0
    with pytest.raises(PtySessionNotFoundError):
        await session.pty_write_stdin(session_id=started.process_id, chars="")


async def test_what_goes_on_ends_with_the_session_or_before(session: SandboxSession) -> None:
    nap = f"31.{secrets.randbelow(10**9):09}"
    await session.pty_exec_start(f"sleep {nap}", yield_time_s=0.3)
    await session.pty_terminate_all()
    assert await text(session, LEFT_OF.format(nap=nap)) == "0\n"


@pytest.mark.skipif("docker" not in (*PLACE.tags, PLACE.own) or "user" in PLACE.tags, reason="no root, or no such user")
async def test_another_user_runs_reads_and_writes(session: SandboxSession) -> None:
    await text(session, "mkdir -p his && chown 65534 his && install -m 600 /dev/null mine")
    assert await text(session, "id -u", user="nobody") == "65534\n"
    await session.write(Path("his/own"), io.BytesIO(b"his\n"), user="nobody")
    assert await text(session, "stat -c %u his/own") == "65534\n"
    assert (await session.read(Path("his/own"), user="nobody")).read() == b"his\n"
    assert not (await session.exec("cat mine", user="nobody")).ok()


async def test_a_workspace_is_packed_without_what_is_ephemeral_and_unpacked(session: SandboxSession) -> None:
    await text(
        session, "mkdir -p packed && echo '#!/bin/sh' > packed/run && chmod 755 packed/run && ln -sf run packed/link"
    )
    archive = (await session.persist_workspace()).read()
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        names = {name.removeprefix("./") for name in members.getnames()}
    assert {"packed/run", "packed/link", "given.txt"} <= names
    assert not any("passing" in name for name in names)
    await text(session, "rm -r packed")
    await session.hydrate_workspace(io.BytesIO(archive))
    assert await text(session, "stat -c %a packed/run; readlink packed/link") == "755\nrun\n"


async def test_an_archive_that_leads_out_is_not_unpacked(session: SandboxSession) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../out"))
    made.seek(0)
    with pytest.raises(WorkspaceArchiveWriteError):
        await session.hydrate_workspace(made)


async def test_a_session_is_resumed_in_the_target_that_still_runs(session: SandboxSession, client: Client) -> None:
    await text(session, "echo still > here")
    other, _ = new_client()
    state = other.deserialize_session_state(json.loads(json.dumps(client[0].serialize_session_state(session.state))))
    async with await other.resume(state) as again:
        assert again.state.manifest.root == session.state.manifest.root
        assert await text(again, "cat here; cat given.txt") == "still\ngiven\n"


async def test_a_session_that_ended_is_resumed_from_its_snapshot(client: Client, tmp_path: Path) -> None:
    maker, options = client
    ended = await maker.create(manifest=Manifest(), options=options, snapshot=LocalSnapshotSpec(base_path=tmp_path))
    async with ended:
        await text(ended, "mkdir sub && echo kept > sub/note")
    assert not await ended.running()
    await maker.delete(ended)
    state = maker.deserialize_session_state(json.loads(json.dumps(maker.serialize_session_state(ended.state))))
    resumed = await maker.resume(state)
    async with resumed:
        assert await resumed.running()
        assert await text(resumed, "cat sub/note") == "kept\n"
    await maker.delete(resumed)


async def test_an_agent_works_in_a_sandbox(client: Client) -> None:
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "wc -l < poem.txt > count && cat count"}, call_id="1")],
            [function_call("exec_command", {"cmd": "cat count; exit 3"}, call_id="2")],
            [assistant_message("It has 2 lines.")],
        ]
    )
    agent = SandboxAgent(
        name="counter",
        model=model,
        instructions="Count lines.",
        default_manifest=Manifest(entries={"poem.txt": File(content=b"one\ntwo\n")}),
        capabilities=[Shell(), Filesystem()],
    )
    config = RunConfig(sandbox=SandboxRunConfig(client=client[0], options=client[1]), tracing_disabled=True)
    done = await Runner.run(agent, "How many lines has poem.txt?", run_config=config)
    assert done.final_output == "It has 2 lines."
    first, second = (item.output for item in done.new_items if item.type == "tool_call_output_item")
    assert "exited with code 0" in first and first.rstrip().endswith("2")
    assert "exited with code 3" in second
