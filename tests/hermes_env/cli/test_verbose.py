"""Steps with `-v` and the log with `-vv`, on standard error."""

from __future__ import annotations

import io
import logging

import pytest
from targets.command_line import CommandLine


def test_vv_shows_the_log_in_any_position_and_v_does_not(hermes_env: CommandLine) -> None:
    for words in (["-vv", "exec"], ["exec", "-vv"], ["-v", "exec", "-v"]):
        done = hermes_env(*words, "-n", "echo", "a secret command")
        assert (done.stdout, done.returncode) == ("a secret command\n", 0)
        assert " DEBUG environments.shell.shell: shell bash, process " in done.stderr
        assert " DEBUG environments.shell.lifecycle: backend 'local': cleaned up" in done.stderr
        assert "a secret command" not in done.stderr
    assert hermes_env("exec", "-v", "-n", "true").stderr == ""


def test_the_log_holds_no_secret_and_no_control_of_a_terminal() -> None:

    from hermes_env.cli.debug_log import log_to_stderr

    logger = logging.getLogger("environments.of_somebody_else")  # a logger without redaction of its own
    level = logging.getLogger("environments").level
    with pytest.MonkeyPatch.context() as patch:
        shown = io.StringIO()
        patch.setattr("sys.stderr", shown)
        patch.setenv("MY_API_KEY", "very-secret-value")
        log_to_stderr()
        log_to_stderr()
        try:
            logger.debug("the key is %s\x1b]0;title\x07", "very-secret-value")
        finally:
            for name in ("environments", "rpc", "hermes_tools", "code_execution", "hermes_env"):
                ours = logging.getLogger(name)
                ours.setLevel(level)
                ours.handlers.pop()
    (line,) = shown.getvalue().splitlines()
    assert "DEBUG environments.of_somebody_else: the key is" in line
    assert "very-secret" not in line and "\x1b" not in line and "title" not in line
