"""Peculiarities of environments made of short commands and files."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.per_command_local import PerCommandLocal

from code_execution import execute_code
from environments import CommandResult, load_settings
from environments.conformance.check import wait_until
from environments.shell.stream import Discard
from environments.short_commands.scripts import MAX_UNREAD
from environments.short_commands.stream import PolledStream

Make = Callable[..., PerCommandLocal]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[PerCommandLocal] = []

    def make(**settings: object) -> PerCommandLocal:
        made.append(PerCommandLocal(load_settings("local", **{"cwd": str(tmp_path), **settings})))
        return made[-1]

    yield make
    for env in made:
        env.cleanup()


def test_a_warm_command_is_one_short_command(make: Make) -> None:
    env = make()
    env.execute("true")

    def cost() -> int:
        before = env.commands
        assert env.execute("echo hi").output == "hi\n"
        return env.commands - before

    assert 1 in (cost() for _ in range(30))  # a loaded machine may take longer than the wait of a short command


@pytest.mark.parametrize("kind", ["start", "input", "look"])
def test_a_lost_answer_is_asked_for_again_and_nothing_runs_twice(make: Make, tmp_path: Path, kind: str) -> None:
    env = make()
    env.drop_answers_of = {"start": "supervise=", "input": "number=", "look": "limit="}[kind]
    for _ in range(2):
        assert env.execute("echo ran >>count; echo begun; sleep 0.1; echo done").output == "begun\ndone\n"
    assert (tmp_path / "count").read_text() == "ran\n" * 2
    assert env.dropped


@pytest.mark.parametrize("text", ["x", "'", "\\", "\u00fc\n#", "'\"$x`!\n#"], ids=ascii)
def test_a_large_script_of_any_characters_is_sent_quickly(make: Make, text: str) -> None:
    """The script is sent within shell text. Quoting has taken more than a minute."""
    code = "from hermes_tools import same\nprint(same(len(open(__file__).read())))\n#" + text * (2_000_000 // len(text))
    result = execute_code(code, env=make(), tools={"same": lambda value: value}, timeout=30)
    assert result.output == f"{len(code)}\n", result


def test_input_arrives_in_order_and_whole(make: Make) -> None:
    process = make().start("cat")
    pieces = [f"{number} ".encode() * size for number, size in enumerate((1, 9000, 3, 200_000, 2))]
    for piece in pieces:
        process.write(piece)
    process.close_stdin()
    assert process.wait(60) == 0
    assert process.read().encode() == b"".join(pieces)


def test_input_that_nobody_reads_does_not_fill_the_target(make: Make) -> None:
    env = make()
    process = env.start("sleep 1000")

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            while True:
                process.write(b"x" * 100_000)

    writer = threading.Thread(target=write)
    writer.start()
    waiting = Path(env.directory)
    assert wait_until(lambda: len(list(waiting.rglob("piece"))) == MAX_UNREAD, 60)
    before = env.commands
    assert wait_until(lambda: env.commands >= before + 2, 60)  # the environment polls for free space
    assert len(list(waiting.rglob("piece"))) == MAX_UNREAD
    process.kill()
    writer.join()


def test_a_slow_reader_gets_all_of_its_input(make: Make, tmp_path: Path) -> None:
    process = make().start("while [ ! -e go ]; do sleep 0.05; done; cksum")
    pieces = 3 * MAX_UNREAD
    threading.Timer(0.2, (tmp_path / "go").touch).start()
    for _ in range(pieces):
        process.write(b"x" * 10_000)
    process.close_stdin()
    assert process.wait(60) == 0
    assert process.read().split()[1] == str(pieces * 10_000)


def test_the_middle_of_a_large_output_is_not_fetched(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    env, fetched = make(max_output_bytes=100_000), []
    fetch = env.get_native

    async def count(path: str) -> bytes:
        fetched.append(await fetch(path))
        return fetched[-1]

    monkeypatch.setattr(env, "get_native", count)
    total = 50_000_000
    result = env.execute(f"printf first; head -c {total} /dev/zero | tr '\\0' x; printf last", timeout=110)
    assert result.output.startswith("firstx") and result.output.endswith("xlast")
    assert len(result.output) + result.omitted_bytes == total + 9
    assert sum(map(len, fetched)) < total / 2


def test_all_of_a_large_output_comes_live(make: Make) -> None:
    size = 0

    def count(text: str) -> None:
        nonlocal size
        size += len(text)

    make(max_output_bytes=1000).execute("head -c 5000000 /dev/zero | tr '\\0' x", timeout=110, on_output=count)
    assert size == 5_000_000


def test_a_target_without_base64_works_by_files(make: Make, tmp_path: Path) -> None:
    env = make()
    env.hidden_programs = ("base64",)
    assert env.execute("cat; echo ü", stdin=b"in\n").output == "in\nü\n"
    env.write_bytes("file", b"\0\1\2" * 9000)
    assert env.read_bytes("file") == b"\0\1\2" * 9000
    assert env.has_base64 is False


def test_an_interrupt_ends_the_command_that_is_on_its_way_and_no_later_one(make: Make) -> None:
    env = make()
    env.execute("true")
    env.delay = 0.2
    results: list[CommandResult] = []
    thread = threading.Thread(target=lambda: results.append(env.execute("sleep 100", timeout=100)))
    thread.start()
    assert wait_until(lambda: env.busy)
    env.interrupt()
    thread.join(30)
    assert results[0].interrupted and results[0].exit_code == 130
    env.delay = 0
    env.interrupt()
    assert env.execute("sleep 0.2; echo whole").output == "whole\n"


def test_a_command_can_be_interrupted_from_the_keyboard_as_everywhere(make: Make) -> None:
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert make().execute(f'python3 -c "{code}"').output == "True\n"


def test_a_command_has_the_umask_and_descriptors_of_the_target(make: Make) -> None:
    for command in ("umask", "ls -1 /proc/self/fd | grep -xE '[0-9]' | wc -l"):
        expected = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
        )
        assert make().execute_oneshot(command).output == expected.stdout


def test_what_reopens_its_output_truncates_nothing(make: Make) -> None:
    result = make().execute("echo first; echo second | tee /dev/stderr; echo third >/dev/stdout")
    assert result.output == "first\nsecond\nsecond\nthird\n"


def test_nothing_is_left_of_a_stream_that_is_closed(make: Make) -> None:
    env = make()
    scratch = Path(env.internal.scratch_directory())

    async def use(_: object) -> None:
        stream = await env.open_stream(["sleep", "1000"])
        assert isinstance(stream, PolledStream)
        stream.start(Discard())
        stream.write(b"x")
        await stream.drain()
        assert list(scratch.iterdir())
        await stream.close()

    env.run_on_loop(use)
    assert not list(scratch.iterdir())
    assert scratch.stat().st_mode & 0o777 == 0o700
