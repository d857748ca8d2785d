"""A table of hostile scripts, and the conditions that hold after each of them.

`OPENING` precedes each script. NAP stands for the seconds of the test's own `sleep`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from code_execution import ExecutionResult, execute_code
from code_execution.limits import SCRIPT_GRACE
from environments import BaseEnvironment, EnvironmentLostError
from environments.conformance.check import wait_until
from targets.backends import docker, local
from targets.hostile_scripts import scripts_directories
from targets.processes import processes_with
from targets.renew_check import grep_processes

Way = Literal["local socket", "local relay", "docker relay", "docker file"]
WAYS: tuple[Way, ...] = ("local socket", "local relay", "docker relay", "docker file")

LIMIT = 4.0
"""Time-out in seconds of an endless script."""
LONG_ENOUGH = 40.0
"""Time-out in seconds of a finite script."""
PROMISED = SCRIPT_GRACE + 5.0
"""Seconds by which `execute_code` may exceed the time-out."""
PROMPT = 8.0
"""Seconds for the next script, on a loaded machine. It takes 0.1."""

OPENING = r"""
import contextlib, ctypes, os, signal, socket, stat, subprocess, sys, threading, time
import hermes_tools
from hermes_tools import note
PLACE = os.path.dirname(os.path.abspath(__file__))
PARENT = os.getppid()
OSError_ = contextlib.suppress(OSError)
libc = ctypes.CDLL(None, use_errno=True)
def has_supervisor():
    return b"import os,marshal" in open(f"/proc/{PARENT}/cmdline", "rb").read()
def connected():
    to_relay = socket.socket(socket.AF_UNIX)
    to_relay.connect(open(PLACE + "/own").read().split("\n")[1])
    return to_relay
TOKEN = open(PLACE + "/own").read().split("\n")[0]
def on_socket():
    return stat.S_ISSOCK(os.stat(open(PLACE + "/own").read().split("\n")[1]).st_mode)
def request(number, tool="note", argument=1):
    return b'{"token":"%s","id":"%d","tool":"%s","args":[%d],"kwargs":{}}\n' % (
        TOKEN.encode(), number, tool.encode(), argument)
"""
"""The first lines of each script."""


@dataclass(frozen=True)
class Hostile:
    """A hostile script."""

    code: str
    statuses: tuple[str, ...] = ("success", "error", "timeout")
    """Accepted statuses of the result."""
    limit: float = LONG_ENOUGH
    """Time-out in seconds."""
    ways: tuple[Way, ...] = WAYS
    """Backends and transports to run on. Scripts on this machine harm only themselves and files of this package."""
    loses: bool = False
    """True if the target may be lost."""


CONTAINER: tuple[Way, ...] = ("docker relay", "docker file")
KEPT: tuple[Way, ...] = ("local relay", "docker relay", "docker file")
SOCKETS: tuple[Way, ...] = ("local socket", "local relay", "docker relay")


def fails(code: str, **options: object) -> Hostile:
    return Hostile(code, ("error",), **options)  # type: ignore[arg-type]


def goes_on(code: str, **options: object) -> Hostile:
    """An endless script."""
    return Hostile(code, ("timeout",), limit=LIMIT, **options)  # type: ignore[arg-type]


def works(code: str, **options: object) -> Hostile:
    return Hostile(code, ("success",), **options)  # type: ignore[arg-type]


CALLS = {
    "floods calls from threads": works("""
def flood():
    for _ in range(100):
        with contextlib.suppress(hermes_tools.ToolError): note(1)
threads = [threading.Thread(target=flood) for _ in range(16)]
for each in threads: each.start()
for each in threads: each.join()
"""),
    "floods calls from children": works("""
for _ in range(8):
    if not os.fork():
        for _ in range(50):
            with contextlib.suppress(hermes_tools.ToolError): note(1)
        os._exit(0)
with contextlib.suppress(ChildProcessError):
    while True: os.wait()
"""),
    "connects by the hundred with rubbish": works(
        r"""
