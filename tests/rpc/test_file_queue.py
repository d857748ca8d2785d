from __future__ import annotations

import base64
import logging
import os
import shlex
import subprocess
import threading
import time

import pytest
from targets.tool_channel import FaultyEnvironment

from environments import CommandResult, EnvironmentLostError, TerminalError
from environments.conformance.check import wait_until
from rpc import Dispatcher, FileQueueTransport, Request, Response
from rpc.call_threads import MAX_THREADS
from rpc.file_queue import MAX_COLLECTED, CollectedRequest, CollectedRequests, GarbledError, collecting_command


def echo(value):
    return value


@pytest.fixture
def channel(open_channel, local_env):
    return open_channel({"echo": echo}, local_env)


def put(channel, number, content):
    """Write a request as a script does, without a wake-up."""
    path = channel.directory / "rpc" / f"req_{number}"
    path.with_name(path.name + ".tmp").write_bytes(content)
    path.with_name(path.name + ".tmp").rename(path)
    wake(channel)


def wake(channel):
    pipe = os.open(channel.directory / "rpc" / "wake", os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, b"\n")
    os.close(pipe)


def answer(channel, number):
    path = channel.directory / "rpc" / f"res_{number}"
    wait_for(path.exists)
    content = path.read_bytes()
    return Response.decode(content if content.startswith(b"{") else base64.b64decode(content))


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def valid(channel):
    return Request("id", "echo", ["ok"], {}, channel.token).encode()


BAD = {
    "empty": (b"", "token is wrong"),
    "newlines": (b"\n\n\n", "token is wrong"),
    "binary": (b"\0\x01\xff\n\0" * 1000, "token is wrong"),
    "framing": (b"\n0123456789abcdef0123456789abcdef end\n", "token is wrong"),
    "no JSON": (b"TOKEN\n", "not JSON"),
    "half": (b'TOKEN,"id":"i","tool":"ec', "not JSON"),
    "forged": (Request("f", "echo", [1], {}, "forged").encode(), "token is wrong"),
    "forged, large": (Request("f", "echo", ["x" * 500_000], {}, "forged").encode(), "token is wrong"),
}


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_collector_ends_by_its_pipe_alone_as_its_queue_may_be_removed_file_by_file(tmp_path, shell):
    os.mkfifo(tmp_path / "wake")
    pipe = os.open(tmp_path / "wake", os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, b"\nstop\n")
    command = collecting_command(str(tmp_path), [], "nonce", streams=True)
    ended = subprocess.run([shell, "-c", command], stdout=subprocess.PIPE, timeout=20, check=True)
    os.close(pipe)
    assert ended.stdout == b"\nnonce end\n"


def test_a_bad_request_gets_an_error_and_the_next_one_is_served(channel):
    failed = []
    for number, (content, expected) in enumerate(BAD.values()):
        put(channel, f"{number:06d}", content.replace(b"TOKEN", channel.dispatcher.prefix))
        if expected not in answer(channel, f"{number:06d}").error:
            failed.append(content)
    put(channel, "000100", valid(channel))
    assert answer(channel, "000100").result == "ok"
    assert failed == []


def test_a_request_that_is_being_written_is_left_alone(channel):
    (channel.directory / "rpc" / "req_000001.tmp").write_bytes(valid(channel)[:-10])
    put(channel, "000002", valid(channel))
    assert answer(channel, "000002").result == "ok"
    assert not (channel.directory / "rpc" / "res_000001").exists()


def test_a_request_that_is_no_file_gets_an_error_and_is_removed(channel):
    made = [channel.directory / "rpc" / f"req_00000{number}" for number in range(1, 5)]
    made[0].mkdir()
    os.mkfifo(made[1])
    made[2].symlink_to("/dev/zero")
    made[3].symlink_to("/nowhere")
    put(channel, "000005", valid(channel))
    assert all(answer(channel, path.name[-6:]).error for path in made)
    assert answer(channel, "000005").result == "ok"
    wait_for(lambda: not any(map(os.path.lexists, made)))


def test_names_that_are_no_numbers_are_passed_over(channel):
    for name in ("req_", "req_x", "req_1 2", "req_-1", "req_$(touch run)", "req_\n000009", "req_000001.tmp"):
        (channel.directory / "rpc" / name).write_bytes(b"x")
    put(channel, "000002", valid(channel))
    assert answer(channel, "000002").result == "ok"
    assert {path.name for path in (channel.directory / "rpc").glob("res_*")} == {"res_000002"}
    assert not (channel.directory / "rpc" / "run").exists()


