"""The variables of a script on targets without bash, env or a stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from targets.local_shells import per_command, without_bash
from targets.plain_local import PlainLocal

from code_execution import execute_code
from environments import BaseEnvironment, load_settings

Make = Callable[[Path], BaseEnvironment]
SHOW = "import os; print(sorted(os.environ))"


@pytest.mark.parametrize("make", [without_bash, per_command])
def test_a_variable_with_a_name_invalid_in_shells_is_not_passed(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY-API.KEY", "hidden")
    with make(tmp_path) as env:
        assert "'PATH'" in execute_code(SHOW, env=env).output
        assert "MY-API" not in execute_code(SHOW, env=env).output


class WithoutEnv(PlainLocal):
    """This machine without the program env."""

    has_own_programs = True

    def start_target(self) -> None:
        super().start_target()
        Path(self._path.name, "env").unlink()


def test_without_the_program_env_the_script_does_not_run(tmp_path: Path) -> None:
    with WithoutEnv(load_settings("local", cwd=str(tmp_path))) as env:
        env.has_own_programs = True
        result = execute_code("open('ran', 'w')", env=env)
    assert (result.status, result.exit_code) == ("error", 126)
    assert "nothing was run: the program env, which sets the environment, is missing" in result.output
    assert not (tmp_path / "ran").exists()
