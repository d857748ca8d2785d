"""Compares a script's view and end, through `execute_code` and in a plain `python script.py`."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from code_execution import ExecutionResult, execute_code, start
from code_execution.boot_program import stage
from code_execution.interpreter import PYTHON, script_command
from code_execution.staging import SCRIPT, Staging
from environments import BaseEnvironment
from targets.script_ends import DOES, ENDS

VIEW = r'''"""The script's docstring."""
import os, sys
modules, names = dict(sys.modules), {name: repr(value) for name, value in globals().items() if name != "modules"}
opened = [n for n in sorted(map(int, os.listdir("/proc/self/fd"))) if os.path.lexists("/proc/self/fd/%d" % n)]
def depth():
    frame, count = sys._getframe(), 0
    while frame: frame, count = frame.f_back, count + 1
    return count
frames, imports, cached = depth(), [repr(finder) for finder in sys.meta_path], sorted(sys.path_importer_cache)
trash = __import__("gc").garbage[:]
hooks = {name: repr(getattr(sys, name, None)) for name in dir(sys) if name.endswith("hook")}
ends = {name: repr(getattr(sys, name, None)) for name in ("last_type", "last_value", "last_exc")}
import atexit, builtins, gc, inspect, json, locale, resource, signal, stat, threading, time, warnings
def status(*words): return [line for line in open("/proc/self/status") if line.startswith(words)]
def proc(name): return open("/proc/self/" + name, "rb").read().decode().rstrip("\0").split("\0")
def kind(number):
    seen = os.fstat(number)
    return [stat.S_IFMT(seen.st_mode), os.get_inheritable(number), os.isatty(number)]
def flags(number): return __import__("fcntl").fcntl(number, 3)
def stream(file):
    raw = getattr(file.buffer, "raw", file.buffer)
    return [file.name, file.mode, file.encoding, file.errors, file.line_buffering, file.write_through, file.newlines,
        type(file.buffer).__name__, raw.name, raw.mode, raw.closefd, file.seekable(), file.isatty(), file.fileno()]
