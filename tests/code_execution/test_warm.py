"""A script that is forked from a Python which is ready: like one with a Python of its own, whatever happens to that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE

from code_execution import execute_code
from code_execution.warm.servers import WarmServers
from environments import BaseEnvironment, create_environment
from environments.conformance.check import wait_until

VIEW = """
import locale, os, resource, signal, sys, threading, warnings
here = os.path.dirname(__file__)
own = open("/proc/self/status").read().splitlines()
umask = os.umask(0)
os.umask(umask)
seen = {
    "argv": sys.argv, "flags": str(sys.flags), "path": sys.path, "executable": sys.executable,
    "orig_argv": [word for word in getattr(sys, "orig_argv", ()) if "/" in word or word.startswith("-")],
    "environ": {n: v for n, v in os.environ.items() if n not in ("HERMES_COMMAND", "_")},
    "main": sorted(n for n in globals() if n != "seen"), "file": __file__, "spec": str(__spec__), "doc": __doc__,
    "loader": type(__loader__).__name__, "cwd": os.getcwd(), "umask": umask, "nice": os.nice(0),
    "limits": [resource.getrlimit(limit) for limit in range(16)],
    "signals": [str(signal.getsignal(number)) for number in range(1, 32)],
    "status": [line for line in own if line.startswith(("Sig", "Shd", "Cap", "Uid", "Gid", "Groups", "Threads"))],
    "terminals": [os.isatty(number) for number in range(3)],
    "encodings": [sys.stdout.encoding, sys.stdin.encoding, sys.stderr.errors, sys.getfilesystemencoding()],
    "unbuffered": [sys.stdout.write_through, sys.stdout.line_buffering],
    "locale": [str(locale.getlocale()), locale.setlocale(locale.LC_ALL)],
    "warnings": str(warnings.filters), "recursion": sys.getrecursionlimit(),
    "main_thread": threading.current_thread() is threading.main_thread(), "name": open("/proc/self/comm").read(),
    "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()], "input": sys.stdin.read(),
    "files": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
    "shown": sorted({entry.partition("=")[0] for entry in open("/proc/self/environ").read().split(chr(0)) if entry}),
    "marked": os.environ["HERMES_COMMAND"] in open("/proc/self/environ").read(),
    "arguments": open("/proc/self/cmdline").read().rstrip(chr(0)).split(chr(0))[:4],
}
import json
print(json.dumps(seen).replace(here, "HERE"))
"""


@pytest.fixture(params=["local", "docker"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    if request.param == "docker":
        with create_environment("docker", image=PYTHON_IMAGE) as env:
            yield env
        return
    with create_environment("local", cwd=str(tmp_path)) as env:
        yield env


def ran(env: BaseEnvironment, code: str) -> str:
    result = execute_code(code, env=env)
    assert result.status == "success", result
    return result.output


def is_forked(env: BaseEnvironment) -> bool:
    """Return whether a script is forked, by what finds the modules that are loaded already."""
    return ran(env, "import sys; print(any(type(each).__name__ == 'Ready' for each in sys.meta_path))") == "True\n"


def servers(env: BaseEnvironment) -> int:
    return env.attachments.get(WarmServers).count


@pytest.mark.parametrize("python_start", ["warm"], indirect=True)
def test_a_script_cannot_tell_that_it_was_forked(place: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    forked = json.loads(ran(place, VIEW))
    assert is_forked(place)
    monkeypatch.setattr("code_execution.warm.warmth.Warmth.is_possible", staticmethod(lambda env, pythons: False))
    started = json.loads(ran(place, VIEW))
    assert not is_forked(place)
    assert forked == started


@pytest.mark.parametrize("python_start", ["cold"], indirect=True)
def test_with_warm_off_nothing_waits_in_the_target(place: BaseEnvironment) -> None:
    assert not is_forked(place)
    assert servers(place) == 0


@pytest.mark.parametrize("python_start", ["warm"], indirect=True)
@pytest.mark.parametrize("victim", ["server", "nurse"])
def test_a_script_that_kills_what_it_was_forked_from_hurts_no_later_one(place: BaseEnvironment, victim: str) -> None:
    ran(place, "print(1)")
    of_server = 'int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])'
    pid = "os.getppid()" if victim == "nurse" else of_server
    result = execute_code(f"import os, time\nos.kill({pid}, 9)\ntime.sleep(0.2)\nprint('goes on')", env=place)
    assert result.exit_code == (137 if victim == "nurse" else 0)
    assert [ran(place, "print(2)"), ran(place, "print(3)")] == ["2\n", "3\n"]


@pytest.mark.parametrize("python_start", ["warm"], indirect=True)
def test_what_a_script_leaves_in_any_way_is_ended(place: BaseEnvironment) -> None:
    leaving = """
import os, time
if os.fork() == 0:
    os.setsid()
    for number in range(300):
        try: os.close(number)
        except OSError: pass
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "7654"], {})
    os._exit(0)
time.sleep(0.2)
"""
    ran(place, "print(1)")
    assert "7654" in ran(place, leaving + "print(os.popen('cat /proc/[0-9]*/cmdline').read().replace(chr(0), ' '))")
    sleeping = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep 7654'"
    wait_until(lambda: place.execute(sleeping).output.strip() == "0")


@pytest.mark.parametrize("python_start", ["warm"], indirect=True)
def test_what_is_installed_meanwhile_is_seen(place: BaseEnvironment) -> None:
    place.execute("mkdir -p venv more && python3 -m venv --without-pip venv && export VIRTUAL_ENV=$PWD/venv")
    assert ran(place, "import importlib.util as u; print(u.find_spec('added'))") == "None\n"
    place.execute('echo WORD=1 >more/added.py; echo $PWD/more >"$(echo venv/lib/python3*/site-packages)/added.pth"')
    assert ran(place, "import added; print(added.WORD)") == "1\n"


@pytest.mark.parametrize("python_start", ["warm"], indirect=True)
def test_a_python_that_runs_something_of_its_users_is_never_forked(env: BaseEnvironment) -> None:
    env.execute("python3 -m venv --without-pip venv && export VIRTUAL_ENV=$PWD/venv")
    env.execute("echo 'print(1)' >\"$(echo venv/lib/python3*/site-packages)/sitecustomize.py\"")
    assert [ran(env, "print(2)"), ran(env, "print(2)")] == ["1\n2\n", "1\n2\n"]