def test_more_requests_than_one_command_brings_are_all_served(open_channel, local_env):
    channel = open_channel({"echo": echo}, local_env, 100)
    for number in range(30):
        request = Request(f"id{number}", "echo", [number], {}, channel.token).encode()
        path = channel.directory / "rpc" / f"req_{number:06d}"
        path.with_suffix(".tmp").write_bytes(request)  # the collector may be reading already
        path.with_suffix(".tmp").rename(path)
    wake(channel)
    answers = [answer(channel, f"{number:06d}") for number in range(30)]
    assert [(each.error, each.result) for each in answers] == [(None, number) for number in range(30)]


def test_a_request_that_comes_twice_runs_once(open_channel, local_env):
    runs = []
    channel = open_channel({"echo": runs.append}, local_env)
    put(channel, "000001", valid(channel))
    put(channel, "000002", valid(channel))
    assert answer(channel, "000001") == answer(channel, "000002")
    assert runs == ["ok"]


def fail_times(times, matches):
    left = [times]

    def intervene(command):
        if matches(command) and left[0]:
            left[0] -= 1
            raise TerminalError("injected")

    return intervene


def writes_answer(command):
    return ">res_" in command


def test_an_answer_that_is_refused_by_the_target_is_written_again(open_channel, local_env):
    refusals = [CommandResult("No space left on device", 1)]
    env = FaultyEnvironment(local_env, lambda c: refusals.pop() if writes_answer(c) and refusals else None)
    channel = open_channel({"echo": echo}, env)
    assert channel.run("print(h.echo('again'))") == "again\n"


def test_an_answer_that_can_never_be_written_ends_the_scripts_waiting(open_channel, local_env, caplog):
    caplog.set_level(logging.DEBUG)
    runs = []
    env = FaultyEnvironment(local_env, fail_times(3, writes_answer))
    channel = open_channel({"echo": lambda value: runs.append(value) or value}, env)
    code = """
    try:
        h.echo("hunter2")
    except h.ToolError as error:
        print(error)
    """
    assert channel.run(code).startswith("echo: the answer can't be read")
    assert runs == ["hunter2"]
    assert "answer 000001 could not be written" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_collection_that_fails_once_loses_and_repeats_nothing(open_channel, local_env):
    runs = []
    failures = [CommandResult("", 1)]

    def intervene(command):
        return failures.pop() if "req_*" in command and failures else None

    channel = open_channel({"echo": runs.append}, FaultyEnvironment(local_env, intervene))
    channel.run("for n in range(3): h.echo(n)")
    assert runs == [0, 1, 2]


def test_a_lost_environment_is_recorded_and_ends_the_collecting(open_channel, local_env):
    def intervene(command):
        if "req_*" in command:
            raise EnvironmentLostError("the container is gone")

    channel = open_channel({"echo": echo}, FaultyEnvironment(local_env, intervene))
    wait_for(lambda: channel.transport.failure is not None)
    assert isinstance(channel.transport.failure, EnvironmentLostError)


def test_a_queue_that_vanishes_is_recorded_and_ends_the_collecting(channel):
    queue = channel.directory / "rpc"
    queue.rename(channel.directory / "elsewhere")
    pipe = os.open(channel.directory / "elsewhere" / "wake", os.O_RDWR)
    (channel.directory / "elsewhere" / "req_000001").write_bytes(valid(channel))
    os.write(pipe, b"\n")
    os.close(pipe)
    wait_for(lambda: channel.transport.failure is not None)
    assert "can no longer be collected" in str(channel.transport.failure)


def test_a_queue_that_is_never_made_is_recorded(tmp_path, local_env):
    transport = FileQueueTransport(Dispatcher({}, token="t"), local_env, str(tmp_path / "missing"))
    transport.start()
    wait_for(lambda: transport.failure is not None)
    assert "can no longer be collected" in str(transport.failure)
    transport.close()


def test_without_a_pipe_the_queue_is_looked_at_again_and_again(open_channel, local_env):
    channel = open_channel({"echo": echo}, local_env, wake=False)
    assert not (channel.directory / "rpc" / "wake").exists()
    assert channel.run("print(h.echo(1), h.echo(2))") == "1 2\n"


def test_any_posix_shell_will_do(open_channel, local_env):
    env = FaultyEnvironment(local_env, lambda command: f"sh -c {shlex.quote(command)}")
    channel = open_channel({"echo": echo}, env)
    assert channel.run("print(h.echo(1), len(h.echo('x' * 1_000_000)))") == "1 1000000\n"


