"""Writes records of runs, in the format of docs/records.md, for tests of readers and reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

BEGIN = 1_760_000_000.0


class RecordFile:
    """A record in the format of docs/records.md, with chosen times."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self.count = 0
        self.run = "0"

    def line(self, **line: Any) -> None:
        self.lines.append(json.dumps(line) + "\n")

    def saved(self, torn: str = "") -> str:
        """Write the file, with an incomplete last line `torn`, and return its path."""
        self.path.write_text("".join([*self.lines, torn]), encoding="utf-8")
        return str(self.path)

    def begin_run(self, at: float = 0.0, run: str = "5f1c09ab", **more: Any) -> None:
        self.run = run
        about = {"version": 1, "program": "hermes-env run", "pid": 4711, "host": "machine", **more}
        self.line(event="run", run=run, time=BEGIN + at, **about)

    def begin(self, kind: str, name: str, at: float, parent: str | None = None, **more: Any) -> str:
        self.count += 1
        known = f"{self.run}-{self.count}"
        where = {"environment": "local 1", "backend": "local", "task": "default", **more}
        named = {"id": known, "parent": parent, "kind": kind, "name": name}
        self.line(event="begin", run=self.run, time=BEGIN + at, **named, **where)
        return known

    def end(self, known: str, at: float, seconds: float, **more: Any) -> None:
        ending = {"seconds": seconds, "status": "success", **more}
        self.line(event="end", run=self.run, time=BEGIN + at, id=known, **ending)

    def whole(self, kind: str, name: str, at: float, seconds: float, parent: str | None = None, **more: Any) -> str:
        """Write both lines of an event; `ended` are the keys of its end."""
        ended = more.pop("ended", {})
        known = self.begin(kind, name, at, parent, **more)
        self.end(known, at + seconds, seconds, **ended)
        return known


def write_small(record: RecordFile) -> None:
    """Write ten events: a start, a script with four calls (one fails, one runs a command), and three commands."""
    record.begin_run()
    record.whole("start", "local", 0.01, 0.2)
    script = record.begin("script", "report.py", 0.25, script="import os\nprint('counted')\n", mode="project")
    record.whole("tool_call", "search_files", 0.4, 0.3, script, tool="search_files", arguments={"pattern": "^def "})
    call = record.begin("tool_call", "terminal", 0.8, script, tool="terminal", arguments={"command": "git log"})
    command = {"command": "git log", "way": "session"}
    told = {"exit_code": 0, "output": "first line\nneedle in here\n", "output_bytes": 26}
    record.whole("command", "git log", 0.81, 0.4, call, **command, ended=told)
    record.end(call, 1.25, 0.45, result={"output": "first line\nneedle in here\n", "exit_code": 0})
    missing = {"status": "error", "error": "File not found: absent.py"}
    wanted = {"tool": "read_file", "arguments": {"path": "absent.py"}}
    record.whole("tool_call", "read_file absent.py", 1.3, 0.1, script, **wanted, ended=missing)
    record.whole("tool_call", "read_file", 1.45, 0.1, script, tool="read_file", arguments={"path": "present.py"})
    record.end(script, 2.0, 1.75, exit_code=0, output="counted\n", output_bytes=8, tool_calls=4)
    record.whole("command", "sleep 1", 2.1, 1.0, command="sleep 1", way="session", ended={"exit_code": 0})
    waited = {"waited": 0.9, "exit_code": 2, "status": "error", "output": "no such target\n", "output_bytes": 15}
    record.whole("command", "make all", 2.2, 1.5, command="make all", way="session", ended=waited)
    record.begin("command", "tail -f log", 3.8, command="tail -f log", way="oneshot")


@pytest.fixture
def record(tmp_path: Path) -> RecordFile:
    return RecordFile(tmp_path / "run.jsonl")


@pytest.fixture
def small(record: RecordFile) -> RecordFile:
    write_small(record)
    return record
