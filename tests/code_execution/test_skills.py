"""The environment variables of skills, also of hostile ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from code_execution import execute_code, load_skill
from environments import BaseEnvironment, SettingsError, create_environment
from environments.secrets import is_protected


def _skill(folder: Path, front_matter: str) -> Path:
    path = folder / "SKILL.md"
    path.write_text(f"---\n{front_matter}\n---\n# A skill\n")
    return path


PROTECTED = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "HF_TOKEN",
    "MODAL_TOKEN_SECRET",
    "DAYTONA_API_KEY",
    "TERMINAL_SSH_PASSWORD",
    "HERMES_MCP_TOKEN",
    "TAVILY_API_KEY",
    "LD_PRELOAD",
    "PATH",
    "PYTHONPATH",
    "BASH_ENV",
    "GIT_SSH_COMMAND",
    "openai_api_key",
)


def test_a_skill_cannot_ask_for_protected_variables(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PROTECTED:
        monkeypatch.setenv(name, os.environ.get(name, "x"))
        with pytest.raises(SettingsError, match=f"asks for {name}.*code_execution.skill_env_allowlist in config.yaml"):
            load_skill(_skill(tmp_path, f"required_environment_variables: [{name}]"), env)
    assert env.passthrough.values() == {}


def test_a_skill_may_ask_for_other_names() -> None:
    assert not any(map(is_protected, ("WEATHER_API_KEY", "GHOST_TOKEN", "AWSOME_KEY", "MY_PATH", "PATHFINDER")))


def test_config_yaml_allows_a_skill_a_providers_key_by_name(
    env: BaseEnvironment, configure: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("code_execution:\n  skill_env_allowlist: [OPENAI_API_KEY]\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-allowed")
    skill = _skill(tmp_path, "required_environment_variables: [OPENAI_API_KEY]")
    assert load_skill(skill, env) == ("OPENAI_API_KEY",)
    code = "import os; print(len(os.environ['OPENAI_API_KEY']))"
    assert execute_code(code, env=env).output == "10\n"


def test_a_skill_may_name_a_variable_that_passes_anyway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-1")
    skill = _skill(tmp_path, "required_environment_variables: [GITHUB_TOKEN]")
    with create_environment("local", env_passthrough=["GITHUB_TOKEN"]) as env:
        assert load_skill(skill, env) == ("GITHUB_TOKEN",)


def test_a_skills_variables_reach_a_running_session(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.execute("true")
    monkeypatch.setenv("WEATHER_TOKEN", "sun")
    load_skill(_skill(tmp_path, "required_environment_variables: [WEATHER_TOKEN]"), env)
    assert env.execute("echo $WEATHER_TOKEN").output == "sun\n"


HOSTILE = [
    "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "\n".join(f"{n}: &{n} [{','.join([f'*{o}'] * 9)}]" for o, n in zip("abcdefg", "bcdefgh", strict=True))
    + "\nrequired_environment_variables: [[*h]]",
    "required_environment_variables: 2020-99-99",
    f"required_environment_variables: {'[' * 1000}",
    "required_environment_variables: {a: 1, a: 2}",
    "required_environment_variables: [A]\nrequired_environment_variables: [B]",
    f"required_environment_variables: [{', '.join(f'A{n}' for n in range(101))}]",
    f"required_environment_variables: ['{'x y' * 10_000}']",
    "required_environment_variables: [!!timestamp x]",
    "x" * 70_000,
]


@pytest.mark.usefixtures("without_collector")
def test_hostile_front_matter_is_a_short_settings_error(env: BaseEnvironment, tmp_path: Path) -> None:
    for front_matter in HOSTILE:
        with pytest.raises(SettingsError) as caught:
            load_skill(_skill(tmp_path, front_matter), env)
        assert str(tmp_path) in str(caught.value)
        assert len(str(caught.value)) < 1000


def test_of_a_long_file_only_the_front_matter_is_read(env: BaseEnvironment, tmp_path: Path) -> None:
    skill = _skill(tmp_path, "name: long")
    with open(skill, "ab") as file:
        file.write(b"\xff")
        file.truncate(5_000_000_000)
    assert load_skill(skill, env) == ()


def test_text_that_resembles_front_matter_is_none(env: BaseEnvironment, tmp_path: Path) -> None:
    skill = tmp_path / "SKILL.md"
    skill.write_text("---\n" + "\n--- x" * 10_000)
    assert load_skill(skill, env) == ()


def test_a_skill_that_is_no_file_is_refused_and_not_waited_for(env: BaseEnvironment, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "SKILL.md")
    with pytest.raises(SettingsError, match="not a regular file"):
        load_skill(tmp_path / "SKILL.md", env)
