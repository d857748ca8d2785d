"""Wrong arguments: an error of the right kind, that names the argument."""

from __future__ import annotations

from typing import Any

import pytest

from environments import BaseEnvironment


@pytest.mark.parametrize("run", ["execute", "execute_oneshot"])
@pytest.mark.parametrize(
    ("kind", "name", "arguments"),
    [
        (TypeError, "command", {"command": b"true"}),
        (TypeError, "command", {"command": None}),
        (ValueError, "NUL", {"command": "echo \0"}),
        (TypeError, "cwd", {"cwd": 3}),
        (ValueError, "cwd", {"cwd": ""}),
        (ValueError, "cwd", {"cwd": "a\0b"}),
        (TypeError, "timeout", {"timeout": "3"}),
        (TypeError, "timeout", {"timeout": True}),
        (ValueError, "timeout", {"timeout": 0}),
        (ValueError, "timeout", {"timeout": -1}),
        (ValueError, "timeout", {"timeout": float("nan")}),
        (TypeError, "stdin", {"stdin": 3}),
        (TypeError, "stdin", {"stdin": ["a"]}),
        (ValueError, "stderr", {"stderr": "apart"}),
        (ValueError, "stderr", {"stderr": None}),
        (TypeError, "env", {"env": ["A=1"]}),
        (TypeError, "env", {"env": {"A": 1}}),
        (TypeError, "env", {"env": {1: "A"}}),
        (ValueError, "env", {"env": {"A B": "1"}}),
        (ValueError, "env", {"env": {"A": "\0"}}),
        (TypeError, "on_output", {"on_output": 3}),
    ],
)
def test_of_a_command(
    env: BaseEnvironment, run: str, kind: type[Exception], name: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(kind, match=name):
        getattr(env, run)(**{"command": "true", **arguments})


@pytest.mark.parametrize(
    ("kind", "name", "arguments"),
    [
        (TypeError, "command", {"command": b"true"}),
        (ValueError, "stdin", {"stdin": "closed"}),
        (ValueError, "stdin", {"stdin": None}),
        (ValueError, "rows", {"pty": True, "rows": 0}),
        (ValueError, "columns", {"pty": True, "columns": 70_000}),
        (TypeError, "rows", {"pty": True, "rows": "24"}),
        (ValueError, "grace", {"grace": -1}),
        (TypeError, "grace", {"grace": None}),
        (ValueError, "env", {"env": {"": "1"}}),
    ],
)
def test_of_a_process(env: BaseEnvironment, kind: type[Exception], name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(kind, match=name):
        env.start(**{"command": "true", **arguments})


def test_of_a_process_that_was_started(env: BaseEnvironment) -> None:
    process = env.start("cat")
    with pytest.raises(TypeError, match="data"):
        process.write(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rows"):
        process.resize(0, 80)
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


@pytest.mark.parametrize(
    ("kind", "name", "call"),
    [
        (TypeError, "path", lambda env: env.write_bytes(3, b"")),
        (ValueError, "path", lambda env: env.write_bytes("", b"")),
        (ValueError, "path", lambda env: env.read_bytes("a\0")),
        (TypeError, "data", lambda env: env.write_bytes("f", "text")),
        (TypeError, "path", lambda env: env.get_file(None, "x")),
        (TypeError, "path", lambda env: env.put_dir("/tmp", None)),
    ],
)
def test_of_a_file(env: BaseEnvironment, kind: type[Exception], name: str, call: Any) -> None:
    with pytest.raises(kind, match=name):
        call(env)
