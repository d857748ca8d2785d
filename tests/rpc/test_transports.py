"""Properties of every transport, with real scripts."""

from __future__ import annotations

import threading

import pytest

from rpc import Dispatcher, FileQueueTransport, UnixSocketTransport


@pytest.fixture(params=["unix", "relay", "file"])
def open_any(request, open_channel):
    env = None if request.param == "unix" else request.getfixturevalue("local_env")
    return lambda max_calls=50, **handlers: open_channel(handlers, env, max_calls, relay=request.param == "relay")


def echo(value):
    return value


def test_answers_of_every_size_arrive_whole(open_any):
    channel = open_any(echo=echo)
    code = """
    print(h.echo({'a': [1, None, 'é']}))
    for size in (0, 1, 1000, 15_000, 20_400, 20_480, 21_000, 50_000, 70_000, 1_000_000):
        text = ("%08d" % size) * (size // 8 + 1)
        assert h.echo(text) == text, size
    """
    assert channel.run(code) == "{'a': [1, None, 'é']}\n"


def test_threads_forks_and_child_processes_each_get_their_own_answers(open_any):
    channel = open_any(max_calls=1000, echo=echo)
    code = """
    import subprocess, threading
    code = "import hermes_tools as h, sys; print(all(h.echo((sys.argv[1], n)) == [sys.argv[1], n] for n in range(5)))"
    wrong = []
    def check(name):
        for n in range(5):
            if h.echo([name, n]) != [name, n]:
                wrong.append(name)
    check("before")
    child = subprocess.Popen([sys.executable, "-S", "-c", code, "child"], stdout=subprocess.PIPE)
    fork = os.fork()
    if not fork:
        check("fork")
        os._exit(1 if wrong else 0)
    threads = [threading.Thread(target=check, args=("thread %d" % n,)) for n in range(6)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(wrong, os.waitpid(fork, 0)[1], child.communicate()[0])
    """
    assert channel.run(code) == "[] 0 b'True\\n'\n"
    assert channel.calls_made == 45


def test_a_script_that_closes_all_descriptors_goes_on_calling_and_its_own_later_ones_are_left_alone(open_any):
    channel = open_any(echo=echo)
    code = """
    import socket
    print(h.echo(1))
    os.closerange(3, 400)
    print(h.echo(2))
    os.closerange(3, 400)
    own = socket.socketpair()
    files = [os.open(os.devnull, os.O_RDWR) for _ in range(5)]
    print(h.echo(3), h.echo(4))
    [os.fstat(file) for file in (*files, *(each.fileno() for each in own))]
    for each in own:
        each.setblocking(False)
        try:
            print(each.recv(10))
        except BlockingIOError:
            print("untouched")
    fork = os.fork()
    if not fork:
        os.closerange(3, 400)
        os._exit(h.echo(5))
    print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), h.echo(6))
    [each.detach() for each in own]
    """
    assert channel.run(code) == "1\n2\n3 4\nuntouched\nuntouched\n5 6\n"


def test_calls_of_a_scripts_threads_run_side_by_side(open_any):
    together = threading.Barrier(20, timeout=30)
    channel = open_any(meet=lambda: together.wait() >= 0)
    code = """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(20) as pool:
        print(sum(pool.map(lambda _: h.meet(), range(20))))
    """
    assert channel.run(code) == "20\n"


def test_a_call_cut_short_by_a_signal_does_not_shift_the_answers(open_any):
    release = threading.Event()

    def slow():
        release.wait(30)
        return "late"

    channel = open_any(slow=slow, echo=lambda value: release.set() or value)
    code = """
    import signal
    class Cut(Exception): pass
    def cut(*_): raise Cut
    signal.signal(signal.SIGALRM, cut)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        h.slow()
    except Cut:
        print("cut", h.echo(1), h.echo(2))
    """
    assert channel.run(code) == "cut 1 2\n"


@pytest.mark.parametrize("open_any", ["unix", "file"], indirect=True)
def test_closing_twice_and_with_idle_connections_leaves_nothing(open_any):
    channel = open_any(echo=echo)
    with channel.popen("h.echo(1)\nprint('ready', flush=True)\nsys.stdin.read()") as script:
        assert script.stdout.readline() == "ready\n"
        channel.close()
        channel.close()
        script.kill()


def test_a_transport_that_was_never_started_can_be_closed(tmp_path, local_env):
    dispatcher = Dispatcher({}, token="t")
    UnixSocketTransport(dispatcher).close()
    FileQueueTransport(dispatcher, local_env, str(tmp_path)).close()
