"""A user's own modules that have the names of packages of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ["environments", "rpc", "hermes_tools", "code_execution"]


@pytest.fixture(params=["{}.py", "{}/__init__.py"])
def taken(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> Path:
    """A module of the user's in the current directory."""
    path = tmp_path / request.param.format(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    return path


@pytest.mark.parametrize("name", PACKAGES)
def test_the_command_line_names_what_has_taken_a_name(hermes_env, taken: Path, name: str) -> None:
    done = hermes_env("exec", "--", "echo never")
    assert (done.stdout, done.returncode) == ("", 125)
    assert done.stderr.startswith(f"hermes-env: {taken} has taken the name {name!r}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", PACKAGES[:3])
def test_a_program_that_imports_us_is_told_what_has_taken_a_name(taken: Path, name: str) -> None:
    code = "from code_execution import execute_code"
    done = subprocess.run([sys.executable, "-c", code], cwd=taken.parent, capture_output=True, text=True, check=False)
    if taken.name == "__init__.py":
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=taken.parents[1], capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {taken} has taken the name {name!r}")


@pytest.mark.parametrize("name", [*PACKAGES, "json", "socket", "threading"])
def test_in_a_target_such_a_name_in_the_sessions_directory_is_in_nobodys_way(
    hermes_env, taken: Path, name: str, tmp_path: Path
) -> None:
    taken.write_text("raise RuntimeError('this is not what was meant')")
    script = tmp_path / "there" / "script.py"
    script.parent.mkdir()
    script.write_text("from hermes_tools import terminal; print(terminal('echo hi')['output'])")
    for transport in ("auto", "file"):
        # `run` itself starts elsewhere, and has the directory as its target's.
        words = ["run", "--cwd", str(tmp_path), "--transport", transport, str(script)]
        done = hermes_env(*words, folder=script.parent)
        assert (done.stdout.strip(), done.returncode) == ("hi", 0), done.stderr
