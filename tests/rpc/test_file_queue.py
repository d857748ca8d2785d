from __future__ import annotations

import base64
import logging
import os
import shlex
import shutil
import threading
import time
from pathlib import Path

import psutil
import pytest
from targets.per_command_local import PerCommandLocal

from environments import CommandResult, EnvironmentLostError, TerminalError, load_settings
from rpc import MAX_MESSAGE_BYTES, Dispatcher, FileQueueTransport, Request, Response
from rpc.collecting import IN_ALL, MAX_COLLECTED, CollectedRequest, CollectedRequests, GarbledError
from rpc.workers import MAX_THREADS


class FaultyEnvironment:
    """A real environment, with a function that sees each command first and may change it, answer it or raise."""

    def __init__(self, env, intervene):
        self._env = env
        self._intervene = intervene
        self.commands = []

    @property
    def capabilities(self):
        return self._env.capabilities

    def execute_own(self, command, **options):
        self.commands.append(command)
        changed = self._intervene(command)
        if isinstance(changed, CommandResult):
            return changed
        return self._env.execute_own(changed or command, **options)

    def write_bytes(self, path, data):
        self._env.write_bytes(path, data)


def echo(value):
    return value


@pytest.fixture
def line(open_line, local_env):
    return open_line({"echo": echo}, local_env)


def put(line, number, content):
    """Put a request in place the way a script does, without waking anybody who isn't there."""
    path = line.directory / "rpc" / f"req_{number}"
    path.with_name(path.name + ".tmp").write_bytes(content)
    path.with_name(path.name + ".tmp").rename(path)
    wake(line)


def wake(line):
    pipe = os.open(line.directory / "rpc" / "wake", os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, b"\n")
    os.close(pipe)


def answer(line, number):
    path = line.directory / "rpc" / f"res_{number}"
    wait_for(path.exists)
    content = path.read_bytes()
    return Response.decode(content if content.startswith(b"{") else base64.b64decode(content))


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def valid(line):
    return Request("id", "echo", ["ok"], {}, line.token).encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "token is wrong"),
        (b"\n\n\n", "token is wrong"),
        (b"\0\x01\xff\n\0" * 1000, "token is wrong"),
        (b"\n0123456789abcdef0123456789abcdef end\n", "token is wrong"),
        (b"TOKEN\n", "not JSON"),
        (Request("f", "echo", [1], {}, "forged").encode(), "token is wrong"),
        (Request("f", "echo", ["x" * 5_000_000], {}, "forged").encode(), "token is wrong"),
        (b"TOKEN" + b"x" * (MAX_MESSAGE_BYTES + 1000), "too large"),
    ],
    ids=["empty", "newlines", "binary", "framing", "no JSON", "forged", "forged, large", "huge"],
)
def test_a_bad_request_gets_an_error_and_the_next_one_is_served(line, content, expected):
    put(line, "000001", content.replace(b"TOKEN", line.dispatcher.prefix))
    put(line, "000002", valid(line))
    assert expected in answer(line, "000001").error
    assert answer(line, "000002").result == "ok"


def test_a_half_written_request_gets_an_error(line):
    put(line, "000001", valid(line)[:-10])
    assert "not JSON" in answer(line, "000001").error


def test_a_request_that_is_being_written_is_left_alone(line):
    (line.directory / "rpc" / "req_000001.tmp").write_bytes(valid(line)[:-10])
    put(line, "000002", valid(line))
    assert answer(line, "000002").result == "ok"
    assert not (line.directory / "rpc" / "res_000001").exists()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("/nowhere"),
    ],
    ids=["directory", "pipe", "device", "dangling"],
)
def test_a_request_that_is_no_file_gets_an_error_and_is_removed(line, make):
    make(line.directory / "rpc" / "req_000001")
    put(line, "000002", valid(line))
    assert answer(line, "000001").error
    assert answer(line, "000002").result == "ok"
    wait_for(lambda: not os.path.lexists(line.directory / "rpc" / "req_000001"))


def test_names_that_are_no_numbers_are_passed_over(line):
    for name in ("req_", "req_x", "req_1 2", "req_-1", "req_$(touch run)", "req_\n000009", "req_000001.tmp"):
        (line.directory / "rpc" / name).write_bytes(b"x")
    put(line, "000002", valid(line))
    assert answer(line, "000002").result == "ok"
    assert {path.name for path in (line.directory / "rpc").glob("res_*")} == {"res_000002"}
    assert not (line.directory / "rpc" / "run").exists()