held = []
for number in range(300):
    try:
        each = connected()
        each.setblocking(False)
        each.send([b"rubbish\n", b"\0" * 9000, b"[" * 9000 + b"\n", b"GET / HTTP/1.1\r\n\r\n", b""][number % 5])
    except OSError:
        continue
    if number % 3: held.append(each)
time.sleep(.2)
""",
        ways=("local socket",),
    ),
    "holds all connections open": Hostile(
        r"""
held = []
def hold():
    for _ in range(100):
        with OSError_: held.append(connected())
threading.Thread(target=hold, daemon=True).start()
time.sleep(.5)
signal.alarm(2)
note(1)
""",
        ways=SOCKETS,
    ),
    "sends rubbish over the relay": Hostile(
        r"""
for data in (b"rubbish\n", b"\n", b"\0" * 5000 + b"\n", b"\x1e" * 5000 + b"\n", b"[" * 70000 + b"\n", b"\xff\n" * 999):
    with OSError_:
        each = connected(); each.settimeout(.5); each.sendall(data); each.recv(99)
""",
        ways=SOCKETS,
    ),
    "sends two requests at once": Hostile(
        r"""
each = connected(); each.settimeout(1); each.sendall(request(1) + request(2))
with OSError_: print(each.recv(9999))
""",
        ways=SOCKETS,
    ),
    "sends line ends where messages are cut": Hostile(
        r"""
for size in range(4000, 4100):
    with OSError_:
        each = connected(); each.settimeout(.05)
        each.sendall(request(size)[:-1].ljust(size - 1, b" ") + b"\n" + b"x" * 5000 + b"\n"); each.recv(9999)
""",
        ways=SOCKETS,
    ),
    "sends one line that never ends": Hostile(
        r"""
with OSError_:
    each = connected(); each.settimeout(2); each.sendall(request(1)[:60])
    for _ in range(80): each.sendall(b"x" * 1_000_000)
    each.sendall(b"\n"); each.recv(99)
""",
        ways=SOCKETS,
    ),
    "gives the largest argument that may be": Hostile("note('x' * 31_000_000)\nnote('x' * 31_000_000)"),
    "reads no answers": Hostile(
        r"""
held = []
for number in range(30):
    each = connected(); each.sendall(request(number, "large")); held.append(each)
time.sleep(1)
""",
        ways=SOCKETS,
    ),
    "ends while its calls are under way": Hostile("""
for _ in range(8): threading.Thread(target=hermes_tools.slow, daemon=True).start()
time.sleep(.3)
os._exit(3)
"""),
    "is killed while its calls are under way": Hostile("""
for _ in range(8): threading.Thread(target=hermes_tools.slow, daemon=True).start()
time.sleep(.3)
os.kill(os.getpid(), 9)
"""),
    "calls from a child that outlives it": works("""
if not os.fork():
    os.setsid()
    while True:
        with contextlib.suppress(hermes_tools.ToolError): note(1)
"""),
    "removes the token and calls": Hostile("""
os.remove(PLACE + "/own")
hermes_tools._OWN = None
note(1)
"""),
}

DESCRIPTORS = {
    "closes everything and calls": Hostile("os.closerange(0, 1000)\nnote(1)\nos._exit(0)"),
    "closes everything and goes on": goes_on("os.closerange(0, 1000)\ntime.sleep(1000)"),
    "closes its output and goes on": goes_on("os.close(1); os.close(2)\ntime.sleep(1000)"),
    "calls behind a closed standard error": works("note(1); os.close(2); note(2)\nfor _ in range(5): note(3)"),
    "has its streams not block, and prints": Hostile("""
for number in (0, 1, 2): os.set_blocking(number, False)
for _ in range(2000):
    for number in (1, 2):
        with OSError_: os.write(number, b"x" * 9999)