class Here: pass
def function(): pass
view = {
    "argv": sys.argv, "flags": repr(sys.flags), "path": sys.path, "executable": sys.executable,
    "prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix], "xoptions": sys._xoptions,
    "warnoptions": sys.warnoptions,
    "dont_write": [sys.dont_write_bytecode, sys.pycache_prefix],
    "orig_argv": getattr(sys, "orig_argv", None), "main": names, "main module": repr(modules["__main__"]),
    "main is main": modules["__main__"].__dict__ is globals(), "doc": __doc__, "loader": type(__loader__).__name__,
    "loader's": [__loader__.name, __loader__.path, __loader__.get_source("__main__") == open(__file__).read()],
    "builtins": sorted(vars(builtins)), "builtins are a module": __builtins__ is builtins,
    "variables": dict(os.environ), "shown variables": sorted(proc("environ")), "shown arguments": proc("cmdline"),
    "shown name": proc("comm"), "cwd": os.getcwd(), "shown cwd": os.readlink("/proc/self/cwd"),
    "umask": [os.umask(0o22), os.umask(0o22)],
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "handlers": {number: str(signal.getsignal(number)) for number in range(1, signal.NSIG)},
    "mask": repr(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "wakeup": signal.set_wakeup_fd(-1),
    "timers": [signal.getitimer(number) for number in (0, 1, 2)],
    "files": {number: kind(number) for number in opened}, "file flags": {number: flags(number) for number in opened},
    "status": status("SigB", "SigI", "SigC", "SigP", "ShdP", "Uid", "Gid", "Groups", "Threads", "Cap", "NoNewP", "Sec"),
    "leads": [os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()],
    "input": sys.stdin.read(), "streams": [stream(f) for f in (sys.stdin, sys.stdout, sys.stderr)],
    "own streams": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    "locale": [locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding(), sys.getdefaultencoding()],
    "zone": time.tzname, "warnings": repr(warnings.filters), "recursion": sys.getrecursionlimit(), "frames": frames,
    "stack": [(f.filename, f.lineno, f.function) for f in inspect.stack()], "nice": os.nice(0),
    "scheduler": os.sched_getscheduler(0), "cpus": sorted(os.sched_getaffinity(0)),
    "threads": [threading.current_thread().name, threading.active_count(),
        threading.current_thread() is threading.main_thread(), threading.get_native_id() == os.getpid()],
    "collects": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug(), len(trash)],
    "hooks": hooks, "ends": ends, "trace": [repr(sys.gettrace()), repr(sys.getprofile())],
    "meta path": imports, "importers": cached, "path hooks": list(map(repr, sys.path_hooks)),
    "modules": sorted(modules),
    "files of modules": {name: getattr(module, "__file__", None) for name, module in modules.items()},
    "exits": atexit._ncallbacks(), "children": open(f"/proc/self/task/{os.getpid()}/children").read(),
    "source": inspect.getsource(function), "module's name": Here.__module__,
    "interval": sys.getswitchinterval(),
    "directory": sorted(os.listdir(os.path.dirname(__file__))), "source file": open(__file__).read()[:3],
}
print(json.dumps(view, default=str))
'''
"""A script that prints its view of the process and the interpreter."""

PLAIN = "00"


def start_plainly(patch: pytest.MonkeyPatch) -> None:
    """Run scripts as `python -u script.py` in an otherwise empty directory, without the boot program."""
    patch.setattr(Staging, "stage_here", _stage_here)
    patch.setattr(Staging, "boot_command", _boot_command)
    patch.setattr(start, "script_command", _begun_command)


def _begun_command(argv: str, directory: str, *args: Any) -> str:
    """Return the commands that stage the script and report its begin, followed by the result of `script_command`."""
    before, words = argv.split("\0")
    return before + script_command(words, directory, *args)


def _command(staging: Any, arguments: Any) -> str:
    staging._messages.has_supervisor = False
    before = f"{staging._messages.report_command('+' + PLAIN)}\n{staging.staged}"
    return f"{before}\0{PYTHON} -u {shlex.join([f'{staging._directory}/{SCRIPT}', *arguments])}"


def _stage_here(self: Any, files: dict[str, bytes], mode: str, arguments: Any) -> str:
    stage(self._directory, files)
    self.staged = ""
    return _command(self, arguments)


def _boot_command(self: Any, files: dict[str, bytes], mode: str, arguments: Any, **_: object) -> tuple[str, bytes]:
    place = shlex.quote(self._directory)
    self.staged = f"(umask 077; mkdir {place}"
    for name, data in files.items():
        path = shlex.quote(f"{self._directory}/{name}")
        if name.endswith("/"):
            self.staged += f"; mkdir {path}"
        elif not name.endswith("|"):
            self.staged += f"; echo {base64.b64encode(data).decode()} | base64 -d >{path}"
    self.staged += f")\ncd {place}\n" if mode == "strict" else ")\n"
    return _command(self, arguments), b""


def ran(env: BaseEnvironment, code: str, *, plainly: bool, **options: Any) -> ExecutionResult:
    """Run a script, and return its result with ids and addresses masked."""
    with pytest.MonkeyPatch.context() as patch:
        if plainly:
            start_plainly(patch)
        result = execute_code(code, env=env, timeout=60, **options)
    return replace(result, output=_masked(result.output), stderr=_masked(result.stderr))


def _masked(text: str) -> str:
    for pattern, word in (
        (r"script-[0-9a-f]{8}", "OWN"),
        (r"(?<=[-0-9a-f]{8})/\d+/\d+/", "/N/"),
        (r"0x[0-9a-f]{6,}", "0x"),
    ):
        text = re.sub(pattern, word, text)
    return text


def view(env: BaseEnvironment, *, plainly: bool, **options: Any) -> dict[str, Any]:
    """Return a script's view."""
    result = ran(env, VIEW, plainly=plainly, argv=["a", "b c", ""], **options)
    assert result.status == "success", result.output
    found: dict[str, Any] = json.loads(result.output)
    found["variables"].pop("OLDPWD", None)  # set by the shell of the plain run
    found["shown variables"] = [each for each in found["shown variables"] if not each.startswith("OLDPWD=")]
    return found


def differences(env: BaseEnvironment, **options: Any) -> dict[str, tuple[Any, Any]]:
    """Return the differences of a script's view, plain and through `execute_code`, except the intended ones."""
    plain, ours = view(env, plainly=True, **options), view(env, plainly=False, **options)
    assert plain.keys() == ours.keys()
    found = {name: (plain[name], ours[name]) for name in plain if plain[name] != ours[name]}
    is_forked = "-c" in ours["shown arguments"]
    is_strict = options.get("mode") == "strict"
    cwd = [ours["cwd"]] if not is_strict and "safe_path=True" not in ours["flags"] else []
    own, *others = dict.fromkeys(plain["path"])
    if (is_strict and ours["path"] == [own, *others]) or ours["path"] == [own, *cwd, *others]:
        found.pop("path", None)
    if ours["meta path"][1:] == plain["meta path"]:
        found.pop("meta path", None)
    if {*ours["modules"]} - {*plain["modules"]} <= {"linecache"} and is_forked:  # imported by 3.13 for `-c`
        for name in ("modules", "files of modules"):
            found.pop(name, None)
    if is_forked and is_strict and ours["cwd"] == ours["variables"]["PWD"]:
        found.pop("shown variables", None)
    return {name: each for name, each in found.items() if name not in (ON_PURPOSE | (FORKED if is_forked else {}))}


ON_PURPOSE = {
    "importers": "the interpreter has cached the script's directory before it existed, and not the session's",
    "directory": "the staged files beside the script",
}
"""Intended differences on every backend. Path, finders and, in strict mode, PWD are checked more closely."""
FORKED = {
    "shown arguments": "a process list shows the program that the script was forked from",
    "frames": "one frame is below the script's",
    "stack": "one frame is below the script's",
}
"""Differences of a script forked from a process that is older than the script's files."""
ENDS_FORKED = {
    "a zero byte": "the source is compiled from memory, with another message of the compiler",
    "an unknown encoding": "the source is compiled from memory, with another message of the compiler",
    "a hook that fails": "the frame that calls the hook is shown",
    "no hook": "without a hook, the frame below the script's is shown",
    "a deep recursion": "one frame is below the script's",
}
"""Ends that differ for a forked script."""


def ends(env: BaseEnvironment, names: Collection[str] | None = None, **options: Any) -> dict[str, tuple[Any, Any]]:
    """Return the scripts whose end differs, plain and through `execute_code`."""
    found = {}
    for name, code in {**ENDS, **DOES}.items():
        if names is not None and name not in names:
            continue
        plain, ours = (ran(env, code, plainly=plainly, **options) for plainly in (True, False))
        seen = [(each.status, each.exit_code, each.output, each.stderr) for each in (plain, ours)]
        if seen[0] != seen[1]:
            found[name] = (seen[0], seen[1])
    return found


@cache
def pythons() -> tuple[str, ...]:
    """Return the Pythons of this machine, one of each version."""
    found = {"{}.{}".format(*sys.version_info): sys.executable}
    for minor in range(6, 20):
        version = f"3.{minor}"
        places = [
            *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
            shutil.which(f"python{version}"),
        ]
        for place in filter(None, places):
            asked = subprocess.run([place, "-c", "pass"], capture_output=True, check=False)
            if not asked.returncode:
                found.setdefault(version, str(place))
    return tuple(found[version] for version in sorted(found, key=lambda version: int(version[2:])))


@cache
def version_of(python: str) -> tuple[int, int]:
    """Return the version of a Python."""
    asked = "import sys; print(*sys.version_info[:2])"
    major, minor = subprocess.run([python, "-c", asked], capture_output=True, check=True, text=True).stdout.split()
    return int(major), int(minor)


def use(env: BaseEnvironment, python: str, place: str) -> None:
    """Activate a virtual environment in the session: a directory with a link to a Python."""
    word = shlex.quote(place)
    made = f"mkdir -p {word}/bin && ln -sfn {shlex.quote(python)} {word}/bin/python"
    assert env.execute(f"unset CONDA_PREFIX PYTHONPATH; {made} && export VIRTUAL_ENV={word}").ok