def test_more_requests_than_one_command_brings_are_all_served(open_line, local_env):
    line = open_line({"echo": echo}, local_env, 100)
    for number in range(60):
        request = Request(f"id{number}", "echo", [number], {}, line.token).encode()
        path = line.directory / "rpc" / f"req_{number:06d}"
        path.with_suffix(".tmp").write_bytes(request)  # as somebody may be looking already
        path.with_suffix(".tmp").rename(path)
    wake(line)
    answers = [answer(line, f"{number:06d}") for number in range(60)]
    assert [(each.error, each.result) for each in answers] == [(None, number) for number in range(60)]


def test_requests_and_answers_are_removed_once_they_are_read(line):
    line.run("for n in range(5): h.echo(n)")
    wait_for(lambda: not [*(line.directory / "rpc").glob("re[qs]_*")])


def test_a_request_that_comes_twice_runs_once(open_line, local_env):
    runs = []
    line = open_line({"echo": runs.append}, local_env)
    put(line, "000001", valid(line))
    put(line, "000002", valid(line))
    assert answer(line, "000001") == answer(line, "000002")
    assert runs == ["ok"]


def test_links_to_one_huge_request_are_brought_one_by_one(line):
    """16 hard links to a sparse file of 32 MB, of which all would be collected at once."""
    queue = line.directory / "rpc"
    with (queue / "huge").open("wb") as file:
        file.truncate(MAX_MESSAGE_BYTES)
    process = psutil.Process()
    before = most = process.memory_info().rss
    for number in range(1, 17):
        (queue / f"req_{number:06d}").hardlink_to(queue / "huge")
    wake(line)
    deadline = time.monotonic() + 8
    while time.monotonic() < deadline:
        most = max(most, process.memory_info().rss)
        time.sleep(0.02)
    assert "token is wrong" in answer(line, "000001").error
    assert most - before < 400_000_000


def threads_of_calls():
    return [thread.name for thread in threading.enumerate()].count("hermes-rpc-call")


def test_requests_by_the_thousand_under_one_id_take_few_threads(open_line, local_env):
    release = threading.Event()
    line = open_line({"wait": lambda: release.wait(60)}, local_env)
    request = Request("same", "wait", [], {}, line.token).encode()
    for number in range(1000):
        path = line.directory / "rpc" / f"req_{number:06d}"
        path.with_suffix(".tmp").write_bytes(request)
        path.with_suffix(".tmp").rename(path)
    wake(line)
    wait_for(lambda: threads_of_calls() >= MAX_THREADS)
    time.sleep(1)
    assert threads_of_calls() == MAX_THREADS
    release.set()
    assert answer(line, "000000").result is True


def fail_times(times, matches):
    left = [times]

    def intervene(command):
        if matches(command) and left[0]:
            left[0] -= 1
            raise TerminalError("injected")

    return intervene


def writes_answer(command):
    return ">res_" in command


def test_a_request_whose_answer_could_not_be_written_at_first_runs_once(open_line, local_env):
    runs = []
    env = FaultyEnvironment(local_env, fail_times(2, writes_answer))
    line = open_line({"echo": lambda value: runs.append(value) or value}, env)
    assert line.run("print(h.echo('once'))") == "once\n"
    assert runs == ["once"]


def test_an_answer_that_is_refused_by_the_target_is_written_again(open_line, local_env):
    refusals = [CommandResult("No space left on device", 1)]
    env = FaultyEnvironment(local_env, lambda c: refusals.pop() if writes_answer(c) and refusals else None)
    line = open_line({"echo": echo}, env)
    assert line.run("print(h.echo('again'))") == "again\n"


def test_an_answer_that_can_never_be_written_ends_the_scripts_waiting(open_line, local_env, caplog):
    caplog.set_level(logging.DEBUG)
    runs = []
    env = FaultyEnvironment(local_env, fail_times(3, writes_answer))
    line = open_line({"echo": lambda value: runs.append(value) or value}, env)
    code = """
    try:
        h.echo("hunter2")
    except h.ToolError as error:
        print(error)
    """
    assert line.run(code).startswith("echo: the answer can't be read")
    assert runs == ["hunter2"]
    assert "answer 000001 could not be written" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_collection_that_fails_once_loses_and_repeats_nothing(open_line, local_env):
    runs = []
    failures = [CommandResult("", 1)]

    def intervene(command):
        return failures.pop() if "req_*" in command and failures else None

    line = open_line({"echo": runs.append}, FaultyEnvironment(local_env, intervene))
    line.run("for n in range(3): h.echo(n)")
    assert runs == [0, 1, 2]


