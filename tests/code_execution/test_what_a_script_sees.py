"""A script sees what one sees that `python3 script.py` runs, on each Python that is here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from code_execution import execute_code
from code_execution.limits import TransportName
from environments import BaseEnvironment
from environments.shell.dialect.bash import Fd

VIEW = """
import sys
names, modules = sorted(globals()), set(sys.modules)
import json, os, signal, threading
import sitecustomize
main = sys.modules["__main__"]
view = {
    "arguments": sys.argv[1:], "flags": str(sys.flags), "names": names, "prefix": sys.prefix,
    "path": [entry for entry in sys.path if "script" not in entry], "first": sys.path[0] == os.path.dirname(__file__),
    "main": [main.__name__, main.__doc__, main.__package__, str(main.__spec__), type(main.__loader__).__name__],
    "same main": main.__dict__ is globals(), "file": __file__ == sys.argv[0], "cwd": os.getcwd(),
    "original": [os.path.basename(each) for each in getattr(sys, "orig_argv", ())[1:]],
    "umask": os.umask(0o22), "input": sys.stdin.read(), "hook": sys.excepthook is sys.__excepthook__,
    "handlers": [str(signal.getsignal(number)) for number in range(1, 32)],
    "files": [n for n in range(50) if os.path.exists("/proc/self/fd/%d" % n)],
    "streams": [(f.encoding, f.errors, f.line_buffering, f.fileno()) for f in (sys.stdin, sys.stdout, sys.stderr)],
    "threads": threading.active_count(), "limits": sys.getrecursionlimit(),
    "modules": sorted(modules & {"json", "socket", "marshal", "select", "threading", "signal", "subprocess", "re"}),
    "customized": getattr(sitecustomize, "WORD", None), "site": sys.modules["sitecustomize"].__file__,
    "variables": sorted(name for name in os.environ if name.startswith("PYTHON")),
}
print(json.dumps(view))
"""
FAILS = """
import atexit, sys
print("out", file=sys.stderr)
atexit.register(print, "at the end", flush=True)
def fail(): {}
fail()
"""
ENDS = ["1 / 0", "sys.exit()", "sys.exit(7)", "sys.exit('why')", "raise KeyboardInterrupt", "int('é')"]


def pythons() -> dict[str, str]:
    """Return the Pythons that are here, by version, and start none."""
    beside = (str(found) for found in Path(sys.base_prefix).parent.glob("*/bin"))
    places = os.pathsep.join(each for each in [*os.get_exec_path(), *beside] if "shims" not in Path(each).parts)
    found = {f"3.{minor}": shutil.which(f"python3.{minor}", path=places) for minor in range(8, 16)}
    return {version: path for version, path in found.items() if path}


@pytest.fixture(params=pythons())
def python(
    request: pytest.FixtureRequest, env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A Python as the session's, with a `sitecustomize` that is its own, unless the system has one that goes before."""
    found = pythons()[request.param]
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        monkeypatch.delenv(name)
    venv = tmp_path / "venv"
    made = subprocess.run([found, "-m", "venv", "--without-pip", venv], check=False, capture_output=True)
    assert made.returncode == 0, made
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text("WORD = 'its own'\n")
    env.execute(f"unset CONDA_PREFIX; export VIRTUAL_ENV={venv}")  # which opens its shell
    return str(venv / "bin" / "python")


def bare(python: str, code: str, env: BaseEnvironment, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run a script as it is run by hand."""
    place = tmp_path / "script-bare"
    place.mkdir(exist_ok=True)
    (place / "script.py").write_text(code)
    return subprocess.run(
        [python, "-u", place / "script.py", *arguments],
        check=False,
        cwd=env.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
    )


@pytest.mark.parametrize("way", ["socket", "relay"])
def test_its_view_is_the_same(python: str, way: TransportName, env: BaseEnvironment, tmp_path: Path) -> None:
    arguments = ["a", "b c", "", "-x"]
    by_hand = bare(python, VIEW, env, tmp_path, *arguments)
    result = execute_code(VIEW, env=env, argv=arguments, transport=way)
    assert result.status == "success", result
    seen, expected = json.loads(result.output), json.loads(by_hand.stdout)
    differs = {name: (seen[name], expected[name]) for name in expected if seen[name] != expected[name]}
    # Its directory is on PYTHONPATH, and the session's directory on the path, as docs/scripts.md says.
    assert differs.pop("variables") == (["PYTHONPATH"], [])
    assert differs.pop("files") == ([*expected["files"], Fd.LEASH], expected["files"])  # how its end is seen
    assert differs.pop("path") == ([env.cwd, *expected["path"]], expected["path"])
    assert differs == {}


@pytest.mark.parametrize("way", ["socket", "relay"])
def test_it_ends_in_the_same_ways(python: str, way: TransportName, env: BaseEnvironment, tmp_path: Path) -> None:
    differs = []
    for end in ENDS:
        code = FAILS.format(end)
        by_hand, result = bare(python, code, env, tmp_path), execute_code(code, env=env, transport=way)
        expected = by_hand.returncode if by_hand.returncode >= 0 else 128 - by_hand.returncode
        said = re.sub(r'File ".*/script.py"', 'File "script.py"', by_hand.stderr)
        printed = result.output.partition("\n--- stderr")[0].rstrip("\n")
        if (result.exit_code, printed) != (expected, "at the end"):
            differs.append((end, result, by_hand))
        elif expected and result.stderr != said:
            differs.append((end, result.stderr, said))
    assert differs == []
