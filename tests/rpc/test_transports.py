"""What holds on every transport, shown with real scripts."""

from __future__ import annotations

import threading
import time

import pytest


@pytest.fixture(params=["unix", "relay", "file"])
def open_any(request, open_line):
    env = None if request.param == "unix" else request.getfixturevalue("local_env")
    return lambda max_calls=50, **handlers: open_line(handlers, env, max_calls, relay=request.param == "relay")


def echo(value):
    return value


def test_a_script_gets_its_tools_results(open_any):
    line = open_any(echo=echo)
    assert line.run("print(h.echo({'a': [1, None, 'é']}), h.echo('b'))") == "{'a': [1, None, 'é']} b\n"


def test_ten_megabytes_go_both_ways(open_any):
    line = open_any(echo=echo)
    assert line.run("text = 'x\\n' * 5_000_000\nprint(h.echo(text) == text)") == "True\n"


def test_answers_of_every_size_arrive_whole(open_any):
    line = open_any(echo=echo)
    code = """
    for size in (0, 1, 1000, 15_000, 20_400, 20_480, 21_000, 50_000, 70_000):
        text = ("%08d" % size) * (size // 8 + 1)
        assert h.echo(text) == text, size
    """
    assert line.run(code) == ""


def test_a_tool_that_raises_has_a_result_that_says_so(open_any):
    def broken():
        raise RuntimeError("out of order")

    line = open_any(broken=broken)
    assert line.run("print(h.broken())") == "{'error': 'broken: RuntimeError: out of order'}\n"


def test_a_result_that_cannot_be_sent_is_an_error_in_the_script(open_any):
    line = open_any(bad=lambda: {1})
    assert "bad: the result, of type set, can't be sent" in line.run("print(h.bad()['error'])")


def test_the_call_after_the_limit_is_an_error_in_the_script(open_any):
    line = open_any(max_calls=3, echo=echo)
    assert line.run("for n in range(5): print('limit of 3' in str(h.echo(n)))").split() == ["False"] * 3 + ["True"] * 2
    assert line.dispatcher.calls_made == 3


def test_a_tool_error_can_be_pickled(open_any):
    code = "import pickle\nprint(repr(pickle.loads(pickle.dumps(h.ToolError('why')))))"
    assert open_any().run(code) == "ToolError('why')\n"


def test_threads_forks_and_child_processes_each_get_their_own_answers(open_any):
    line = open_any(max_calls=1000, echo=echo)
    code = """
    import subprocess, threading
    code = "import hermes_tools as h, sys; print(all(h.echo((sys.argv[1], n)) == [sys.argv[1], n] for n in range(10)))"
    wrong = []
    def check(name):
        for n in range(10):
            if h.echo([name, n]) != [name, n]:
                wrong.append(name)
    check("before")
    children = [subprocess.Popen([sys.executable, "-c", code, str(n)], stdout=subprocess.PIPE) for n in range(2)]
    forks = []
    for n in range(2):
        fork = os.fork()
        if not fork:
            check("fork %d" % n)
            os._exit(1 if wrong else 0)
        forks.append(fork)
    threads = [threading.Thread(target=check, args=("thread %d" % n,)) for n in range(6)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(wrong, [os.waitpid(fork, 0)[1] for fork in forks], [child.communicate()[0] for child in children])
    """
    assert line.run(code) == "[] [0, 0] [b'True\\n', b'True\\n']\n"
    assert line.dispatcher.calls_made == 110


def test_calls_of_a_scripts_threads_run_side_by_side(open_any):
    together = threading.Barrier(20, timeout=30)
    line = open_any(meet=lambda: together.wait() >= 0)
    code = """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(20) as pool:
        print(sum(pool.map(lambda _: h.meet(), range(20))))
    """
    assert line.run(code) == "20\n"


def test_a_call_cut_short_by_a_signal_does_not_shift_the_answers(open_any):
    release = threading.Event()

    def slow():
        release.wait(10)
        return "late"

    line = open_any(slow=slow, echo=lambda value: release.set() or value)
    code = """
    import signal
    class Cut(Exception): pass
    def cut(*_): raise Cut
    signal.signal(signal.SIGALRM, cut)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        h.slow()
    except Cut:
        print("cut", h.echo(1), h.echo(2))
    """
    assert line.run(code) == "cut 1 2\n"


def test_closing_does_not_wait_for_a_handler_that_runs_on(open_any):
    started, release = threading.Event(), threading.Event()

    def stuck():
        started.set()
        release.wait(60)

    line = open_any(stuck=stuck)
    with line.popen("h.stuck()") as script:
        assert started.wait(10)
        before = time.monotonic()
        line.close()
        assert time.monotonic() - before < 20
        script.kill()
    release.set()
    for thread in threading.enumerate():
        if thread.name == "hermes-rpc-call":
            thread.join(10)


def test_closing_twice_and_with_idle_connections_leaves_nothing(open_any):
    line = open_any(echo=echo)
    with line.popen("h.echo(1)\nprint('ready', flush=True)\nsys.stdin.read()") as script:
        assert script.stdout.readline() == "ready\n"
        line.close()
        line.close()
        script.kill()


def test_a_transport_that_was_never_started_can_be_closed(tmp_path, local_env):
    from rpc import Dispatcher, FileQueueTransport, UnixSocketTransport

    dispatcher = Dispatcher({}, token="t")
    UnixSocketTransport(dispatcher).close()
    FileQueueTransport(dispatcher, local_env, str(tmp_path)).close()
