"""A script that is forked from a Python that is kept ready is like any other; more of it is in tests_long."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from targets.ready_python import have_each_script_wait_for_one, is_forked

from code_execution import execute_code
from environments import BaseEnvironment

OWN = r"script-[0-9a-f]{8}|/[0-9]+/[0-9]+/|\b[0-9a-f]{16}\b"
VIEW = """
import sys
names = sorted(globals())
import json, os, signal, threading
view = {
    "argv": sys.argv, "flags": str(sys.flags), "path": sys.path, "executable": sys.executable, "main": names,
    "variables": dict(os.environ), "cwd": os.getcwd(), "umask": os.umask(0o22), "input": sys.stdin.read(),
    "handlers": [str(signal.getsignal(number)) for number in range(1, 32)],
    "files": [n for n in range(50) if os.path.exists("/proc/self/fd/%d" % n)],
    "streams": [(f.encoding, f.errors, f.line_buffering) for f in (sys.stdin, sys.stdout, sys.stderr)],
    "threads": threading.active_count(), "program": open("/proc/self/comm").read(),
}
print(json.dumps(view))
"""


def test_a_forked_script_sees_what_any_other_sees(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    def view() -> dict[str, object]:
        result = execute_code(VIEW, env=env, argv=["a", "b c", ""])
        assert result.status == "success", result
        seen: dict[str, object] = json.loads(re.sub(OWN, "own", result.output))
        return seen

    cold = view()
    Path(os.environ["HERMES_HOME"], "config.yaml").unlink()
    have_each_script_wait_for_one(monkeypatch)
    assert is_forked(env)
    assert view() == cold
