"""A script has the same view as in `python3 script.py`. `targets.script_views` lists intended differences."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from targets.script_views import ENDS_FORKED, differences, ends, pythons, use, version_of

from code_execution import execute_code
from code_execution.boot_program import OLDEST
from code_execution.run import Run
from environments import BaseEnvironment

SOME_ENDS = (
    "an error",
    "an error of an error",
    "an exit with a text",
    "a keyboard interrupt",
    "an interrupt by its signal",
    "wrong syntax",
    "an end at once",
    "a hook",
    "the last error",
    "objects at the end",
    "input",
    "stack",
)


def usual_pythons() -> list[str]:
    """Return the oldest and the newest supported Python of this machine. `tests_long` runs all of them."""
    found = [each for each in pythons() if version_of(each) >= OLDEST]
    return [found[0], found[-1]]


@pytest.mark.parametrize("mode", ["project", "strict"])
@pytest.mark.parametrize("way", ["socket", "relay"])
def test_a_script_sees_what_it_sees_without_us(env: BaseEnvironment, way: str, mode: str) -> None:
    env.execute("unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH")
    assert differences(env, mode=mode, transport=way) == {}


@pytest.mark.parametrize("way", ["socket", "relay"])
def test_a_script_sees_on_other_pythons_what_it_sees_without_us(env: BaseEnvironment, tmp_path: Path, way: str) -> None:
    for python in usual_pythons():
        use(env, python, str(tmp_path / "venv"))
        assert differences(env, transport=way) == {}, python


@pytest.mark.parametrize("way", ["socket", "relay"])
def test_a_script_ends_as_it_ends_without_us(env: BaseEnvironment, way: str) -> None:
    assert ends(env, SOME_ENDS, transport=way).keys() <= ENDS_FORKED.keys()


@pytest.mark.parametrize("way", ["socket", "relay"])
def test_modules_that_the_interpreter_imports_are_the_targets_and_not_the_sessions(
    env: BaseEnvironment, tmp_path: Path, way: str
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    for name in ("sitecustomize", "usercustomize"):
        (Path(env.cwd) / f"{name}.py").write_text("raise SystemExit('of the session')")
        (library / f"{name}.py").write_text(
            f"import sys; sys.{name} = [__name__, __file__, __spec__.name, __package__]"
        )
    shown = "import sys; print([getattr(sys, n, 0) for n in ('sitecustomize', 'usercustomize')])"
    for python in usual_pythons():
        use(env, python, str(tmp_path / "venv"))
        env.execute(f"export PYTHONPATH={library}")
        result = execute_code(shown + "; print(sys.path[1])", env=env, transport=way)  # type: ignore[arg-type]
        command, variables = [tmp_path / "venv/bin/python", "-c", shown], {**os.environ, "PYTHONPATH": str(library)}
        plain = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert result.output == f"{plain.stdout}{env.cwd}\n", (python, result)
        assert "usercustomize" in plain.stdout


def test_an_error_of_the_targets_own_module_is_shown_as_usual(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("1 / 0")
    env.execute(f"unset VIRTUAL_ENV CONDA_PREFIX; export PYTHONPATH={tmp_path}")
    result = execute_code("import sys; print('sitecustomize' in sys.modules); sys.exit(3)", env=env)
    assert (result.exit_code, result.output.splitlines()[0]) == (3, "False")
    assert result.stderr.startswith("Error in sitecustomize; set PYTHONVERBOSE for traceback:\nZeroDivisionError")


@pytest.mark.parametrize("way", ["socket", "relay"])
def test_a_python_that_is_too_old_is_passed_over(env: BaseEnvironment, tmp_path: Path, way: str) -> None:
    for python in pythons():
        if version_of(python) >= OLDEST:
            continue
        use(env, python, str(tmp_path / "venv"))
        for _ in range(2):
            result = execute_code("import sys; print(sys.version_info >= (3, 8))", env=env, transport=way)  # type: ignore[arg-type]
            assert result.output == "True\n", (python, result)


def test_a_script_may_have_ended_before_there_is_a_socket(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(env, "/bin/false", str(tmp_path / "venv"))  # makes the call try out a Python, with a supervisor
    begin = Run._prepare_during_start

    def late(run: Run) -> None:
        assert not run._python.is_supervised or time.sleep(1) is None
        begin(run)

    monkeypatch.setattr(Run, "_prepare_during_start", late)
    for _ in range(2):
        result = execute_code("print(1)", env=env, transport="socket")
        assert (result.status, result.output) == ("success", "1\n"), result