note(1)
"""),
    "prints gigabytes": goes_on("while True: os.write(1, b'x' * 1_000_000)"),
    "prints gigabytes of errors": goes_on("while True: os.write(2, b'x' * 1_000_000)"),
    "prints gigabytes of errors from threads, and calls": goes_on("""
def flood():
    while True: os.write(2, b"x" * 70_000)
for _ in range(4): threading.Thread(target=flood, daemon=True).start()
note(1)
time.sleep(1000)
"""),
    "prints the mark by the megabyte": Hostile(r"""
for _ in range(20): os.write(2, b"\x1e" * 1_000_000)
note(1)
"""),
    "prints messages with words of its own": works(r"""
for word in (b"", b"0" * 16, b"0" * 32, b"\x1e", os.urandom(16)):
    for text in (b"e 0 none", b"z", b"r 1 99999999 1", b"r x y z", b"e", b"-", b"failed no", b"+00"):
        os.write(2, b"\x1e" + word + b" " + text + b"\n")
note(1)
"""),
    "prints the messages of its start again": Hostile(
        r"""
word = open(PLACE + "/begin").read().split()[0].encode()
for text in (b" e 0 none\n", b" z\n", b" r 1 99999999 1\n", b" -\n", b" failed no\n", b" 7\n", b" +00\n"):
    os.write(2, b"\x1e" + word + text)
note(1)
""",
        ways=("local socket",),
    ),
    "prints one endless message": goes_on(r"""
os.write(2, b"\x1e" + b"0" * 16 + b" ")
while True: os.write(2, b"0" * 1_000_000)
"""),
    "opens its streams anew": Hostile("""
for number in (0, 1, 2):
    with OSError_:
        other = os.open(f"/proc/self/fd/{number}", os.O_RDWR | os.O_NONBLOCK)
        os.write(other, b"anew")
note(1)
"""),
    "takes the answers from its supervisor's input": Hostile(
        """
def take():
    with OSError_:
        stolen = os.open(f"/proc/{PARENT}/fd/0", os.O_RDONLY)
        while True: os.read(stolen, 1)
if has_supervisor():
    for _ in range(4): threading.Thread(target=take, daemon=True).start()
time.sleep(.2)
for _ in range(50): note(1)
time.sleep(1000)
""",
        ("error", "timeout"),  # the supervisor ends at a torn message, and waits for a missing one
        limit=LIMIT,
        ways=("local relay", "docker relay"),
    ),
    "answers itself": Hostile(
        r"""
def answer():
    with OSError_:
        given = os.open(f"/proc/{PARENT}/fd/0", os.O_WRONLY)
        for _ in range(2000): os.write(given, b'a 1 30\n{"id":"1","result":"forged"}\n\n')
if has_supervisor(): threading.Thread(target=answer, daemon=True).start()
for _ in range(20):
    with contextlib.suppress(hermes_tools.ToolError): note(1)
""",
        limit=LIMIT,
        ways=KEPT,
    ),
    "writes rubbish to its supervisor": Hostile(
        r"""
given = None
if has_supervisor():
    with OSError_: given = os.open(f"/proc/{PARENT}/fd/0", os.O_WRONLY | os.O_NONBLOCK)
if given is not None:
    with OSError_: os.write(given, b"rubbish\nx y z\na -1 99999999\n")
time.sleep(.3)
signal.alarm(2)
note(1)
""",
        ways=KEPT,
    ),
    "ends what its supervisor says": Hostile(
        r"""
if has_supervisor():
    for name in os.listdir(f"/proc/{PARENT}/fd"):
        with OSError_:
            other = os.open(f"/proc/{PARENT}/fd/{name}", os.O_WRONLY | os.O_NONBLOCK)
            os.write(other, b"\x1e0 e 0 none\n\x1e0 z\n")
signal.alarm(3)
note(1)
""",
        ways=KEPT,
    ),
    "forges its end with its supervisor's word": Hostile(
        r"""
