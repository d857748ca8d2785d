"""Variables passed through to a session and to its later shells."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.plain_local import PlainLocal

from environments import BaseEnvironment, EnvironmentStartError, SettingsError, create_environment, load_settings


@pytest.fixture(autouse=True)
def _no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)


def test_a_variable_that_is_set_later_reaches_every_shell_also_after_a_kill(
    bash_or_sh: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    bash_or_sh.passthrough.allow(["MY_TOKEN"])
    assert bash_or_sh.execute("export KEPT=1; echo ${MY_TOKEN-unset}").output == "unset\n"
    monkeypatch.setenv("MY_TOKEN", "sun")
    for end in ("kill -9 $$", "exit 1", "kill -9 $$"):
        assert bash_or_sh.execute(f"echo $MY_TOKEN $KEPT; {end}").output == "sun 1\n"
    assert bash_or_sh.execute("echo $MY_TOKEN $KEPT").output == "sun 1\n"


def test_a_variable_set_by_the_session_stays(bash_or_sh: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    bash_or_sh.execute("export MY_TOKEN=own")
    monkeypatch.setenv("MY_TOKEN", "sun")
    bash_or_sh.passthrough.allow(["MY_TOKEN"])
    assert bash_or_sh.execute("echo $MY_TOKEN").output == "own\n"
    assert bash_or_sh.execute_oneshot("echo $MY_TOKEN").output == "sun\n"
    for run in (bash_or_sh.execute, bash_or_sh.execute_oneshot):
        assert run("echo $MY_TOKEN", env={"MY_TOKEN": "for the call"}).output == "for the call\n"


def test_a_variable_that_cannot_be_set_ends_no_session(
    bash_or_sh: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    bash_or_sh.execute("set -eu; export BEFORE=1")
    bash_or_sh.execute("readonly OTHER=1")
    monkeypatch.setenv("MY_TOKEN", "sun")
    monkeypatch.setenv("OTHER", "2")
    bash_or_sh.passthrough.allow(["MY_TOKEN", "OTHER"])
    assert bash_or_sh.execute("echo $MY_TOKEN $OTHER $BEFORE").output == "sun 1 1\n"


def test_without_a_persistent_shell_each_shell_gets_the_state_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "sun")
    settings = {"cwd": str(tmp_path), "persistent_shell": False, "env_passthrough": ["MY_TOKEN"]}
    with create_environment("local", **settings) as env:
        assert [env.execute("echo $MY_TOKEN").output for _ in range(2)] == ["sun\n", "sun\n"]
        env.execute("unset MY_TOKEN")
        assert env.execute("echo ${MY_TOKEN-unset}").output == "unset\n"


def test_a_terminal_has_the_variable_and_does_not_echo_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "sun-and-rain")
    for scrub in (False, True):
        with create_environment("local", cwd=str(tmp_path), env_passthrough=["MY_TOKEN"], scrub_env=scrub) as env:
            process = env.start("echo ${#MY_TOKEN}; test -t 1 && echo terminal", pty=True)
            assert process.wait(30) == 0
            assert process.read().split() == ["12", "terminal"]


def test_scrubbed_variables_are_in_no_shells_own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "sun")
    settings = load_settings("local", cwd=str(tmp_path), scrub_env=True)
    look = "tr '\\0' '\\n' </proc/$$/environ"
    for made in (create_environment("local", cwd=str(tmp_path), scrub_env=True), PlainLocal(settings)):
        with made as env:
            for seen in (env.execute(look).output, env.execute_oneshot(look).output):
                assert "HERMES_COMMAND=" in seen
                assert "MY_TOKEN" not in seen


def test_scrubbing_without_the_program_env_opens_no_shell(tmp_path: Path) -> None:
    class Bare(PlainLocal):
        has_own_programs = True

        def start_target(self) -> None:
            super().start_target()
            Path(self._path.name, "env").unlink()

    reason = "the program env, which sets the environment, is missing"
    bare = Bare(load_settings("local", cwd=str(tmp_path), scrub_env=True))
    with bare as env, pytest.raises(EnvironmentStartError, match=reason):
        env.execute("true")


def test_an_invalid_name_is_refused_before_anything_starts() -> None:
    with pytest.raises(SettingsError, match=r"terminal.env_passthrough: 'A B' is not the name of a variable"):
        create_environment("local", env_passthrough=["A B"])
