"""A call of each public method of environments, sessions, processes and scripts, for `targets.trial`."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from code_execution import PythonSession, execute_code
from environments import BaseEnvironment, UnsupportedError

Context = dict[str, Any]
"""Data of one call: `word`, a marker for the arguments of its processes, and the objects that the call made."""


def _nothing(env: BaseEnvironment, context: Context) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Operation:
    """A repeatable call of a public method."""

    names: tuple[str, ...]
    """The methods and properties."""
    act: Callable[[BaseEnvironment, Context], object]
    """Calls them."""
    prepare: Callable[[BaseEnvironment, Context], object] = _nothing
    """Prepares the call."""
    undo: Callable[[BaseEnvironment, Context], object] = _nothing
    """Ends the objects that the call returned."""
    is_first: bool = False
    """True if the call starts its environment."""
    ends: bool = False
    """True if the call cleans the environment up, so that no command can follow."""
    most: int | None = None
    """Maximum of tried moments, for long calls."""

    @property
    def on_new(self) -> bool:
        """True if each call needs a new environment."""
        return self.is_first or self.ends


SLEEP = "sh -c ': {word}; sleep 1000; :'"
"""A process that runs until it is killed, found by its marker."""


def _folder(env: BaseEnvironment, context: Context) -> None:
    """Make a local directory and a directory in the target, each with a file."""
    here = tempfile.TemporaryDirectory()
    context["folder"] = here
    context["here"] = Path(here.name)
    context["there"] = f"/tmp/moments-{context['word']}"
    (context["here"] / "a").write_bytes(b"a" * 20_000)
    env.write_bytes(f"{context['there']}/a", b"a" * 20_000)


def _without_folder(env: BaseEnvironment, context: Context) -> None:
    context["folder"].cleanup()
    env.remove(context["there"], recursive=True, missing_ok=True)


def _file(*names: str, act: str) -> Operation:
    """Return a file operation; `act` is an expression over `env`, `here` and `there`."""
    code = compile(act, names[0], "eval")

    def run(env: BaseEnvironment, context: Context) -> object:
        return eval(code, {"env": env, "here": context["here"], "there": context["there"]})

    return Operation(names, run, _folder, _without_folder)


def _kill(env: BaseEnvironment, context: Context) -> None:
    if process := context.pop("process", None):
        process.kill()


def _start(env: BaseEnvironment, context: Context) -> None:
    context["process"] = env.start(f"read line; echo got $line; {SLEEP.format(**context)}")


def _on_process(name: str, *arguments: object, **keywords: object) -> Operation:
    return Operation(
        (f"Process.{name}",),
        lambda env, context: getattr(context["process"], name)(*arguments, **keywords),
        _start,
        _kill,
    )


def _attributes(env: BaseEnvironment, context: Context) -> object:
    return (
        env.cwd, env.busy, env.idle_seconds, env.is_ready, env.target, env.capabilities, env.backend, env.settings,
        env.internal.variable("PATH"), env.internal.why_killed(), env.internal.check_usable(), env.touch(),
        env.model_view(),
    )  # fmt: skip


def _printed(text: str) -> object:
    """Ignore output, as a callback."""


def _open(env: BaseEnvironment, context: Context) -> None:
    context["session"] = env.session("other")
    context["session"].execute("true")


def _close(env: BaseEnvironment, context: Context) -> None:
    context["session"].close()


def noted(number: int) -> int:
    """Return a number."""
    return number


def _new_python(env: BaseEnvironment, context: Context) -> None:
    context["python"] = PythonSession(env, tools={"noted": noted})


def _python(env: BaseEnvironment, context: Context) -> None:
    _new_python(env, context)
    context["python"].execute("x = 1")


def _python_goes_on(env: BaseEnvironment, context: Context) -> None:
    """Check that the variables of a session last."""
    with context["python"] as python:
        result = python.execute("x")
    if (result.value, result.note) != ("1", None):
        raise AssertionError(f"the next script of the session gives {result}")


def _snapshot(env: BaseEnvironment, context: Context) -> None:
    with contextlib.suppress(UnsupportedError):
        env.snapshot(context["word"])


def _fork(env: BaseEnvironment, context: Context) -> None:
    with contextlib.suppress(UnsupportedError):
        context["fork"] = env.fork()
        context["fork"].execute("true")


def _end_fork(env: BaseEnvironment, context: Context) -> None:
    if fork := context.pop("fork", None):
        fork.cleanup()


def _set_network(env: BaseEnvironment, context: Context) -> None:
    with contextlib.suppress(UnsupportedError):
        env.set_network(["example.org", "127.0.0.1:9"])


OPERATIONS: dict[str, Operation] = {
    "execute": Operation(("execute",), lambda env, _: env.execute("echo old")),
    "execute with a callback": Operation(
        ("execute",), lambda env, _: env.execute("echo old; echo old", on_output=_printed)
    ),
    "execute with an event": Operation(
        ("execute",), lambda env, _: env.execute("echo old", interrupt=threading.Event())
    ),
    "execute with input": Operation(("execute",), lambda env, _: env.execute("cat", stdin=b"x" * 100_000)),
    "execute that times out": Operation(
        ("execute",), lambda env, c: env.execute(f"echo old; {SLEEP.format(**c)}", timeout=0.1), most=16
    ),
    "execute of a first command": Operation(
        ("execute",), lambda env, _: env.execute("echo old"), is_first=True, most=8
    ),
    "execute_oneshot": Operation(("execute_oneshot",), lambda env, _: env.execute_oneshot("echo old")),
    "execute_oneshot with the session's exports": Operation(
        ("execute_oneshot",), lambda env, _: env.execute_oneshot("echo old", session_env=True)
    ),
    "execute_oneshot that times out": Operation(
        ("execute_oneshot",), lambda env, c: env.execute_oneshot(SLEEP.format(**c), timeout=0.1), most=16
    ),
    "start": Operation(("start",), _start, undo=_kill),
    "session": Operation(("session", "Session.execute"), _open, undo=lambda env, _: env.close_sessions()),
    "Session.execute": Operation(
        ("Session.execute", "Session.cwd", "Session.busy", "Session.closed", "Session.name"),
        lambda _, c: (c["session"].execute("echo old"), c["session"].cwd, c["session"].busy, c["session"].closed),
        _open,
        _close,
    ),
    "Session.interrupt": Operation(("Session.interrupt",), lambda _, c: c["session"].interrupt(), _open, _close),
    "Session.close": Operation(("Session.close",), lambda _, c: c["session"].close(), _open, _close),
    "close_sessions": Operation(("close_sessions",), lambda env, _: env.close_sessions(), _open),
    "interrupt": Operation(("interrupt",), lambda env, _: env.interrupt()),
    "attributes": Operation(
        (
            "cwd",
            "busy",
            "idle_seconds",
            "is_ready",
            "target",
            "capabilities",
            "backend",
            "settings",
            "Internal.variable",
            "Internal.why_killed",
            "Internal.check_usable",
            "touch",
            "model_view",
        ),
        _attributes,
    ),
    "Internal.execute": Operation(("Internal.execute",), lambda env, _: env.internal.execute("echo old")),
    "scratch_directory": Operation(("Internal.scratch_directory",), lambda env, _: env.internal.scratch_directory()),
    "write_bytes": _file("write_bytes", act="env.write_bytes(there + '/b', b'b' * 20_000)"),
    "read_bytes": _file("read_bytes", act="env.read_bytes(there + '/a')"),
    "write_text": _file("write_text", act="env.write_text(there + '/b', 'b' * 20_000)"),
    "read_text": _file("read_text", act="env.read_text(there + '/a')"),
    "put_file": _file("put_file", act="env.put_file(here / 'a', there + '/b')"),
    "get_file": _file("get_file", act="env.get_file(there + '/a', here / 'b')"),
    "put_dir": _file("put_dir", act="env.put_dir(here, there + '/d')"),
    "get_dir": _file("get_dir", act="env.get_dir(there, here / 'd')"),
    "entries": _file(
        "stat",
        "exists",
        "list_dir",
        "mkdir",
        "remove",
        act="(env.stat(there), env.exists(there), env.list_dir(there), "
        "env.mkdir(there + '/d'), env.remove(there + '/a'))",
    ),
    "Process.read": _on_process("read"),
    "Process.write": _on_process("write", "line\n"),
    "Process.expect": Operation(
        ("Process.expect",),
        lambda _, c: (c["process"].write("line\n"), c["process"].expect("got line\n")),
        _start,
        _kill,
    ),
    "Process.wait": _on_process("wait", 0.05),
    "Process.poll": Operation(
        ("Process.poll", "Process.running", "Process.pid"),
        lambda _, c: (c["process"].poll(), c["process"].running, c["process"].pid),
        _start,
        _kill,
    ),
    "Process.close_stdin": _on_process("close_stdin"),
    "Process.resize": _on_process("resize", 30, 100),
    "Process.add_done_callback": _on_process("add_done_callback", lambda code: None),
    "Process.kill": _on_process("kill"),
    "snapshot": Operation(("snapshot",), _snapshot, most=8),
    "fork": Operation(("fork",), _fork, undo=_end_fork, most=8),
    "set_network": Operation(("set_network",), _set_network),
    "renew": Operation(("renew",), lambda env, _: env.renew(), ends=True, most=12),
    "cleanup": Operation(("cleanup",), lambda env, _: env.cleanup(), ends=True, most=12),
    "execute_code": Operation(("execute_code",), lambda env, _: execute_code("print(1)", env=env, tools={}), most=16),
    "execute_code with a tool call": Operation(
        ("execute_code",),
        lambda env, _: execute_code("import hermes_tools; hermes_tools.noted(1)", env=env, tools={"noted": noted}),
        most=16,
    ),
    "PythonSession.execute": Operation(
        ("PythonSession",), lambda _, context: context["python"].execute("x"), _python, _python_goes_on, most=24
    ),
    "PythonSession.execute with a tool call": Operation(
        ("PythonSession",),
        lambda _, context: context["python"].execute("import hermes_tools; hermes_tools.noted(x)"),
        _python,
        _python_goes_on,
        most=24,
    ),
    "PythonSession of a first script": Operation(
        ("PythonSession",),
        lambda _, context: context["python"].execute("x = 1"),
        _new_python,
        lambda _, context: context["python"].close(),
        most=16,
    ),
    "PythonSession.reset": Operation(
        ("PythonSession",),
        lambda _, context: context["python"].reset(),
        _python,
        lambda _, context: context["python"].close(),
        most=12,
    ),
    "PythonSession.close": Operation(
        ("PythonSession",),
        lambda _, context: context["python"].close(),
        _python,
        lambda _, context: context["python"].close(),
        most=12,
    ),
}
"""Operations by name, for test ids."""

OF_A_BACKEND = (
    "execute",
    "execute with a callback",
    "execute that times out",
    "execute of a first command",
    "execute_oneshot",
    "start",
    "write_bytes",
    "put_dir",
    "Process.read",
    "Process.kill",
    "set_network",
    "fork",
    "cleanup",
    "execute_code with a tool call",
)
"""Operations that involve a backend's stream, files or start."""
