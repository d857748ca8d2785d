"""A user's modules with the names of packages of this project."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from targets.command_line import WORDS, CommandLine

import environments

PACKAGES = ["environments", "rpc", "hermes_tools", "code_execution"]


def test_the_module_that_has_taken_a_name_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conflict = runpy.run_path(str(Path(environments.__file__).parent / "name_conflict.py"))
    for form in ("{}.py", "{}/__init__.py"):
        for name in PACKAGES:
            place = tmp_path / form[3:].replace("/", "") / name
            taken = place / form.format(name)
            taken.parent.mkdir(parents=True)
            taken.touch()
            with monkeypatch.context() as patch:
                patch.syspath_prepend(str(place))
                patch.delitem(sys.modules, name, raising=False)
                assert conflict["shadowed_package"]().startswith(f"{taken} has taken the name {name!r}")


def test_the_command_line_and_an_importing_program_name_the_module(tmp_path: Path) -> None:
    taken = tmp_path / "rpc.py"
    taken.touch()
    done = subprocess.run(
        [*WORDS, "exec", "--", "echo never"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode, done.stderr.count("\n")) == ("", 125, 1)
    assert done.stderr.startswith(f"hermes-env: {taken} has taken the name 'rpc'")
    code = "from code_execution import execute_code"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {taken} has taken the name 'rpc'")


def test_taken_names_in_a_targets_working_directory_are_harmless(hermes_env: CommandLine, tmp_path: Path) -> None:
    for name in [*PACKAGES, "json", "socket", "threading"]:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('this is not what was meant')")
    script = tmp_path / "there" / "script.py"
    script.parent.mkdir()
    script.write_text("from hermes_tools import terminal; print(terminal('echo hi')['output'])")
    for transport in ("auto", "file"):
        # `run` starts in another directory. This one is the target's working directory.
        words = ["run", "--cwd", str(tmp_path), "--transport", transport, str(script)]
        done = hermes_env(*words, folder=script.parent)
        assert (done.stdout.strip(), done.returncode) == ("hi", 0), done.stderr
