"""The choice of a script's Python, and of its environment variables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from code_execution import execute_code, load_skill
from code_execution.limits import TransportName
from environments import BaseEnvironment, SettingsError, create_environment
from environments.shell.child_stream import ChildStream

SHOW = "import os; print(sorted(os.environ))"
WHICH = "import sys; print(sys.executable)"


def _python_that_says(directory: Path, word: str, version: str = "(3, 12)") -> Path:
    """Write a `python` that passes the version check, and prints a word for all else."""
    python = directory / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then exec {sys.executable} -c "sys = 0; import sys; '
                      f'sys.exit({version} < (3, 8))"; fi\necho {word}\n')  # fmt: skip
    python.chmod(0o755)
    return directory


def test_without_an_active_environment_it_is_our_own(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    env.execute("unset VIRTUAL_ENV CONDA_PREFIX")
    assert execute_code(WHICH, env=env).output == f"{sys.executable}\n"


def test_a_python_that_ends_before_it_is_sent_anything_is_passed_over(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    env.execute(f"export VIRTUAL_ENV={tmp_path / 'venv'}")
    write = ChildStream.write
    waited: list[float] = []

    def write_late(stream: ChildStream, data: bytes) -> None:
        if data.startswith(b"trap - EXIT;exit;#") and not waited:
            waited.append(0.5)
            time.sleep(0.5)  # holds up the loop thread, as a loaded machine may
        write(stream, data)

    monkeypatch.setattr(ChildStream, "write", write_late)
    assert execute_code("print(1)", env=env, transport="relay").output == "1\n"
    assert waited


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_in_project_mode_the_sessions_active_environment_is_used(
    env: BaseEnvironment, tmp_path: Path, variable: str
) -> None:
    venv = _python_that_says(tmp_path / "venv", "mine")
    env.execute(f"unset VIRTUAL_ENV CONDA_PREFIX; export {variable}={venv}")
    assert execute_code(WHICH, env=env).output == "mine\n"
    assert execute_code(WHICH, env=env, mode="strict").output == f"{sys.executable}\n"


def test_an_active_environment_that_is_too_old_or_broken_is_passed_over(env: BaseEnvironment, tmp_path: Path) -> None:
    old = _python_that_says(tmp_path / "old", "old", version="(3, 7)")
    env.execute(f"export VIRTUAL_ENV={old} CONDA_PREFIX=/no/such/prefix")
    assert execute_code(WHICH, env=env).output == f"{sys.executable}\n"


RUN_ONCE = """
import sys, hermes_tools
with open("ran", "a") as file: file.write("once")
print(hermes_tools.one(), open("ran").read(), sys.flags.isolated, __file__.endswith("/script.py"))
"""


def test_a_python_that_looks_at_no_variable_runs_a_script_once_and_with_its_tools(
    env: BaseEnvironment, tmp_path: Path, transport: TransportName
) -> None:
    """PYTHONPATH does not lead it to the boot program."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I "$@"\n')
    python.chmod(0o755)
    env.execute(f"export VIRTUAL_ENV={tmp_path / 'venv'}")
    for _ in range(2):
        result = execute_code(RUN_ONCE, env=env, tools={"one": lambda: 1}, transport=transport)
        assert result.output == "1 once 1 True\n", result
        env.remove("ran")


def test_the_shell_does_not_read_what_a_python_has_left_of_a_script(env: BaseEnvironment, tmp_path: Path) -> None:
    venv = _python_that_says(tmp_path / "venv", "mine")
    env.execute(f"export VIRTUAL_ENV={venv}")
    for _ in range(2):
        result = execute_code(f"\ntouch {tmp_path}/touched\n", env=env, transport="relay")
        assert result.output == "mine\n"
        env.internal.execute("true")  # behind it
    assert not (tmp_path / "touched").exists()


def test_a_script_sees_only_variables_that_are_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MY_API_KEY", "my_password", "LC_AUTH", "CONDA_TOKEN", "SOME_SETTING"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("TZ", "UTC")
    with create_environment("local", cwd=str(tmp_path)) as env:
        result = execute_code("import os; print('hidden' in os.environ.values(), os.environ)", env=env)
    assert result.output.startswith("False")
    assert "'LC_TIME': 'C'" in result.output
    assert "'TZ': 'UTC'" in result.output
    assert "'PATH'" in result.output


