"""Direct start of a known bash of this machine, and the cases that start bash through /bin/sh."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from environments import BaseEnvironment, create_environment
from environments.local import bash
from environments.shell.dialect.boot import DIALECTS, definitions_of
from environments.shell.dialect.commands import brand_of

LOOK = """echo $BASH $PPID $(ulimit -x); tr '\\0' '\\n' </proc/$$/environ | grep ^HERMES_COMMAND="""


@pytest.fixture(autouse=True)
def _no_known_bash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash, "_bash_by_path", {})


@pytest.fixture
def own_bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a copy of bash first on PATH, and let an environment find the copy."""
    directory = tmp_path / "bin"
    directory.mkdir()
    shutil.copy(shutil.which("bash") or "", directory / "bash")
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    with create_environment("local") as env:
        assert path_of(env) == str(directory / "bash")
    return directory / "bash"


def path_of(env: BaseEnvironment) -> str:
    return env.execute("echo $BASH").output.strip()


def started_as(env: BaseEnvironment) -> list[str]:
    """Return the argument vector of the session's shell."""
    return psutil.Process(int(env.execute("echo $$").output)).cmdline()


def test_a_bash_started_directly_has_the_same_marker_and_brand(own_bash: Path) -> None:
    with create_environment("local") as env:
        path, parent, number, mark = env.execute(LOOK).output.split()
        assert started_as(env) == [str(own_bash), "--noprofile", "--norc"]
        assert (path, int(parent)) == (str(own_bash), os.getpid())
        assert int(number) == brand_of(env.id)
        assert mark.startswith(f"HERMES_COMMAND={env.id}/")


def test_a_bash_started_directly_keeps_the_state_of_a_session(own_bash: Path) -> None:
    with create_environment("local") as env:
        env.execute("cd /; export A=1; f() { echo f; }; exit 3")
        assert env.execute("pwd; echo $A; f").output == "/\n1\nf\n"


def test_a_bash_that_was_removed_is_searched_again(own_bash: Path) -> None:
    own_bash.unlink()
    with create_environment("local") as env:
        assert path_of(env) not in ("", str(own_bash)) and env.execute("echo works").output == "works\n"


def test_bash_env_prevents_a_direct_start(own_bash: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env").write_text(f"ulimit -x >>{tmp_path}/numbers\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "env"))
    with create_environment("local") as env:
        assert started_as(env)[0] == "bash", "by a /bin/sh"
        assert set((tmp_path / "numbers").read_text().split()) == {str(brand_of(env.id))}


def test_a_variable_that_sh_may_drop_prevents_a_direct_start(own_bash: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASH_FUNC_cd%%", "() { echo no; }")
    with create_environment("local") as env:
        assert started_as(env)[0] == "bash", "by a /bin/sh"


def test_cached_definitions_equal_those_of_the_dialect() -> None:
    for kind in DIALECTS.values():
        for marker in ("1-2-3/4/", "1-2-3:4-5-6/7/", "o'ther:1-2-3/4/"):
            dialect = kind("0eb3ba7b8cc4e36f", marker, "_527")
            assert definitions_of(dialect) == dialect.definitions()


def test_a_limit_of_few_open_files_is_an_error_at_once() -> None:
    program = (
        "import resource\n"
        "from environments import EnvironmentStartError, create_environment\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
        "with create_environment('local') as env:\n"
        "    try:\n"
        "        env.execute('true')\n"
        "    except EnvironmentStartError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "the limit of open files is too low for a shell: raise it to 256 or more (ulimit -n)" in done.stdout
