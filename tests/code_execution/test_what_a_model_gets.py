"""The output of scripts and tools for a model, with secrets and controls hidden, and for a script, unchanged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermes_tools
from code_execution import execute_code
from environments import BaseEnvironment, TerminalError, create_environment, tasks
from hermes_tools import model_tools
from hermes_tools.terminal import script_terminal, terminal

SECRET = "open-sesame-4711"


@pytest.fixture(autouse=True)
def _a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)


def test_no_secret_is_in_what_a_script_prints_or_fails_with(env: BaseEnvironment) -> None:
    env.passthrough.allow(["MY_API_KEY"])
    code = """
import os, sys
key = os.environ["MY_API_KEY"]
print(key, [key])
raise SystemExit(f"bad key {key}")
"""
    pieces: list[str] = []
    result = execute_code(code, env=env, on_output=pieces.append)
    assert result.status == "error"
    assert SECRET not in str(result)
    assert "".join(pieces) == "[REDACTED:MY_API_KEY] ['[REDACTED:MY_API_KEY]']\n"
    assert result.stderr == "bad key [REDACTED:MY_API_KEY]\n"


def test_a_secret_printed_letter_by_letter_is_hidden_and_nothing_is_lost(env: BaseEnvironment) -> None:
    code = f"""
import sys, time
for letter in "begin {SECRET} end open-":
    sys.stdout.write(letter); sys.stdout.flush(); time.sleep(0.005)
"""
    pieces: list[str] = []
    result = execute_code(code, env=env, on_output=pieces.append)
    assert result.output == "begin [REDACTED:MY_API_KEY] end open-"
    assert "".join(pieces) == result.output


def test_a_secret_over_two_large_pieces_is_hidden(env: BaseEnvironment) -> None:
    code = f"print(('x' * 70_000 + '{SECRET}') * 20)"
    pieces: list[str] = []
    result = execute_code(code, env=env, on_output=pieces.append)
    assert "".join(pieces).count("[REDACTED:MY_API_KEY]") == 20
    assert "".join(pieces).count("x") == 20 * 70_000
    assert "open-sesame" not in result.output


def test_controls_are_taken_out_of_what_a_script_prints(env: BaseEnvironment) -> None:
    code = r"print('\033[31mred\033[0m \033]0;title\007\033]52;c;aGk=\007end'); print('10%\r100%')"
    pieces: list[str] = []
    result = execute_code(code, env=env, on_output=pieces.append)
    assert result.output == "red end\n100%\n"
    assert "".join(pieces) == "red end\n10%\n100%\n"


def test_all_output_of_a_script_is_passed_on_however_it_ends(env: BaseEnvironment) -> None:
    pieces: list[str] = []
    interrupt = threading.Event()

    def shown(text: str) -> None:
        pieces.append(text)
        interrupt.set()

    code = "import time\nprint('begun open-', end='', flush=True)\ntime.sleep(600)"
    result = execute_code(code, env=env, interrupt=interrupt, on_output=shown)
    assert result.output.startswith("begun open-\n")
    assert "".join(pieces) == "begun open-"


def test_an_error_of_the_target_holds_no_secret(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TerminalError(f"cannot write {SECRET}")

    monkeypatch.setattr("code_execution.staging.Staging.stage_here", fail)
    result = execute_code("print(1)", env=env)
    assert (result.output, result.error) == ("cannot write [REDACTED:MY_API_KEY]",) * 2


def test_a_script_gets_everything_as_it_is_so_that_it_can_write_it_back(env: BaseEnvironment) -> None:
    env.write_bytes("file", f"key={SECRET}\n".encode())
    code = """
from hermes_tools import read_file, terminal, write_file
out = terminal(r"cat file; printf '\\033[1mbold'")["output"]
write_file("copy", out)
print(len(out), SECRET in out if (SECRET := "open-" + "sesame-4711") else None)
"""
    result = execute_code(code, env=env)
    assert result.output.endswith("True\n")
    assert env.read_bytes("copy") == f"key={SECRET}\n\033[1mbold".encode()


def test_terminal_shows_a_model_neither_controls_nor_secrets(env: BaseEnvironment) -> None:
    command = f"printf '\\033[1m{SECRET}\\033[0m\\n'"
    assert terminal(env, command)["output"] == "[REDACTED:MY_API_KEY]\n"
    assert terminal(env, command, pty=True)["output"] == "[REDACTED:MY_API_KEY]\n"
    assert script_terminal(env, command)["output"] == f"\033[1m{SECRET}\033[0m\n"
    assert env.execute(command).output == f"\033[1m{SECRET}\033[0m\n"


def test_terminal_hides_a_secret_that_the_cap_cuts(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), max_output_bytes=100) as env:
        for begin in range(30, 52, 3):
            output = terminal(env, f"printf '%{begin}s%s%500s' '' {SECRET} ''")["output"]
            assert "open-se" not in output
            output = terminal(env, f"printf '%500s%s%{begin}s' '' {SECRET} ''")["output"]
            assert "me-4711" not in output


def test_the_tools_of_a_model_show_no_secret(env: BaseEnvironment) -> None:
    env.write_bytes("file", f"key={SECRET}\n".encode())
    tools = model_tools(env)
    for call in (
        lambda: tools["read_file"]("file"),
        lambda: tools["search_files"]("key"),
        lambda: tools["patch"]("file", "key", "word"),
    ):
        shown = str(call())
        assert "[REDACTED:MY_API_KEY]" in shown
        assert SECRET not in shown
    assert env.read_bytes("file") == f"word={SECRET}\n".encode()


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TERMINAL_CWD", str(tmp_path))
    yield
    tasks.cleanup_all()


@pytest.mark.usefixtures("configured")
def test_the_tools_of_the_package_show_no_secret_nor_do_their_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hermes_tools.terminal(f"echo {SECRET}")["output"] == "[REDACTED:MY_API_KEY]\n"

    def fail(*_: object, **__: object) -> None:
        raise TerminalError(f"lost {SECRET}")

    monkeypatch.setattr("environments.shell.commands.Commands.run_in_session", fail)
    with pytest.raises(TerminalError, match=r"^lost \[REDACTED:MY_API_KEY\]$"):
        hermes_tools.terminal("true")
