"""The environment variables of a script, on shells of each kind and in poor targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from targets.local_shells import local, without_bash
from targets.named_secrets import ASKED, HIDDEN, SHOWN, VARIABLES

from code_execution import execute_code
from environments import BaseEnvironment, create_environment, load_settings
from environments.local.environment import LocalEnvironment
from environments.shell.stream import Stream, Terminal

Make = Callable[[Path], BaseEnvironment]
SHOW = "import os; print(sorted(os.environ))"
AWKWARD = "a\nexport LC_AUTH=1\n'\"$HOME`x`\\ \udcff\udc81\udc88\n"


class BashForSh(LocalEnvironment):
    """This machine with bash as `sh`. Unlike dash, bash passes on variables with names of any kind."""

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        return super().open_stream(["/bin/bash", *argv[1:]], terminal)


def bash_for_sh(cwd: Path) -> BaseEnvironment:
    return BashForSh(load_settings("local", cwd=str(cwd)))


@pytest.mark.parametrize("make", [bash_for_sh, local])
def test_a_variable_whose_name_no_shell_knows_does_not_pass(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY-API.KEY", "hidden")
    with make(tmp_path) as env:
        assert "'PATH'" in execute_code(SHOW, env=env).output
        assert "MY-API" not in execute_code(SHOW, env=env).output


def test_nothing_passes_where_the_shell_cannot_list_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASH_FUNC_compgen%%", "() {  return 1\n}")
    monkeypatch.setenv("MY_API_KEY", "hidden")
    with bash_for_sh(tmp_path) as env:
        assert "MY_API_KEY" not in execute_code(SHOW, env=env).output


@pytest.mark.parametrize("make", [local, without_bash])
def test_a_secret_word_holds_a_name_back_whatever_it_begins_with(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = (
        "CONDA_BEARER",
        "XDG_COOKIE",
        "LC_DSN",
        "CONDA_webhook",
        "XDG_CREDS",
        "LC_CONNECTION_STRING",
        "XDG_DB_PASS",
    )
    harmless = ("XDG_SESSION_ID", "LC_TIME", "CONDA_DEFAULT_ENV", "XDG_RUNTIME_DIR")
    for name in (*secret, *harmless):
        monkeypatch.setenv(name, "C")
    with make(tmp_path) as env:
        shown = execute_code(SHOW, env=env).output
    assert [name for name in secret if f"'{name}'" in shown] == []
    assert [name for name in harmless if f"'{name}'" not in shown] == []


@pytest.mark.parametrize("make", [local, without_bash])
def test_values_arrive_byte_for_byte(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_AWKWARD", AWKWARD)
    monkeypatch.setenv("TZ", AWKWARD)
    names = ("LC_AWKWARD", "TZ", "PASSED", "LC_AUTH")
    code = f"import os; print([os.environ.get(n) == {AWKWARD!r} for n in {names}])"
    monkeypatch.setenv("PASSED", AWKWARD)
    with make(tmp_path) as env:
        assert execute_code(code, env=env).output == "[True, True, False, False]\n"
        env.passthrough.allow(["PASSED"])
        assert execute_code(code, env=env).output == "[True, True, True, False]\n"


def test_values_of_allowed_variables_are_in_no_programs_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, seen = tmp_path / "bin", tmp_path / "seen"
    programs.mkdir()
    (programs / "env").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{seen}\nexec /usr/bin/env "$@"\n')
    (programs / "env").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("MY_API_KEY", "open-sesame-4711")
    with create_environment("local", cwd=str(tmp_path), env_passthrough=["MY_API_KEY"], redact_secrets=False) as env:
        result = execute_code("import os; print(os.environ['MY_API_KEY'])", env=env)
    assert result.output == "open-sesame-4711\n"
    assert f"PATH={programs}" in seen.read_text()
    assert "open-sesame" not in seen.read_text()


@pytest.mark.parametrize("make", [local, without_bash])
def test_the_sessions_exports_pass_on_request_except_secrets(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HERE", "here")
    names = ("TEXT", "EMPTY", "MY_API_KEY", "OTHER_TOKEN", "plain", "FROM_HERE", "TZ", "n")
    code = f"import os; print([os.environ.get(name) for name in {names}])"
    with make(tmp_path) as env:
        env.execute("export TEXT=\"it's\nexport plain=2 & '\\\\'\" EMPTY= MY_API_KEY=k OTHER_TOKEN=\"t'\"; plain=1")
        env.execute("export TZ=UTC n=5")
        assert execute_code(code, env=env).output.startswith("[None, None, None, None, None, None")
        env.passthrough.allow(["OTHER_TOKEN"])
        env.execute("cd /; export TEXT")
        result = execute_code(code, env=env, session_env=True)
        shown = ["it's\nexport plain=2 & '\\'", "", None, "t'", None, "here", "UTC", "5"]
        assert result.output == f"{shown}\n"


@pytest.mark.parametrize("make", [local, without_bash])
def test_a_value_with_the_form_of_a_token_passes_where_it_is_named(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "sk-0123456789abcdefghij"
    monkeypatch.setenv("SET_HERE", token)
    names = ("SET_HERE", "IN_SESSION", "NOT_NAMED", "MODEL")
    asked = f"print([name for name in {names} if name in __import__('os').environ])"
    with make(tmp_path) as env:
        env.execute(f"export IN_SESSION={token} NOT_NAMED={token} MODEL=sk-learn-model-version-two")
        assert execute_code(asked, env=env, session_env=True).output == "['MODEL']\n"
        env.passthrough.allow(["SET_HERE", "IN_SESSION"])
        assert execute_code(asked, env=env, session_env=True).output == "['SET_HERE', 'IN_SESSION', 'MODEL']\n"
        assert execute_code(asked, env=env).output == "['SET_HERE']\n"
        for run in (env.execute, env.execute_oneshot):
            assert run("echo $SET_HERE").output == f"{token}\n"
        given = env.execute_oneshot("echo $GIVEN $NOT_NAMED", env={"GIVEN": token}, session_env=True)
        assert given.output == f"{token} {token}\n"


@pytest.mark.parametrize("make", [local, without_bash])
def test_no_secret_passes_or_is_shown_whatever_its_name_is(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(VARIABLES) == 34
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with make(tmp_path) as env:
        assert execute_code(ASKED, env=env).output == "[]\n"
        assert execute_code(ASKED, env=env, session_env=True).output == "[]\n"
        env.passthrough.allow(["GH_PAT"])
        assert execute_code(ASKED, env=env, session_env=True).output == "['GH_PAT']\n"
        shown = execute_code(SHOWN, env=env).output
    assert [value for value in HIDDEN if value in shown] == []