def test_a_lost_environment_is_recorded_and_ends_the_collecting(open_line, local_env):
    def intervene(command):
        if "req_*" in command:
            raise EnvironmentLostError("the container is gone")

    line = open_line({"echo": echo}, FaultyEnvironment(local_env, intervene))
    wait_for(lambda: line.transport.failure is not None)
    assert isinstance(line.transport.failure, EnvironmentLostError)


def test_a_queue_that_vanishes_is_recorded_and_ends_the_collecting(line):
    queue = line.directory / "rpc"
    queue.rename(line.directory / "elsewhere")
    pipe = os.open(line.directory / "elsewhere" / "wake", os.O_RDWR)
    (line.directory / "elsewhere" / "req_000001").write_bytes(valid(line))
    os.write(pipe, b"\n")
    os.close(pipe)
    wait_for(lambda: line.transport.failure is not None)
    assert "can no longer be collected" in str(line.transport.failure)


def test_a_queue_that_cannot_be_made_is_an_error_with_the_targets_reason(tmp_path, local_env):
    transport = FileQueueTransport(Dispatcher({}, token="t"), local_env, str(tmp_path / "missing"))
    with pytest.raises(TerminalError, match=r"could not be made.*No such file"):
        transport.start()
    transport.close()


def test_the_end_of_a_queue_that_is_gone_leaves_nothing_in_the_session_s_directory(line, local_env):
    here = Path(local_env.cwd)
    before = sorted(here.iterdir())
    shutil.rmtree(line.directory / "rpc")
    line.transport.close()
    assert sorted(here.iterdir()) == before


def test_without_a_pipe_the_queue_is_looked_at_again_and_again(open_line, local_env):
    env = FaultyEnvironment(local_env, lambda command: command.replace("mkfifo", "false"))
    line = open_line({"echo": echo}, env)
    assert not (line.directory / "rpc" / "wake").exists()
    assert line.run("print(h.echo(1), h.echo(2))") == "1 2\n"


def test_any_posix_shell_will_do(open_line, local_env):
    env = FaultyEnvironment(local_env, lambda command: f"sh -c {shlex.quote(command)}")
    line = open_line({"echo": echo}, env)
    assert line.run("print(h.echo(1), len(h.echo('x' * 1_000_000)))") == "1 1000000\n"


def test_an_idle_queue_runs_one_command_and_no_more(open_line, local_env):
    env = FaultyEnvironment(local_env, lambda command: None)
    line = open_line({"echo": echo}, env)
    line.run("h.echo(1)")
    time.sleep(0.5)
    # One made the queue, one brings requests, one wrote the answer.
    assert len(env.commands) == 3


def test_one_command_brings_hundreds_of_requests_and_the_next_goes_on(open_line, local_env):
    calls = IN_ALL + 50
    env = FaultyEnvironment(local_env, lambda command: None)
    line = open_line({"echo": echo}, env, calls)
    assert line.run(f"print(all(h.echo(n) == n for n in range({calls})))") == "True\n"
    assert sum("req_*" in command for command in env.commands) == 2


def test_where_output_does_not_come_as_it_is_printed_each_command_brings_what_there_is_and_ends(open_line, local_env):
    env = FaultyEnvironment(local_env, lambda command: None)
    line = open_line({"echo": echo}, env, streams=False)
    assert line.run("print(h.echo(1), h.echo('x' * 20_000) == 'x' * 20_000, h.echo(3))") == "1 True 3\n"
    assert sum("req_*" in command for command in env.commands) == 4


def test_whether_output_comes_as_it_is_printed_is_asked_of_the_environment(open_line, tmp_path):
    with PerCommandLocal(load_settings("local", cwd=str(tmp_path))) as short_commands:
        env = FaultyEnvironment(short_commands, lambda command: None)
        line = open_line({"echo": echo}, env)
        assert line.run("print(h.echo(1), h.echo(2))") == "1 2\n"
        line.close()
    assert sum("req_*" in command for command in env.commands) >= 3