def test_the_staging_directory_is_first_on_the_path(env: BaseEnvironment) -> None:
    for mode in ("project", "strict"):
        code = "import hermes_tools, os, sys; print(os.path.dirname(hermes_tools.__file__) == sys.path[0])"
        assert execute_code(code, env=env, mode=mode).output == "True\n"


def test_a_variable_that_settings_allow_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", 'it\'s\n"open" $HOME')
    allowed = ["MY_API_KEY", "NOT_SET"]
    with create_environment("local", cwd=str(tmp_path), env_passthrough=allowed, redact_secrets=False) as env:
        result = execute_code("import os; print(repr(os.environ['MY_API_KEY']), 'NOT_SET' in os.environ)", env=env)
    assert result.output == repr('it\'s\n"open" $HOME') + " False\n"


SKILL = """\
---
name: weather
required_environment_variables:
  - WEATHER_TOKEN
  - name: WEATHER_SECRET
    prompt: The secret
  - WEATHER_UNSET_KEY
---
# Weather
"""


def test_a_skill_allows_what_it_requires_in_its_own_session_only(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_TOKEN", "sun")
    monkeypatch.setenv("WEATHER_SECRET", "rain")
    (tmp_path / "SKILL.md").write_text(SKILL)
    assert load_skill(tmp_path / "SKILL.md", env) == ("WEATHER_TOKEN", "WEATHER_SECRET")
    code = "import os; print([os.environ.get(n) for n in ('WEATHER_TOKEN', 'WEATHER_SECRET')])"
    assert execute_code(code, env=env).output == "['sun', 'rain']\n"
    with create_environment("local", cwd=str(tmp_path)) as other:
        assert execute_code(code, env=other).output == "[None, None]\n"


def test_a_broken_skill_is_refused_with_its_path(env: BaseEnvironment, tmp_path: Path) -> None:
    skill = tmp_path / "SKILL.md"
    for front_matter, message in (
        ("required_environment_variables: ONE", "should be a list"),
        ("required_environment_variables: ['A B']", "not the name of a variable"),
        ("required_environment_variables: [[]]", "not the name of a variable"),
        ("a: [", "not valid YAML"),
    ):
        skill.write_text(f"---\n{front_matter}\n---\n")
        with pytest.raises(SettingsError, match=message) as caught:
            load_skill(skill, env)
        assert str(skill) in str(caught.value)


def test_a_skill_without_front_matter_allows_nothing(env: BaseEnvironment, tmp_path: Path) -> None:
    skill = tmp_path / "SKILL.md"
    skill.write_text("# Just text\n")
    assert load_skill(skill, env) == ()


def test_no_secret_shows_in_the_process_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "open-sesame-4711")
    with create_environment("local", cwd=str(tmp_path), env_passthrough=["MY_API_KEY"]) as env:
        code = """
import glob, os
key = os.environ["MY_API_KEY"]
lines = []
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try: lines.append(open(path, "rb").read())
    except OSError: pass
print(len(lines) > 3, any(key.encode() in line for line in lines))
"""
        assert execute_code(code, env=env).output == "True False\n"


def test_limits_and_mode_come_from_the_settings(env: BaseEnvironment, configure: Callable[[str], None]) -> None:
    configure("code_execution:\n  max_tool_calls: 0\n  mode: strict\n  max_stdout_bytes: 2000\n  tool_errors: raise\n")
    code = "import os, hermes_tools\nprint('script.py' in os.listdir())\nprint('x' * 5000)\nhermes_tools.one()"
    result = execute_code(code, env=env, tools={"one": lambda: 1})
    assert result.output.startswith("True\n")
    assert "[output truncated at 2KB]" in result.output
    assert "limit of 0 tool calls" in result.output
    configure("code_execution: {timeout: 0.6}\n")
    result = execute_code("import time; time.sleep(60)", env=env)
    assert (result.status, "0.6" in result.output) == ("timeout", True)


def test_a_wrong_setting_is_named(env: BaseEnvironment, configure: Callable[[str], None]) -> None:
    configure("code_execution:\n  mode: loose\n")
    with pytest.raises(SettingsError, match=r"code_execution\.mode"):
        execute_code("print(1)", env=env)
