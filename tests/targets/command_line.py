"""Runs the command line: in this process, or as a child where a test needs signals or a terminal."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO
from unittest.mock import patch

import pytest

from hermes_env.cli.debug_log import PACKAGES
from targets import file_backend
from targets.pseudo_terminal import TerminalUser

WORDS = (sys.executable, "-m", "hermes_env")
Done = subprocess.CompletedProcess[str]
CommandLine = Callable[..., Done]
Start = Callable[..., "subprocess.Popen[bytes]"]
OpenTerminal = Callable[..., TerminalUser]
Script = Callable[[str], str]
SLEEP = "import subprocess\nprint('begun', flush=True)\nsubprocess.run(['sleep', '{}'])"
"""A script that prints `begun` and sleeps; the placeholder is the seconds."""
RunAtTerminal = Callable[..., "tuple[str, int]"]


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Environment variables of a new user."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TERMINAL_")}
    return {**ours, "HERMES_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}


@pytest.fixture
def hermes_env(variables: dict[str, str], tmp_path: Path) -> CommandLine:
    """Runs the command line in this process, with files as its standard streams.

    `stdin` is the text of standard input, `folder` the current directory; other keywords are variables.
    """

    def run(*words: str, stdin: str = "", folder: Path = tmp_path, **more: str) -> Done:
        with contextlib.ExitStack() as stack:
            given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            given.write(stdin.encode())
            given.seek(0)
            code = in_this_process(words, {**variables, **more}, folder, given, out, err)
            return subprocess.CompletedProcess(words, code, _text_of(out), _text_of(err))

    return run


def in_this_process(
    words: tuple[str, ...],
    variables: Mapping[str, str],
    folder: Path,
    given: IO[bytes] | int,
    out: IO[bytes] | int,
    err: IO[bytes] | int,
) -> int:
    """Run the command line with three open files as its standard streams, and return its exit code."""
    from hermes_env.cli import main

    with contextlib.ExitStack() as stack:
        stdin, stdout, stderr = (
            stack.enter_context(open(_duplicate(file), mode, encoding="utf-8", errors=errors))
            for file, mode, errors in ((given, "r", "strict"), (out, "w", "strict"), (err, "w", "backslashreplace"))
        )
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(patch.dict(os.environ, variables, clear=True))
        stack.enter_context(patch.object(sys, "argv", ["hermes-env", *words]))
        stack.enter_context(patch.object(sys, "path", [*sys.path]))
        stack.enter_context(patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr))
        stack.callback(_forget_logging, [(logger, logger.level) for logger in map(logging.getLogger, PACKAGES)])
        try:
            main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


@contextlib.contextmanager
def terminal_shown() -> Iterator[tuple[int, Callable[[], str]]]:
    """Open a pseudo-terminal. Yields its file descriptor, and a function that returns all output so far."""
    screen, terminal = os.openpty()

    def shown() -> str:
        os.write(terminal, b"the end")
        got = b""
        while not got.endswith(b"the end"):
            got += os.read(screen, 65536)
        return got.decode().removesuffix("the end")

    yield terminal, shown
    os.close(screen)
    os.close(terminal)


def _duplicate(file: IO[bytes] | int) -> int:
    return os.dup(file if isinstance(file, int) else file.fileno())


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _forget_logging(levels: list[tuple[logging.Logger, int]]) -> None:
    """Remove the handlers and levels that -vv has set."""
    for logger, level in levels:
        logger.setLevel(level)
        logger.handlers = [each for each in logger.handlers if type(each).__module__ != "hermes_env.cli.debug_log"]


@pytest.fixture
def start_hermes_env(variables: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Starts the command as a child, for signals."""
    with contextlib.ExitStack() as started:

        def start(*words: str, **options: object) -> subprocess.Popen[bytes]:
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = subprocess.Popen([*WORDS, *words], env=variables, cwd=tmp_path, **{**streams, **options})  # type: ignore[call-overload]
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield start


@pytest.fixture
def open_terminal(variables: dict[str, str], tmp_path: Path) -> Iterator[OpenTerminal]:
    """Starts the command on a pseudo-terminal with a `TerminalUser`."""
    users: list[TerminalUser] = []

    def run(*words: str, program: tuple[str, ...] = WORDS, **more: str) -> TerminalUser:
        own = {**variables, "HOME": str(tmp_path), "SHELL": "/bin/bash", "TERM": "xterm-256color", **more}
        users.append(TerminalUser([*program, *words], own, tmp_path))
        return users[-1]

    yield run
    for user in users:
        user.close()


@pytest.fixture
def run_at_terminal(variables: dict[str, str], tmp_path: Path) -> RunAtTerminal:
    """Runs the command line on a pseudo-terminal, types `typed` at the prompt, and returns the output and exit code."""

    def run(*words: str, typed: bytes) -> tuple[str, int]:
        screen, terminal = os.openpty()
        shown = b""

        def answer() -> None:
            nonlocal shown
            has_typed = False
            while not shown.endswith(b"the end"):
                shown += os.read(screen, 10_000)
                if b"[y/N]" in shown and not has_typed:
                    has_typed = os.write(screen, typed) > 0

        user = threading.Thread(target=answer)
        user.start()
        try:
            code = in_this_process(words, variables, tmp_path, terminal, terminal, terminal)
        finally:
            os.write(terminal, b"the end")
            user.join()
            os.close(screen)
            os.close(terminal)
        return shown.decode().replace("\r\n", "\n").removesuffix("the end"), code

    return run


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Writes a script into a file, and returns its path."""

    def write(code: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(code)
        return str(path)

    return write


@pytest.fixture
def target_files(tmp_path: Path, variables: dict[str, str]) -> file_backend.TargetFiles:
    """The targets of a third-party backend, as files."""
    folder = tmp_path / "targets"
    folder.mkdir()
    variables[file_backend.FOLDER] = str(folder)
    variables["PYTHONPATH"] = str(Path(file_backend.__file__).parents[1])
    return file_backend.TargetFiles(folder)
