"""Wrong arguments: errors of the right kind with the argument's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from environments import BaseEnvironment

Row = tuple[type[Exception], str, dict[str, Any]]

COMMAND_ROWS: list[Row] = [
    (TypeError, "command", {"command": b"true"}),
    (TypeError, "command", {"command": None}),
    (ValueError, "NUL", {"command": "echo \0"}),
    (ValueError, "empty list", {"command": []}),
    (ValueError, "empty list", {"command": ()}),
    (ValueError, "NUL", {"command": ["echo", "\0"]}),
    (TypeError, "b'echo'", {"command": [b"echo"]}),
    (TypeError, "3", {"command": ["echo", 3]}),
    (TypeError, "type dict", {"command": {"echo": 1}}),
    (TypeError, "type set", {"command": {"echo"}}),
    (TypeError, "type bytearray", {"command": bytearray(b"echo")}),
    (TypeError, "cwd", {"cwd": 3}),
    (ValueError, "cwd", {"cwd": ""}),
    (ValueError, "cwd", {"cwd": "a\0b"}),
    (TypeError, "env", {"env": ["A=1"]}),
    (TypeError, "env", {"env": {"A": 1}}),
    (TypeError, "env", {"env": {1: "A"}}),
    (ValueError, "env", {"env": {"": "1"}}),
    (ValueError, "env", {"env": {"A B": "1"}}),
    (ValueError, "env", {"env": {"A": "\0"}}),
]
"""Wrong arguments of execute, execute_oneshot and start."""
RESULT_ROWS: list[Row] = [
    (TypeError, "timeout", {"timeout": "3"}),
    (TypeError, "timeout", {"timeout": True}),
    (ValueError, "timeout", {"timeout": 0}),
    (ValueError, "timeout", {"timeout": -1}),
    (ValueError, "timeout", {"timeout": float("nan")}),
    (TypeError, "stdin", {"stdin": 3}),
    (TypeError, "stdin", {"stdin": ["a"]}),
    (ValueError, "stderr", {"stderr": "apart"}),
    (ValueError, "stderr", {"stderr": None}),
    (TypeError, "on_output", {"on_output": 3}),
    (TypeError, "max_output_bytes", {"max_output_bytes": "10"}),
    (ValueError, "max_output_bytes", {"max_output_bytes": 0}),
    (TypeError, "interrupt", {"interrupt": True}),
]
PROCESS_ROWS: list[Row] = [
    (ValueError, "stdin", {"stdin": "closed"}),
    (ValueError, "stdin", {"stdin": None}),
    (ValueError, "rows", {"pty": True, "rows": 0}),
    (ValueError, "columns", {"pty": True, "columns": 70_000}),
    (TypeError, "rows", {"pty": True, "rows": "24"}),
    (ValueError, "grace", {"grace": -1}),
    (TypeError, "grace", {"grace": None}),
]
SESSION_ROWS: list[Row] = [
    (ValueError, "name", {"name": ""}),
    (ValueError, "name", {"name": "default"}),
    (TypeError, "name", {"name": 3}),
    (ValueError, "cwd", {"name": "a", "cwd": "relative"}),
]


def raises(kind: type[Exception], says: str, call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception as error:
        return type(error) is kind and bool(re.search(says, str(error)))
    return False


def test_wrong_arguments_of_commands_and_sessions_are_errors(env: BaseEnvironment) -> None:
    command = {"command": "true"}
    failed = [
        (call.__name__, row)
        for call, rows, given in (
            (env.execute, COMMAND_ROWS + RESULT_ROWS, command),
            (env.execute_oneshot, COMMAND_ROWS + RESULT_ROWS, command),
            (env.start, COMMAND_ROWS + PROCESS_ROWS, command),
            (env.session, SESSION_ROWS, {}),
        )
        for row in rows
        if not raises(row[0], row[1], lambda call=call, row=row, given=given: call(**{**given, **row[2]}))  # type: ignore[misc]
    ]
    assert failed == []
    assert env.execute("echo fine").output == "fine\n"


def test_wrong_arguments_of_file_methods_are_errors(env: BaseEnvironment) -> None:
    rows: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (TypeError, "path", lambda: env.write_bytes(3, b"")),  # type: ignore[arg-type]
        (ValueError, "path", lambda: env.write_bytes("", b"")),
        (ValueError, "path", lambda: env.read_bytes("a\0")),
        (TypeError, "data", lambda: env.write_bytes("f", "text")),  # type: ignore[arg-type]
        (TypeError, "path", lambda: env.get_file(None, "x")),  # type: ignore[arg-type]
        (TypeError, "path", lambda: env.put_dir("/tmp", None)),  # type: ignore[arg-type]
    ]
    assert [number for number, row in enumerate(rows) if not raises(*row)] == []


def test_wrong_arguments_of_process_methods_are_errors(env: BaseEnvironment) -> None:
    process = env.start("cat; sleep 1")  # runs on after its input is closed
    with pytest.raises(TypeError, match="data"):
        process.write(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rows"):
        process.resize(0, 80)
    for wrong in (b"bytes", re.compile(b"bytes"), None, 3):
        with pytest.raises(TypeError, match="expected"):
            process.expect(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty"):
        process.expect("")
    with pytest.raises(ValueError, match="timeout"):
        process.expect("x", -1)
    process.close_stdin()
    with pytest.raises(BrokenPipeError, match="closed"):
        process.write("x")
    assert process.wait(30) == 0
    process.resize(40, 100)
    with pytest.raises(BrokenPipeError, match="ended"):
        process.write("x")


def test_a_process_without_an_input_runs_nothing_that_is_written_to_it(env: BaseEnvironment) -> None:
    process = env.start("sleep 0.3; echo done", stdin="none")
    with pytest.raises(BrokenPipeError, match="without an input"):
        process.write("echo written\n")
    assert process.wait(30) == 0
    assert process.read() == "done\n"