def test_where_output_does_not_come_as_it_is_printed_each_command_brings_what_there_is_and_ends(
    open_channel, local_env
):
    env = FaultyEnvironment(local_env, lambda command: None)
    channel = open_channel({"echo": echo}, env, streams=False)
    assert channel.run("print(h.echo(1), h.echo('x' * 20_000) == 'x' * 20_000, h.echo(3))") == "1 True 3\n"
    assert sum("req_*" in command for command in env.commands) == 4


NO_PIPES = """
def refuse(*_): raise PermissionError(1, "Operation not permitted")
os.mkfifo = refuse
"""
WOKEN_EARLY = """
write = h._write_request
def write_and_wake(path, channel):
    os.close(os.open(path.replace("req_", "claim_"), os.O_RDWR))
    write(path, channel)
h._write_request = write_and_wake
"""
NEVER_WOKEN = """
import select
class Never:
    def register(self, *_): pass
    def poll(self, timeout): return []
select.poll = Never
"""


def test_a_script_without_a_wake_up_finds_its_answers(channel):
    for fault in (NO_PIPES, WOKEN_EARLY, NEVER_WOKEN):
        code = f"{fault}\nprint(h.echo(1), h.echo('x' * 10_000) == 'x' * 10_000, len(h.echo('x' * 100_000)))"
        assert channel.run(code) == "1 True 100000\n", fault


def test_a_request_that_was_brought_is_not_brought_again_though_it_stays_for_long(open_channel, local_env):
    runs, release = [], threading.Event()
    channel = open_channel({"wait": lambda n: runs.append(n) or release.wait(60), "echo": echo}, local_env)
    code = """
    import threading
    waiting = [threading.Thread(target=h.wait, args=(n,)) for n in range(5)]
    for thread in waiting: thread.start()
    print(all(h.echo(n) == n for n in range(20)), flush=True)
    for thread in waiting: thread.join()
    """
    with channel.popen(code) as script:
        assert script.stdout.readline() == "True\n"
        release.set()
        assert script.wait(60) == 0
    assert sorted(runs) == list(range(5))


FRAMES = "noise\n@ 000001\n{}\n\n@ .\nnoise\n@ 2\n\n@ .\n\n@ 3\n\n@\n\n@ .\n\n@ end\n"


def test_collected_output_is_parsed_alike_wherever_it_is_cut():
    requests = [CollectedRequest("000001", b"{}\n"), CollectedRequest("2", b""), CollectedRequest("3", b"\n@\n")]
    for size in (1, 2, 3, 7, 1000):
        collected = CollectedRequests("@")
        pieces = [FRAMES[begin : begin + size] for begin in range(0, len(FRAMES), size)]
        assert [request for piece in pieces for request in collected.feed(piece)] == requests, size
        assert collected.ended


def test_collected_output_with_an_endless_request_or_number_is_refused():
    collected = CollectedRequests("@")
    assert [*collected.feed("\n@ 1\n" + "x" * MAX_COLLECTED)] == []
    with pytest.raises(GarbledError):
        [*collected.feed("x" * 10)]
    with pytest.raises(GarbledError):
        [*CollectedRequests("@").feed("\n@ " + "1" * 1000)]


def test_a_file_without_a_number_is_no_request():
    for number in ("$(touch run)", "1 2", "", "\u00b2", "-1"):
        assert [*CollectedRequests("@").feed(f"\n@ {number}\n{{}}\n@ .\n")] == []


def test_requests_by_the_thousand_under_one_id_take_few_threads(open_channel, local_env):
    release = threading.Event()
    channel = open_channel({"wait": lambda: release.wait(60)}, local_env)
    request = Request("same", "wait", [], {}, channel.token).encode()
    for number in range(1000):
        path = channel.directory / "rpc" / f"req_{number:06d}"
        path.with_suffix(".tmp").write_bytes(request)
        path.with_suffix(".tmp").rename(path)
    wake(channel)

    def threads_of_calls():
        return [thread.name for thread in threading.enumerate()].count("hermes-rpc-call")

    assert wait_until(lambda: threads_of_calls() >= MAX_THREADS, 60)
    time.sleep(1)
    assert threads_of_calls() == MAX_THREADS
    release.set()
    assert wait_until((channel.directory / "rpc" / "res_000000").exists, 60)
