"""The relay of tool calls, fed like by a boot program."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from code_execution import execute_code
from environments import BaseEnvironment, create_environment
from environments.loop import run
from rpc import MAX_MESSAGE_BYTES, Dispatcher, Relay, Request, Response
from rpc.relay import MAX_BYTES, MAX_CALLS, MAX_RUNNING, BrokenRelayError

PART = 4000


class RecordingProcess:
    """Records the relay's answers and pauses."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.is_paused = self.has_ended = False
        self.is_flushed = True

    def feed(self, data: bytes) -> None:
        if self.has_ended:
            raise BrokenPipeError
        self.received.append(data)

    async def flush(self) -> None:
        raise AssertionError

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def answers(self) -> dict[int, Response]:
        found = {}
        for message in self.received:
            head, _, line = message.partition(b"\n")
            kind, number, size = head.split()
            assert (kind, int(size)) == (b"a", len(line))
            found[int(number)] = Response.decode(line)
        return found


def request(number: int, tool: str = "echo", *args: object, token: str = "token") -> bytes:
    return Request(f"id{number}", tool, list(args), {}, token).encode()


def feed_request(relay: Relay, number: int, line: bytes) -> None:
    """Feed a request in parts."""
    for start in range(0, len(line), PART):
        relay.receive(number, line[start : start + PART], start + PART >= len(line))


class AttachedProcess:
    """A relay, and the process of the script."""

    def __init__(self, **tools: Callable[..., object]) -> None:
        self.dispatcher = Dispatcher(tools, token="token", max_calls=10_000)
        self.relay, self.process = self._on_loop(lambda: Relay(self.dispatcher)), RecordingProcess()
        self.relay.attach(self.process)

    def _on_loop(self, work: Callable[[], object]) -> object:
        async def do(_: object) -> object:
            return work()

        return run(do)

    def feed_request(self, *requests: tuple[int, bytes]) -> None:
        self._on_loop(lambda: [feed_request(self.relay, number, line) for number, line in requests])

    def feed_part(self, number: int, part: bytes, is_last: bool) -> None:
        self._on_loop(lambda: self.relay.receive(number, part, is_last))

    def end(self) -> None:
        self._on_loop(self.relay.end)

    def answers(self, count: int) -> dict[int, Response]:
        wait_for(lambda: len(self.process.received) == count)
        return self.process.answers()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def echo(value: object = None) -> object:
    return value


def test_requests_of_every_size_are_answered_on_their_connections() -> None:
    fed = AttachedProcess(echo=echo)
    values = ["", "x" * (PART - 100), "y" * PART, "z" * (3 * PART), "l" * 1_000_000]
    fed.feed_request(*((number, request(number, "echo", value)) for number, value in enumerate(values)))
    answers = fed.answers(len(values))
    assert [answers[number].result for number in range(len(values))] == values
    assert [answers[number].id for number in range(len(values))] == [f"id{number}" for number in range(len(values))]


def test_a_request_without_the_token_is_refused_and_the_next_one_answered() -> None:
    fed = AttachedProcess(echo=echo)
    fed.feed_request((1, request(1, "echo", "x" * 10_000, token="forged")), (2, b"\n"), (3, request(3, "echo", 3)))
    answers = fed.answers(3)
    assert [("token is wrong" in str(answers[number].error)) for number in (1, 2, 3)] == [True, True, False]
    assert fed.dispatcher.calls_made == 1


@pytest.mark.parametrize(
    "parts",
    [
        [(1, b"first", False), (2, b"of another\n", True)],
        [(1, b"with an end\n", False)],
        [(1, b"without an end", True)],
        [(1, b"", True)],
    ],
)
def test_invalid_data_from_the_boot_program_is_an_error(parts: list[tuple[int, bytes, bool]]) -> None:
    fed = AttachedProcess(echo=echo)
    *before, last = parts
    for part in before:
        fed.feed_part(*part)
    with pytest.raises(BrokenRelayError, match="tampered with"):
        fed.feed_part(*last)
    assert fed.process.received == []


