"""Tracebacks of a script, on this Python and the oldest one here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rpc import SOCKET, generate_stub, own_file

REFUSING = """
def _exchange(line):
    return _dump({"id": _loads(line)["id"], "error": "search: no more calls"})
"""
LOST = """
def _exchange(line):
    raise ConnectionRefusedError("refused")
"""


def search(query: str, limit: int = 5) -> list[str]:
    """Search."""
    return [query][:limit]


def pythons():
    """Return the Pythons of this machine by version, without a start: a version manager's wrapper may fail."""
    beside = (str(found) for found in Path(sys.base_prefix).parent.glob("*/bin"))
    path = os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path(), *beside])
    places = os.pathsep.join(each for each in path.split(os.pathsep) if "shims" not in Path(each).parts)
    return {f"3.{minor}": found for minor in range(8, 16) if (found := shutil.which(f"python3.{minor}", path=places))}


FOUND = pythons()
PYTHONS = {
    version: FOUND[version] for version in FOUND if version in (f"3.{sys.version_info.minor}", next(iter(FOUND)))
}
"""This Python and the oldest."""


@pytest.fixture(params=PYTHONS)
def stderr_of(request, tmp_path):
    """Run a script and return its standard error as lines."""
    python = PYTHONS[request.param]

    def run(code, client=REFUSING):
        (tmp_path / "hermes_tools.py").write_text(generate_stub({"search": search}, SOCKET) + client)
        (tmp_path / "own").write_text(own_file("token", ""))
        (tmp_path / "script.py").write_text(code)
        ended = subprocess.run(
            [python, "-W", "error", tmp_path / "script.py"], check=False, capture_output=True, text=True, cwd=tmp_path
        )
        return [line.strip() for line in ended.stderr.splitlines() if not set(line.strip()) <= set("^~")]

    return run


def frames(lines):
    return [line for line in lines if line.startswith("File ")]


@pytest.mark.parametrize(
    ("call", "client", "error"),
    [
        ("search('x')", REFUSING, "hermes_tools.ToolError: search: no more calls"),
        ("search()", REFUSING, "hermes_tools.ToolError: search: wrong arguments: search() missing 1 required "),
        ("search({1})", REFUSING, "hermes_tools.ToolError: search: wrong arguments: 'query', of type set, can't be"),
        ("search('x')", LOST, "hermes_tools.ToolError: search: the tools can't be reached: refused"),
        ("retry(lambda: 1 / 0, 1)", REFUSING, "ZeroDivisionError: division by zero"),
        ("json_parse('{')", REFUSING, "json.decoder.JSONDecodeError: "),
    ],
)
def test_an_error_has_the_scripts_frames_alone(stderr_of, call, client, error):
    lines = stderr_of(f"from hermes_tools import *\n{call}\n", client)
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].startswith(error)
    assert "hermes_tools.py" not in "".join(frames(lines))
    assert 'script.py", line 2' in frames(lines)[0]
    assert len([line for line in lines if "Traceback" in line]) == 1


def test_an_error_in_a_thread_has_the_scripts_frames_alone(stderr_of):
    lines = stderr_of(
        "import threading\nfrom hermes_tools import search\n"
        "thread = threading.Thread(target=lambda: search('x'))\nthread.start(); thread.join()\n"
    )
    assert lines[-1] == "hermes_tools.ToolError: search: no more calls"
    assert 'script.py", line 3' in frames(lines)[-1]
    assert "hermes_tools.py" not in "".join(frames(lines))


def test_the_errors_that_an_error_came_from_have_none_of_ours_either(stderr_of):
    lines = stderr_of(
        "from hermes_tools import search\ntry:\n    search('x')\nexcept Exception as error:\n"
        "    raise LookupError('nothing found') from error\n"
    )
    assert lines[-1] == "LookupError: nothing found"
    assert [line.split(", ")[1] for line in frames(lines)] == ["line 3", "line 5"]


def test_a_failed_import_names_the_existing_tools(stderr_of):
    lines = stderr_of("from hermes_tools import search, nothing\n")
    there = "there are: ToolError, json_parse, retry, search, shell_quote"
    assert lines[-1] == f"ImportError: cannot import name 'nothing' from 'hermes_tools'; {there}"
    assert len(frames(lines)) == 1
    many = "".join(f"x{n} = {n}\n" for n in range(300))  # the name's index takes more than a byte
    lines = stderr_of(f"{many}from hermes_tools import serch\n")
    assert lines[-1].endswith(f"'serch' from 'hermes_tools'; {there}; did you mean 'search'?")


def test_an_import_that_may_fail_can_be_tried(stderr_of):
    code = (
        "try:\n    from hermes_tools import nothing\nexcept ImportError as error:\n    raise SystemExit(error.name)\n"
    )
    assert stderr_of(code) == ["hermes_tools"]


def test_a_missing_attribute_names_the_existing_ones_and_hasattr_works(stderr_of):
    lines = stderr_of("import hermes_tools\nassert not hasattr(hermes_tools, 'x')\nhermes_tools.serch('x')\n")
    assert lines[-1] == (
        "AttributeError: hermes_tools has no 'serch'; "
        "there are: ToolError, json_parse, retry, search, shell_quote; did you mean 'search'?"
    )
    assert len(frames(lines)) == 1


def test_a_hook_of_the_scripts_own_is_called_with_what_is_left(stderr_of):
    lines = stderr_of(
        "import sys, traceback\ndef hook(kind, error, trace):\n"
        "    print(kind.__name__, len(traceback.extract_tb(trace)), file=sys.stderr)\n"
        "sys.excepthook = hook\nimport hermes_tools\nhermes_tools.search('x')\n"
    )
    assert lines == ["ToolError 1"]
