"""Environment variables of local commands: no keys of services, and no settings of this package."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from targets.command_line import CommandLine, hermes_env, variables

from code_execution import execute_code
from environments import BaseEnvironment, create_environment
from environments.secrets import command_variables

__all__ = ["hermes_env", "variables"]

WITHHELD = {
    "TERMINAL_SSH_PASSWORD": "login-4711",
    "HERMES_MCP_TOKEN": "guess-me-not-1",
    "OPENAI_API_KEY": "sk-key-of-a-provider",
    "ANTHROPIC_API_KEY": "another-key-4711",
    "DAYTONA_API_KEY": "key-of-a-sandbox",
    "MODAL_TOKEN_SECRET": "secret-of-modal",
    "TAVILY_API_KEY": "key-of-a-search",
    "GITHUB_TOKEN": "token-of-github",
    "OPENAI_BASE_URL": "https://user:pass-in-url@api.example",
}
KEPT = {"OPENAI_MODEL": "some-model", "MY_API_KEY": "key-of-the-project", "AWS_PROFILE": "work", "HERMES_HOME": "/tmp"}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**WITHHELD, **KEPT}.items():
        monkeypatch.setenv(name, value)


def _check(text: str) -> None:
    seen = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    assert [name for name in WITHHELD if name in seen] == []
    assert [value for value in WITHHELD.values() if value in text] == []
    assert {name: seen.get(name) for name in KEPT} == KEPT


def _output(env: BaseEnvironment, command: str, pty: bool = False) -> str:
    process = env.start(command, pty=pty)
    process.wait(timeout=60)
    return process.read()


@pytest.mark.parametrize("lasting", [True, False])
def test_commands_of_every_kind_get_no_keys_of_services(lasting: bool, tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), persistent_shell=lasting) as env:
        for _ in range(2):  # the second bash is started directly
            _check(env.execute("env").output)
            _check(env.execute_oneshot("env").output)
            _check(env.execute_oneshot(["env"]).output)
            _check(_output(env, "env"))
            env.renew()


def test_tools_of_a_script_get_no_keys(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), redact_secrets=False) as env:
        code = "import hermes_tools; print(hermes_tools.terminal('env')['output'])"
        _check(execute_code(code, env=env).output)


def test_a_terminal_gets_no_keys(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path)) as env:
        _check(_output(env, "env", pty=True).replace("\r", ""))


def test_the_command_line_gets_no_keys(hermes_env: CommandLine) -> None:
    _check(hermes_env("exec", "--", "env", **WITHHELD, **KEPT).stdout)


@pytest.mark.parametrize("lasting", [True, False])
def test_allowed_variables_reach_commands_of_every_kind(lasting: bool, tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), persistent_shell=lasting) as env:
        env.passthrough.allow(["OPENAI_API_KEY"])
        asked = 'printf %s "${OPENAI_API_KEY-} ${ANTHROPIC_API_KEY-}"'
        for result in (env.execute(asked), env.execute_oneshot(asked)):
            assert result.output == "sk-key-of-a-provider "
        assert _output(env, asked) == "sk-key-of-a-provider "


def test_settings_allow_variables_by_name(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), env_passthrough=["HERMES_MCP_TOKEN"]) as env:
        assert env.execute('printf %s "$HERMES_MCP_TOKEN"').output == "guess-me-not-1"


def test_nothing_else_is_withheld() -> None:
    assert set(os.environ) - set(command_variables()) >= set(WITHHELD)
    assert KEPT.items() <= command_variables().items()
