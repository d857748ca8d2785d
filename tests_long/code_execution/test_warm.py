"""A script that is forked from a Python that is ready: it is like any other, and nothing depends on that Python."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from targets.backends import docker, local, ssh
from targets.ready_python import have_each_script_wait_for_one, is_forked, server_of

from code_execution import execute_code
from code_execution.warm.servers import WarmServers
from environments import BaseEnvironment
from environments.conformance.check import wait_until


@pytest.fixture(params=[local, docker, ssh], ids=["local", "docker", "ssh"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    with request.param(tmp_path) as subject, subject.make() as env:
        yield env


def is_running(pid: int) -> bool:
    """Return whether a process has not ended; one that nobody has waited for yet has."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


VIEW = r"""
import os, sys
modules, names = set(sys.modules), sorted(globals())
import gc, json, locale, resource, signal, threading, time, warnings
def depth():
    frame, count = sys._getframe(), 0
    while frame: frame, count = frame.f_back, count + 1
    return count
def shown(name): return open("/proc/self/" + name, "rb").read().decode().rstrip("\0").split("\0")
def is_of_a_file(name):
    spec = getattr(sys.modules[name], "__spec__", None)
    return getattr(spec, "origin", "") not in ("built-in", "frozen")
view = {
    "argv": sys.argv, "flags": str(sys.flags), "path": sys.path, "executable": sys.executable, "prefix": sys.prefix,
    "orig_argv": getattr(sys, "orig_argv", None), "variables": dict(os.environ), "main": names,
    "shown variables": sorted(shown("environ")), "shown arguments": shown("cmdline"),
    "shown name": open("/proc/self/comm").read(), "cwd": os.getcwd(), "umask": os.umask(0o22),
    # But for that of file locks, which tells the processes of one script from those of others.
    "limits": [resource.getrlimit(number) for number in range(16) if number != 10],
    "handlers": [str(signal.getsignal(number)) for number in range(1, 32)],
    "files": {n: os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in range(300)
        if os.path.exists(f"/proc/self/fd/{n}")},
    "status": [line for line in open("/proc/self/status")
        if line.startswith(("SigB", "SigI", "SigC", "Shd", "Uid", "Gid", "Threads"))],
    "leads": (os.getpid() == os.getpgid(0), os.getpid() == os.getsid(0)), "tty": [os.isatty(n) for n in range(3)],
    "input": sys.stdin.read(), "locale": locale.setlocale(locale.LC_ALL), "zone": time.tzname,
    "streams": [(f.encoding, f.errors, f.line_buffering, f.write_through) for f in (sys.stdin, sys.stdout, sys.stderr)],
    "warnings": str(warnings.filters), "recursion": (sys.getrecursionlimit(), depth()), "nice": os.nice(0),
    "threads": (threading.current_thread().name, threading.active_count()), "collects": gc.get_threshold(),
    "hooks": (str(sys.excepthook), str(sys.unraisablehook)), "modules": sorted(filter(is_of_a_file, modules)),
    "library": (json.__spec__.origin, json.__name__, type(json.__loader__).__name__),
}
os.setsid()
print(json.dumps(view, default=str))
"""


