"""The output of an awaited command, piece by piece."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from targets.awaiting import LONG, on_both_loops, until
from targets.processes import processes_with

from environments.loop import QUEUED
from hermes_env.aio import AsyncEnvironment

pytestmark = pytest.mark.anyio


@on_both_loops
async def test_pieces_come_as_they_are_printed(env: AsyncEnvironment) -> None:
    pieces = []
    command = "echo first; while [ ! -e seen ]; do sleep 0.02; done; echo second; exit 3"
    stream = env.stream(command)
    async for piece in stream:
        pieces.append(piece)
        await env.write_bytes("seen", b"")
    assert pieces == ["first\n", "second\n"]
    assert (stream.result.exit_code, stream.result.output) == (3, "first\nsecond\n")


async def test_pieces_know_their_channel(env: AsyncEnvironment) -> None:
    command = "echo out; sleep 0.1; echo err >&2"
    pieces = [(piece, piece.channel) async for piece in env.stream(command, stderr="separate")]
    assert pieces == [("out\n", "stdout"), ("err\n", "stderr")]


async def test_pieces_may_be_bytes(env: AsyncEnvironment) -> None:
    stream = env.stream(["printf", r"\377\0"], binary=True)
    pieces = [piece async for piece in stream]
    assert b"".join(pieces) == b"\xff\0"
    assert {piece.channel for piece in pieces} == {"stdout"}
    assert stream.result.output_bytes == b"\xff\0"


async def test_a_command_waits_for_its_reader(env: AsyncEnvironment, work: Path) -> None:
    command = "for n in $(seq 30); do head -c 1000000 /dev/zero; echo $n >> printed; done"
    async with env.stream(command, binary=True) as stream:
        async for _ in stream:
            await until((work / "printed").exists)
            await anyio.sleep(0.1)
            assert len((work / "printed").read_text().splitlines()) * 1_000_000 < 10 * QUEUED
            break


@on_both_loops
async def test_leaving_the_loop_and_ending_the_stream_ends_the_command(env: AsyncEnvironment, nap: str) -> None:
    async with env.stream(f"echo begun; sleep {nap}") as left:
        async for piece in left:
            assert piece == "begun\n"
            await until(lambda: processes_with(nap))
            break
    assert not processes_with(nap)
    closed = env.stream(f"echo begun; sleep {nap}")
    assert await anext(closed) == "begun\n"
    await until(lambda: processes_with(nap))
    await closed.aclose()
    assert not processes_with(nap)
    await closed.aclose()
    for stream in (left, closed):
        assert stream.result.interrupted
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_a_command_that_fails_to_run_raises_behind_its_output(env: AsyncEnvironment) -> None:
    stream = env.stream("true", cwd="/nowhere")
    pieces = [piece async for piece in stream]
    assert stream.result.exit_code != 0
    assert "/nowhere" in "".join(pieces) + stream.result.output
    with pytest.raises(ValueError, match="NUL"):
        await anext(env.stream("a\0b"))
    with pytest.raises(TypeError, match="no argument 'on_output'"):
        env.stream("true", on_output=print)  # type: ignore[call-overload]


async def test_a_stream_times_out_though_nobody_reads_it(env: AsyncEnvironment) -> None:
    async with env.stream("cat /dev/zero", timeout=0.3, binary=True) as stream:
        await anext(stream)
        await until(lambda: not env.busy)
        async for _ in stream:
            pass
    assert stream.result.timed_out


async def test_cleanup_ends_a_stream_that_nobody_reads(env: AsyncEnvironment) -> None:
    async with AsyncEnvironment("local") as other:
        stream = other.stream("cat /dev/zero", binary=True)
        await anext(stream)
    with anyio.fail_after(LONG):
        async for _ in stream:
            pass
    assert stream.result.interrupted


async def test_sessions_have_streams_of_their_own(env: AsyncEnvironment) -> None:
    async with await env.session("other", cwd="/") as session:
        await session.execute("export N=1")
        assert "".join([piece async for piece in session.stream("echo $N; pwd")]) == "1\n/\n"
        assert await session.cwd == "/"
        assert (session.name, session.user, session.busy, session.closed) == ("other", None, False, False)
    assert session.closed