def test_an_answer_is_renamed_by_who_is_told_of_it_and_otherwise_by_a_program(open_line, local_env):
    env = FaultyEnvironment(local_env, lambda command: command.replace("exec mv", "false"))
    line = open_line({"echo": echo}, env)
    assert line.run("print(h.echo('told'))") == "told\n"
    put(line, "000002", valid(line))
    part = line.directory / "rpc" / "res_000002.tmp"
    wait_for(lambda: any("res_000002" in command for command in env.commands) and part.exists())
    assert not part.with_suffix("").exists()


NO_PIPES = """
def refuse(*_): raise PermissionError(1, "Operation not permitted")
os.mkfifo = refuse
"""
WOKEN_EARLY = """
write = h._write_request
def write_and_wake(path, line):
    os.close(os.open(path.replace("req_", "claim_"), os.O_RDWR))
    write(path, line)
h._write_request = write_and_wake
"""
NEVER_WOKEN = """
import select
class Never:
    def register(self, *_): pass
    def poll(self, timeout): return []
select.poll = Never
"""


@pytest.mark.parametrize("fault", [NO_PIPES, WOKEN_EARLY, NEVER_WOKEN], ids=["no pipes", "woken early", "never woken"])
def test_a_script_that_is_not_told_of_its_answers_finds_them(line, fault):
    code = f"{fault}\nprint(h.echo(1), h.echo('x' * 10_000) == 'x' * 10_000, len(h.echo('x' * 100_000)))"
    assert line.run(code) == "1 True 100000\n"


def test_a_request_that_was_brought_is_not_brought_again_though_it_stays_for_long(open_line, local_env):
    runs, release = [], threading.Event()
    line = open_line({"wait": lambda n: runs.append(n) or release.wait(60), "echo": echo}, local_env)
    code = """
    import threading
    waiting = [threading.Thread(target=h.wait, args=(n,)) for n in range(5)]
    for thread in waiting: thread.start()
    print(all(h.echo(n) == n for n in range(20)), flush=True)
    for thread in waiting: thread.join()
    """
    with line.popen(code) as script:
        assert script.stdout.readline() == "True\n"
        release.set()
        assert script.wait(60) == 0
    assert sorted(runs) == list(range(5))


FRAMES = "noise\n@ 000001\n{}\n\n@ .\nnoise\n@ 2\n\n@ .\n\n@ 3\n\n@\n\n@ .\n\n@ end\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_what_is_collected_means_the_same_wherever_it_is_cut(size):
    collected = CollectedRequests("@")
    pieces = [FRAMES[begin : begin + size] for begin in range(0, len(FRAMES), size)]
    found = [request for piece in pieces for request in collected.feed(piece)]
    assert found == [CollectedRequest("000001", b"{}\n"), CollectedRequest("2", b""), CollectedRequest("3", b"\n@\n")]
    assert collected.ended


def test_what_is_collected_is_refused_where_a_request_or_its_number_never_ends():
    collected = CollectedRequests("@")
    assert [*collected.feed("\n@ 1\n" + "x" * MAX_COLLECTED)] == []
    with pytest.raises(GarbledError):
        [*collected.feed("x" * 10)]
    with pytest.raises(GarbledError):
        [*CollectedRequests("@").feed("\n@ " + "1" * 1000)]


@pytest.mark.parametrize("number", ["$(touch run)", "1 2", "", "\u00b2", "-1"])
def test_what_is_no_number_is_no_request(number):
    assert [*CollectedRequests("@").feed(f"\n@ {number}\n{{}}\n@ .\n")] == []


def test_noise_is_not_kept():
    collected = CollectedRequests("@")
    for _ in range(100):
        assert [*collected.feed("x" * 1_000_000)] == []
    assert [*collected.feed("\n@ 1\n{}\n@ .\n")] == [CollectedRequest("1", b"{}")]


def test_a_queue_that_can_no_longer_be_reached_is_closed_all_the_same(open_line, local_env):
    closing = threading.Event()

    def intervene(command):
        if closing.is_set():
            raise EnvironmentLostError("gone")

    line = open_line({"echo": echo}, FaultyEnvironment(local_env, intervene))
    closing.set()
    line.close()