@pytest.mark.parametrize("mode", ["project", "strict"])
def test_a_forked_script_sees_what_any_other_sees(
    target: BaseEnvironment, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.execute("true")

    def view() -> dict[str, object]:
        result = execute_code(VIEW, env=target, mode=mode, argv=["a", "b c", ""])  # type: ignore[arg-type]
        assert result.status == "success", result
        own = r"script-[0-9a-f]{8}|/[0-9]+/[0-9]+/|\b[0-9a-f]{16}\b"
        found: dict[str, object] = json.loads(re.sub(own, "own", result.output))
        return found

    cold = view()
    have_each_script_wait_for_one(monkeypatch)
    assert is_forked(target)
    warm = view()
    assert warm == cold


def test_the_next_script_runs_when_a_server_was_killed(target: BaseEnvironment) -> None:
    server = server_of(target)
    target.execute_oneshot(f"kill -s KILL {server.pid}")
    assert not is_forked(target)
    server_of(target)
    assert is_forked(target)


def test_the_next_script_runs_when_a_server_was_stopped(
    target: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of(target)
    target.execute_oneshot(f"kill -s STOP {server.pid}")
    monkeypatch.setattr("code_execution.script_run.PATIENCE", 0.5)
    assert not is_forked(target)
    monkeypatch.undo()
    assert server_of(target).pid != server.pid
    assert wait_until(lambda: not target.execute_oneshot(f"grep -s {server.directory} /proc/{server.pid}/cmdline").ok)


def test_what_a_script_writes_to_a_server_harms_no_other(env: BaseEnvironment) -> None:
    pipe = f"{server_of(env).directory}/ask"
    said = "b'x' * 3000 + b'\\n7 /etc\\nwhat is left'"
    code = f"import os; os.write(os.open({pipe!r}, os.O_RDWR), {said})"
    assert execute_code(code, env=env).status == "success"
    assert is_forked(env)


def test_a_script_that_ends_its_parent_has_ended(env: BaseEnvironment) -> None:
    server_of(env)
    result = execute_code("import os, time; os.kill(os.getppid(), 9); time.sleep(60)", env=env)
    assert (result.status, result.exit_code) == ("error", 137)
    assert is_forked(env)


def test_a_script_cannot_say_that_nothing_is_left_of_it(env: BaseEnvironment) -> None:
    server_of(env)
    code = """
import os, time
pipe = os.open(os.path.dirname(__file__) + "/in", os.O_WRONLY)
print(os.getpid())
os.write(pipe, b"0 \\n")
time.sleep(60)
"""
    result = execute_code(code, env=env)
    assert not is_running(int(result.output))


def test_what_sheds_all_signs_of_its_script_is_ended(env: BaseEnvironment) -> None:
    server_of(env)
    code = """
import os
here, there = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.write(there, b"%d" % os.getpid())
        os.closerange(0, 300)
        os.execve("/bin/sleep", ["sleep", "60"], {})
    os._exit(0)
print(os.read(here, 99).decode())
"""
    pid = int(execute_code(code, env=env).output)
    assert wait_until(lambda: not is_running(pid))


def test_many_scripts_are_forked_at_once(env: BaseEnvironment) -> None:
    server_of(env)
    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda number: execute_code(f"print({number})", env=env).output, range(20)))
    assert results == [f"{number}\n" for number in range(20)]


def test_nothing_of_a_forked_script_is_left_nor_of_a_server_behind_its_environment(
    env: BaseEnvironment,
) -> None:
    server = server_of(env)
    execute_code("print(1)", env=env)
    place = Path(server.directory)
    assert not [path for path in place.parent.iterdir() if path.name.startswith("script-")]
    env.cleanup()
    assert not place.exists()
    assert not is_running(server.pid)


def test_a_module_of_the_project_is_found_though_the_library_has_one_of_its_name(env: BaseEnvironment) -> None:
    server_of(env)
    env.execute("echo 'mine = True' > json.py")
    assert execute_code("import json; print(json.mine)", env=env).output == "True\n"


def test_no_server_is_started_where_that_is_off(env: BaseEnvironment, tmp_path: Path) -> None:
    home = Path(os.environ["HERMES_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("code_execution:\n  warm: off\n")
    execute_code("print(1)", env=env)
    assert not env.attachments.get(WarmServers)._kept


def test_what_is_installed_meanwhile_is_seen(target: BaseEnvironment) -> None:
    target.execute("mkdir -p venv more && python3 -m venv --without-pip venv && export VIRTUAL_ENV=$PWD/venv")
    server_of(target)
    target.execute('echo WORD=1 >more/added.py; echo $PWD/more >"$(echo venv/lib/python3*/site-packages)/added.pth"')
    assert execute_code("import added; print(added.WORD)", env=target).output == "1\n"


def test_a_python_that_runs_something_of_its_users_is_never_forked(env: BaseEnvironment) -> None:
    env.execute("python3 -m venv --without-pip venv && export VIRTUAL_ENV=$PWD/venv")
    env.execute("echo 'print(1)' >\"$(echo venv/lib/python3*/site-packages)/sitecustomize.py\"")
    assert [execute_code("print(2)", env=env).output for _ in range(3)] == ["1\n2\n"] * 3


TOLD = """
import sys, hermes_tools, inspect
source = inspect.getsource(hermes_tools.note)
loader = type(hermes_tools.__loader__).__name__, type(hermes_tools.__spec__.loader).__name__
file = hermes_tools.note.__wrapped__.__code__.co_filename == hermes_tools.__file__ == hermes_tools.__spec__.origin
print(loader, file, source, hermes_tools.note("x"), "__pycache__" in __import__("os").listdir(sys.path[0]))
"""


def test_tools_that_were_compiled_before_are_like_others(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def note(text: str) -> list[str]:
        """Return it."""
        return [text]

    def told() -> str:
        result = execute_code(TOLD, env=env, tools={"note": note})
        assert result.status == "success", result
        return result.output

    first = told()
    server_of(env)
    assert "['x']" in first
    assert [told() for _ in range(3)] == [first] * 3


def test_a_forked_script_leaves_nothing_of_its_tools_behind(env: BaseEnvironment) -> None:
    server_of(env)
    code = "import os, hermes_tools; print(os.path.exists(os.path.dirname(__file__) + '/__pycache__'))"
    assert execute_code(code, env=env).output == "False\n"