import re
words = set()
with contextlib.suppress(OSError, ValueError):
    memory = open(f"/proc/{PARENT}/mem", "rb", 0)
    for line in open(f"/proc/{PARENT}/maps"):
        begin, end = (int(each, 16) for each in line.split()[0].split("-"))
        if "rw" in line.split()[1] and end - begin < 1 << 26:
            with OSError_:
                memory.seek(begin)
                words.update(re.findall(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", memory.read(end - begin)))
if not os.fork():
    os.setsid()
    os.execlp("sleep", "sleep", "NAP")
for word in list(words)[:999]: os.write(2, b"\x1e" + word + b" e 0 none\n\x1e" + word + b" z\n")
time.sleep(1000)
""",
        ("success", "timeout"),
        limit=LIMIT,
        ways=KEPT,
    ),
}

PROCESSES = {
    "kills its supervisor": Hostile(
        "if has_supervisor(): os.kill(PARENT, 9)\nprint('alone', flush=True)\ntime.sleep(1000)", limit=LIMIT, ways=KEPT
    ),
    "kills its supervisor and ends": Hostile("if has_supervisor(): os.kill(PARENT, 9)", ways=KEPT),
    "kills its supervisor and calls": Hostile(
        "if has_supervisor(): os.kill(PARENT, 9)\nfor _ in range(3): note(1)", limit=LIMIT, ways=KEPT
    ),
    "kills the shell above it": Hostile(
        """
above = PARENT
if has_supervisor(): above = int(open(f"/proc/{PARENT}/stat").read().rpartition(")")[2].split()[1])
if "sh" in open(f"/proc/{above}/comm").read(): os.kill(above, 9)
time.sleep(1000)
""",
        limit=LIMIT,
        loses=True,
    ),
    "stops its supervisor": Hostile(
        "if has_supervisor(): os.kill(PARENT, signal.SIGSTOP)\ntime.sleep(1000)", ("timeout",), limit=LIMIT, ways=KEPT
    ),
    "stops its supervisor and ends": Hostile(
        "if has_supervisor(): os.kill(PARENT, signal.SIGSTOP)", ("timeout",), limit=LIMIT, ways=KEPT
    ),
    "stops its supervisor and calls": Hostile(
        "note(1)\nif has_supervisor(): os.kill(PARENT, signal.SIGSTOP)\nnote(2)",
        ("timeout", "success"),
        limit=LIMIT,
        ways=KEPT,
    ),
    "sends its supervisor every signal": Hostile(
        """
for number in range(1, 65):
    if has_supervisor() and number not in (9, 19):
        with OSError_: os.kill(PARENT, number)
signal.alarm(3)
note(1)
""",
        ways=KEPT,
    ),
    "kills its group": fails("os.killpg(0, 9)"),
    "stops its group": goes_on("os.killpg(0, signal.SIGSTOP)"),
    "stops itself": goes_on("os.kill(os.getpid(), signal.SIGSTOP)"),
    "sends its group every signal": Hostile(
        """
for number in range(1, 65):
    if number not in (9, 19, 20, 21, 22):
        with contextlib.suppress(OSError, ValueError): signal.signal(number, signal.SIG_IGN)
        with OSError_: os.killpg(0, number)
note(1)
"""
    ),
    "kills all there is": Hostile("os.kill(-1, 9)\ntime.sleep(1000)", limit=LIMIT, ways=CONTAINER, loses=True),
    "stops all there is": goes_on("os.kill(-1, signal.SIGSTOP)\ntime.sleep(1000)", ways=CONTAINER),
    "terminates all there is": Hostile("os.kill(-1, 15)\ntime.sleep(1)", ways=CONTAINER, loses=True),
    "kills each shell there is": Hostile(
        """
for each in filter(str.isdigit, os.listdir("/proc")):
    with OSError_:
        if "sh" in open(f"/proc/{each}/comm").read() and each != "1": os.kill(int(each), 9)
time.sleep(1)
""",
        limit=LIMIT,
        ways=CONTAINER,
        loses=True,
    ),
    "forks as often as it can": goes_on(
        "while True:\n    with OSError_: os.fork() or os.setsid()",
        ways=CONTAINER,
    ),
    "forks as often as it can, and ends": Hostile(
        """
for _ in range(5): os.fork()
while True:
    with OSError_:
        if os.fork(): os._exit(0)
        os.setsid()
""",
        limit=LIMIT,
        ways=CONTAINER,
    ),
    "has hundreds of children": goes_on("""
for _ in range(200):
    if not os.fork():
        os.setsid()
        time.sleep(1000)
time.sleep(1000)
"""),
    "leaves hundreds of children": works("""
for _ in range(200):
    if not os.fork():
        os.setsid()
        time.sleep(1000)
"""),
    "leaves children that fork as they are ended": works("""
def again(*_):
    if not os.fork(): os.setsid()
for _ in range(10):
    if not os.fork():
        signal.signal(signal.SIGTERM, again)
        while True: time.sleep(1)
time.sleep(.2)
"""),
    "leaves one that goes on forking": works("""
if not os.fork():
    os.setsid()
    while True:
        if os.fork(): os._exit(0)
        os.setsid()
        os.close(os.open("/tmp/beat-NAP", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        time.sleep(.005)
time.sleep(.1)
"""),
    "leaves a daemon": works("""
if not os.fork():
    os.setsid()
    if not os.fork():
        os.chdir("/"); os.closerange(0, 300)
        os.execlp("sleep", "sleep", "NAP")
    os._exit(0)
os.wait()
"""),
    "leaves a daemon without any sign of it": works("""
if not os.fork():
    os.setsid()
    if not os.fork():
        os.chdir("/"); os.closerange(0, 300)
        os.execve("/bin/sleep", ["sleep", "NAP"], {})
    os._exit(0)
os.wait()
"""),
    "leaves stopped children": works("""
for _ in range(5):
    if not os.fork():
        os.setsid()
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
time.sleep(.2)
"""),
    "leaves children that hold its output": works("subprocess.Popen(['setsid', 'sleep', 'NAP'])\nprint('ended')"),
    "leaves children that flood its output": works("subprocess.Popen(['yes'], start_new_session=True)\ntime.sleep(.1)"),
    "leaves zombies": works("for _ in range(150):\n    if not os.fork(): os._exit(0)"),
    "ignores TERM": goes_on("signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)"),
    "blocks all signals": goes_on("signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))\ntime.sleep(1000)"),
    "leaves one that blocks all signals": works("""
signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
subprocess.Popen(["sleep", "NAP"], start_new_session=True)
"""),
    "forks at TERM": goes_on("""
def again(*_):
    for _ in range(3):
        if not os.fork(): os.setsid()
signal.signal(signal.SIGTERM, again)
while True: time.sleep(1)
"""),
    "ends in a thread": fails("threading.Thread(target=lambda: os._exit(7)).start()\ntime.sleep(1000)"),
    "forks from threads": works("""
def fork():
    for _ in range(10):
        if not os.fork(): os._exit(0)
threads = [threading.Thread(target=fork) for _ in range(16)]
for each in threads: each.start()
for each in threads: each.join()
note(1)
"""),
    "goes on in a thread": goes_on("threading.Thread(target=time.sleep, args=(1000,)).start()"),
    "goes on at its end": goes_on("import atexit\natexit.register(time.sleep, 1000)"),
    "adopts what it leaves": works("""
libc.prctl(36, 1, 0, 0, 0)
subprocess.Popen(["sh", "-c", "setsid sleep NAP & "])
time.sleep(.2)
"""),
    "has an odd name": works(r"""
libc.prctl(15, b"x) R 1 1\n(\x1e")
if not os.fork():
    os.setsid()
    time.sleep(1000)
note(1)
"""),
    "has its supervisor traced": Hostile(
        """
if has_supervisor():
    libc.ptrace(16, PARENT, 0, 0)
time.sleep(1000)
""",
        limit=LIMIT,
        ways=KEPT,
    ),
    "is traced by its child": Hostile(
        """
child = os.fork()
if not child:
    libc.ptrace(16, os.getppid(), 0, 0)
    time.sleep(1000)
time.sleep(1000)
""",
        limit=LIMIT,
    ),
    "takes all there is of the processor": goes_on("""
for _ in range(3):
    if not os.fork(): break
while True: pass
"""),
    "has nothing of the processor": works("os.nice(19)\nos.sched_setscheduler(0, 5, os.sched_param(0))\nnote(1)"),
}

LIMITS = {
    "may open nothing": Hostile("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\nnote(1)"),
    "may write nothing": Hostile(
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nprint(1)\nnote(1)"
    ),
    "may have no memory": Hostile("""
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
note(1)
"""),
    "may have no time": fails("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass"),
    "may have no processes": Hostile("""
import resource
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
note(1)
"""),
    "limits its supervisor": Hostile(
        """
import resource
if has_supervisor():
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        resource.prlimit(PARENT, limit, (0, 0))
signal.alarm(3)
note(1)
""",
        ways=KEPT,
    ),
    "changes its limit of file locks": Hostile("""
import resource
with contextlib.suppress(OSError, ValueError): resource.setrlimit(10, (7, 7))
subprocess.Popen(["sleep", "NAP"], start_new_session=True)
"""),
    "takes much memory": Hostile("x = bytearray(400 << 20)\nprint(len(x))"),
    "becomes another user": Hostile("os.setgid(65534); os.setuid(65534)\nsignal.alarm(3)\nnote(1)", ways=CONTAINER),
    "leaves another user's processes": works(
        """
if not os.fork():
    os.setgid(65534); os.setuid(65534); os.setsid()
    os.execlp("sleep", "sleep", "NAP")
time.sleep(.1)
""",
        ways=CONTAINER,
    ),
}

FILES = {
    "removes its directory": Hostile("import shutil\nshutil.rmtree(PLACE)\nsignal.alarm(25)\nnote(1)"),
    "removes all directories of ours": Hostile("""
import shutil
shutil.rmtree(os.path.dirname(PLACE), ignore_errors=True)
signal.alarm(25)
note(1)
"""),
    "puts a link in the place of its directory": works("""
import shutil
kept = os.path.abspath("kept-NAP")
os.mkdir(kept); open(kept + "/file", "w").close()
shutil.rmtree(PLACE); os.symlink(kept, PLACE)
"""),
    "puts a file in the place of its directory": works("import shutil\nshutil.rmtree(PLACE)\nopen(PLACE, 'w').close()"),
    "puts another in the place of its socket": Hostile(
        """
place = PLACE + "/socket"
with OSError_: os.remove(place)
mine = socket.socket(socket.AF_UNIX); mine.bind(place); mine.listen()
signal.alarm(2)
note(1)
""",
        ways=SOCKETS,
    ),
    "puts a pipe in the place of its token": goes_on("""
os.remove(PLACE + "/own"); os.mkfifo(PLACE + "/own")
del sys.modules["hermes_tools"]
import hermes_tools
hermes_tools.note(1)
time.sleep(1000)
"""),
    "puts rubbish into its queue": Hostile(
        """
queue = PLACE + "/rpc"
for number in range(1, 400):
    path = f"{queue}/req_{number:06d}"
    with OSError_: [lambda: os.mkfifo(path), lambda: os.mkdir(path), lambda: os.symlink("/dev/zero", path),
        lambda: open(path, "wb").write(os.urandom(3000)), lambda: os.symlink(path, path)][number % 5]()
with OSError_: os.close(os.open(queue + "/wake", os.O_WRONLY | os.O_NONBLOCK))
signal.alarm(3)
note(1)
""",
        ways=("docker file",),
    ),
    "replaces its queue": Hostile(
        """
import shutil
shutil.rmtree(PLACE + "/rpc"); os.symlink("/etc", PLACE + "/rpc")
time.sleep(.5)
""",
        ways=("docker file",),
    ),
    "stops the queue": Hostile(
        "open(PLACE + '/rpc/stop', 'w').close()\nsignal.alarm(2)\nnote(1)",
        ways=("docker file",),
    ),
    "makes deep directories": works(
        """
os.chdir(PLACE)
for _ in range(1500): os.mkdir("d"); os.chdir("d")
os.chmod(".", 0)
""",
        ways=CONTAINER,
    ),
    "makes thousands of files": works("for n in range(5000): open(f'{PLACE}/{n}', 'w').close()"),
    "takes all rights from its directory": works("""
os.mkdir(PLACE + "/d"); open(PLACE + "/d/f", "w").close()
for place in ("/d/f", "/d", "/script.py", ""): os.chmod(PLACE + place, 0)
"""),
    "takes all rights from ours": works("os.chmod(os.path.dirname(PLACE), 0)"),
    "makes files of odd names": works(r"""
for name in (b"\xff\n", b"-rf", b"a'b\"$(x)", b" ", b"\x1e", b"*"):
    with OSError_: os.mkdir(PLACE.encode() + b"/" + name)
"""),
    "leaves one that goes on making files": works("""
if not os.fork():
    os.setsid()
    for number in range(10**9):
        os.makedirs(PLACE, exist_ok=True)
        open(f"{PLACE}/{number}", "w").close()
time.sleep(.1)
"""),
    "fills a disk": Hostile(
        """
with OSError_:
    with open("/dev/shm/full", "wb", 0) as full:
        while full.write(b"x" * 1_000_000): pass
note(1)
os.remove("/dev/shm/full")
""",
        ways=CONTAINER,
    ),
    "is in a directory that is gone": Hostile("os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\nnote(1)"),
    "leaves modules for the next one": works("""
for place in (PLACE, os.path.dirname(PLACE)):
    for name in ("sitecustomize", "usercustomize", "json", "socket", "os", "marshal", "_socket", "encodings"):
        with open(f"{place}/{name}.py", "w") as file: file.write("raise SystemExit('poisoned')")
"""),
}

PYTHON = {
    "breaks its interpreter": Hostile("""
import builtins
os.write = os.read = time.sleep = None
sys.modules.clear()
builtins.open = builtins.print = builtins.__import__ = None
"""),
    "fails in C": fails("ctypes.string_at(0)"),
    "aborts": fails("os.abort()"),
    "goes too deep": fails("sys.setrecursionlimit(10**9)\ndef f(_): max([1], key=f)\nf(1)"),
    "ends with an odd code": Hostile("sys.exit(10**30)"),
    "ends with an odd text": fails(r"sys.exit('\x1e\udcff\0' * 1000)"),
    "raises what cannot be shown": fails("""
class Odd(BaseException):
    def __str__(self): raise self
    __repr__ = __str__
raise Odd
"""),
    "shows its errors itself": fails("sys.excepthook = None\nsys.stderr = None\nraise KeyError"),
    "traces itself": Hostile("sys.settrace(lambda *_: 1 / 0)\nsys.setprofile(lambda *_: 1 / 0)\nnote(1)"),
    "reads and changes the frames above it": Hostile("""
frame = sys._getframe()
while frame:
    print(frame.f_code.co_name, sorted(frame.f_globals)[:3])
    with contextlib.suppress(Exception): frame.f_globals.clear()
    frame = frame.f_back
"""),
    "becomes another program": works("os.execvp('sh', ['sh', '-c', 'echo other'])"),
    "becomes another program that goes on": goes_on("os.execvp('sleep', ['sleep', 'NAP'])"),
}

HOSTILE: dict[str, Hostile] = {**CALLS, **DESCRIPTORS, **PROCESSES, **LIMITS, **FILES, **PYTHON}
"""All hostile scripts, by their deeds."""

A_FEW = (
    "floods calls from threads",
    "closes everything and calls",
    "prints gigabytes of errors from threads, and calls",
    "prints messages with words of its own",
    "kills its supervisor",
    "stops its supervisor and ends",
    "leaves a daemon without any sign of it",
    "leaves one that goes on forking",
    "removes its directory",
    "leaves modules for the next one",
    "is traced by its child",
)
"""The scripts of the first ring."""


def of_each_way(names: Iterable[str]) -> list[tuple[Way, str]]:
    """Return each script once for each of its ways."""
    return [(way, name) for way in WAYS for name in names if way in HOSTILE[name].ways]


class Ground:
    """An environment that runs hostile scripts in turn."""

    def __init__(self, env: BaseEnvironment, way: Way) -> None:
        self.env = env
        self.backend, self.transport = way.split()
        self.env.execute("export KEPT=yes; true")
        self._right_and_prompt()
        self._right_and_prompt()
        self.before = self._held()

    def check(self, name: str, nap: str) -> None:
        """Run a script, and check the environment afterwards.

        Args:
            name: Name of the script in `HOSTILE`.
            nap: Seconds of the test's own `sleep`.
        """
        hostile = HOSTILE[name]
        code = (OPENING + hostile.code).replace("NAP", nap)
        began = time.monotonic()
        try:
            result = self._run(code, hostile.limit)
            assert result.status in hostile.statuses, result
        except EnvironmentLostError:
            assert hostile.loses
        took = time.monotonic() - began
        assert took < hostile.limit + PROMISED, f"it took {took:.1f} s"
        session = self.env.execute("echo ${KEPT-lost}", timeout=60)
        assert session.output == "yes\n" or (hostile.loses and session.output == "lost\n"), session
        self.env.execute("export KEPT=yes")
        self._right_and_prompt()
        assert wait_until(lambda: self._processes(nap) == "", 10), self._processes(nap)
        beat = self.env.execute_oneshot(f"rm -f /tmp/beat-{nap}; sleep .3; ls /tmp/beat-{nap}")
        assert not beat.ok, "a process that forks and exits all the time goes on"
        assert scripts_directories(self.env) == []
        assert wait_until(self._is_as_before, 10), (self.before, self._held())

    def _run(self, code: str, limit: float) -> ExecutionResult:
        tools: dict[str, Callable[..., object]] = {"note": lambda x: x, "large": _large, "slow": _slow}
        return execute_code(code, env=self.env, timeout=limit, transport=self.transport, tools=tools)  # type: ignore[arg-type]

    def _right_and_prompt(self) -> None:
        began = time.monotonic()
        result = self._run("from hermes_tools import note; import json; print(note([1, 'two']))", 60)
        took = time.monotonic() - began
        assert (result.status, result.output) == ("success", "[1, 'two']\n"), result
        assert took < PROMPT, f"the next script took {took:.1f} s"

    def _processes(self, nap: str) -> str:
        """Return the processes that scripts left."""
        if self.backend == "docker":
            words = ("marshal", "script[.]py", nap)
            return "".join(self.env.execute_oneshot(grep_processes(word)).output for word in words)
        place = f"{self.env.internal.scratch_directory()}/script-"
        return "".join(str(each) for word in (place, nap) for each in processes_with(word))

    def _held(self) -> tuple[int, int]:
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    def _is_as_before(self) -> bool:
        threads, descriptors = self._held()
        return threads <= self.before[0] + SPARE_THREADS and descriptors <= self.before[1] + SPARE_DESCRIPTORS


SPARE_THREADS, SPARE_DESCRIPTORS = 34, 60
"""Worker threads and a few shells of an environment are kept for the next call."""


def _large(number: int) -> str:
    return "x" * 3_000_000


def _slow() -> None:
    time.sleep(1)


@pytest.fixture(scope="module")
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """One environment for all scripts, so that each runs after the deeds of others."""
    way: str = request.param
    backend = docker if way.startswith("docker") else local
    work: Path = tmp_path_factory.mktemp("work")
    with backend(work) as subject, subject.make() as env:
        yield Ground(env, way)  # type: ignore[arg-type]