def test_more_than_a_request_may_have_is_an_error_and_no_more_of_it_is_kept() -> None:
    fed = AttachedProcess(echo=echo)
    fed.feed_part(1, fed.dispatcher.prefix, False)
    piece = b"x" * 1_000_000

    def too_much() -> None:
        for _ in range(2 * MAX_MESSAGE_BYTES // len(piece)):
            fed.feed_part(1, piece, False)

    with pytest.raises(BrokenRelayError, match="more than a request may have"):
        too_much()
    assert fed.relay._line is None or fed.relay._line.size <= MAX_MESSAGE_BYTES + len(piece)


def test_a_stream_with_many_calls_under_way_is_read_no_more_until_some_have_ended() -> None:
    release, running = threading.Semaphore(0), []

    def wait() -> None:
        running.append(1)
        release.acquire(timeout=60)

    fed = AttachedProcess(wait=wait)
    fed.feed_request(*((number, request(number, "wait")) for number in range(MAX_CALLS - 1)))
    assert not fed.process.is_paused
    fed.feed_request((MAX_CALLS, request(MAX_CALLS, "wait")))
    assert fed.process.is_paused
    wait_for(lambda: len(running) == MAX_RUNNING)
    release.release()
    wait_for(lambda: not fed.process.is_paused)
    release.release(MAX_CALLS)
    fed.answers(MAX_CALLS)
    assert len(running) == MAX_CALLS


def test_a_stream_with_large_calls_under_way_is_read_no_more() -> None:
    release = threading.Event()
    fed = AttachedProcess(wait=lambda _: release.wait(60) and None)
    line = request(1, "wait", "x" * (MAX_BYTES // 8))
    assert len(line) < MAX_MESSAGE_BYTES
    for number in range(8):
        assert not fed.process.is_paused
        fed.feed_request((number, line.replace(b'"id1"', b'"id%d"' % number)))
    assert fed.process.is_paused
    release.set()
    wait_for(lambda: not fed.process.is_paused)
    fed.answers(8)


def test_at_the_end_the_boot_program_is_notified_and_gets_no_answer() -> None:
    release, running = threading.Event(), threading.Event()

    def wait() -> None:
        running.set()
        release.wait(60)

    fed = AttachedProcess(wait=wait)
    fed.feed_request((1, request(1, "wait")))
    assert running.wait(60)
    for _ in range(2):
        fed.end()
    assert fed.process.received == [b"\n"]
    release.set()
    wait_for(lambda: fed.dispatcher.calls_made == 1)
    time.sleep(0.2)
    assert fed.process.received == [b"\n"]


def test_at_the_end_without_a_call_under_way_nothing_is_sent() -> None:
    fed = AttachedProcess(echo=echo)
    fed.feed_request((1, request(1)))
    fed.answers(1)
    fed.end()
    assert len(fed.process.received) == 1


def test_a_process_that_has_ended_and_a_relay_that_was_never_attached_can_be_ended() -> None:
    fed = AttachedProcess(echo=echo)
    fed.process.has_ended = True
    fed.feed_request((1, request(1)))
    wait_for(lambda: fed.dispatcher.calls_made == 1)
    fed.end()
    never = AttachedProcess()
    never.relay._process = None
    never.end()


# With a boot program.


@pytest.fixture(scope="module")
def env() -> BaseEnvironment:
    with create_environment("local") as made:
        yield made


BY_HAND = """
import hermes_tools, socket
path, token = hermes_tools._own()[1], hermes_tools._own()[0]
def sent(data, shut=False):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(data)
        if shut: s.shutdown(socket.SHUT_WR)
        return s.makefile("rb").readline().decode()
begin = ('{"token":"%s","id":"i","tool":"echo","args":["' % token).encode()
"""


def by_hand(env: BaseEnvironment, code: str, **options: object) -> str:
    result = execute_code(BY_HAND + code, env=env, tools={"echo": echo}, transport="relay", timeout=60, **options)
    assert result.status == "success", result
    return result.output


@pytest.mark.parametrize("beyond", [1, 100, 70_000, 3_000_000])
def test_a_request_that_is_too_large_is_refused_and_the_next_one_answered(env: BaseEnvironment, beyond: int) -> None:
    code = f"""
end = b'"],"kwargs":{{}}}}\\n'
print("too large" in sent(begin + b"x" * ({MAX_MESSAGE_BYTES} + {beyond} - len(begin) - len(end)) + end))
print(hermes_tools.echo(5))
"""
    assert by_hand(env, code) == "True\n5\n"


def test_a_request_that_never_ends_harms_no_other(env: BaseEnvironment) -> None:
    code = """
print(repr(sent(begin, shut=True)), repr(sent(b"x" * 1_000_000, shut=True)), hermes_tools.echo(6))
"""
    assert by_hand(env, code) == "'' '' 6\n"


def test_a_script_that_opens_more_connections_than_there_may_be_goes_on(env: BaseEnvironment) -> None:
    code = """
ours = [socket.socket(socket.AF_UNIX) for _ in range(60)]
for each in ours: each.connect(path)
print(hermes_tools.echo(7))
for each in ours: each.close()
print(hermes_tools.echo(8))
"""
    assert by_hand(env, code) == "7\n8\n"


def test_a_script_that_ends_while_calls_are_under_way_ends(env: BaseEnvironment) -> None:
    called, release = threading.Event(), threading.Event()
    tools = {"wait": lambda: called.set() or release.wait(60), "has_called": lambda: called.wait(60)}
    code = """
import hermes_tools, threading, os
threading.Thread(target=hermes_tools.wait, daemon=True).start()
hermes_tools.has_called()
print("ends", flush=True)
os._exit(4)
"""
    began = time.monotonic()
    result = execute_code(code, env=env, tools=tools, transport="relay", timeout=100)
    assert (result.output, result.exit_code) == ("ends", 4)
    assert time.monotonic() - began < 50  # without a wait for the call
    release.set()
    assert sorted(call.name for call in result.tool_calls) == ["has_called", "wait"]
