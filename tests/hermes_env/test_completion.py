"""`hermes-env completion`: what a shell is told that could stand where the cursor is."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from environments import backend_names

# bash calls the function that the script names, with the words of the line so far.
_ASK_BASH = """
{script}
COMP_WORDS=({line}) COMP_CWORD={place}
"$(complete -p hermes-env | sed 's/.*-F \\([^ ]*\\).*/\\1/')" hermes-env
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def script(hermes_env, variables: dict[str, str], tmp_path: Path) -> Callable[[str], str]:
    """Returns the script for a shell, once there is a `hermes-env` on PATH."""
    program = tmp_path / "bin" / "hermes-env"
    program.parent.mkdir()
    main = "from hermes_env.cli import main; import sys; sys.argv[0] = 'hermes-env'; main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(main)} "$@"\n')
    program.chmod(0o755)
    variables["PATH"] = f"{program.parent}:{os.environ['PATH']}"

    def get(shell: str) -> str:
        done = hermes_env("completion", shell)
        assert (done.returncode, done.stderr) == (0, "")
        text: str = done.stdout
        return text

    return get


@pytest.fixture
def ask(script, variables: dict[str, str]) -> Callable[[str], list[str]]:
    """What bash offers behind a line."""

    def answer(line: str) -> list[str]:
        words = [shlex.quote(word) for word in line.split(" ")]
        text = _ASK_BASH.format(script=script("bash"), line=" ".join(words), place=len(words) - 1)
        done = subprocess.run(
            ["bash", "--norc", "-c", text], env=variables, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stderr == ""
        return done.stdout.split()

    return answer


def test_bash_completes_subcommands(ask) -> None:
    assert {"exec", "run", "ls", "rm", "doctor", "gc", "completion"} <= set(ask("hermes-env "))
    assert ask("hermes-env com") == ["completion"]


def test_bash_completes_options(ask) -> None:
    assert ask("hermes-env exec --ba") == ["--backend"]
    assert {"--all", "--force", "--task"} <= set(ask("hermes-env rm --"))


def test_bash_completes_the_names_of_backends(ask) -> None:
    assert ask("hermes-env exec --backend ") == backend_names()
    assert ask("hermes-env -v ls -b sin") == ["singularity"]
    assert ask("hermes-env completion f") == ["fish"]


@pytest.mark.parametrize(
    ("shell", "variables_of_shell", "offers"),
    [
        ("zsh", {"_HERMES_ENV_COMPLETE": "complete_zsh"}, '"docker"'),
        ("fish", {"_HERMES_ENV_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "docker"),
    ],
)
def test_other_shells_are_answered_as_their_scripts_ask(
    script, variables: dict[str, str], shell: str, variables_of_shell: dict[str, str], offers: str
) -> None:
    text = script(shell)
    assert all(f"{name}={value}" in text for name, value in variables_of_shell.items())
    done = subprocess.run(
        ["hermes-env"],
        env={**variables, **variables_of_shell, "_TYPER_COMPLETE_ARGS": "hermes-env exec -b do"},
        executable=shutil.which("hermes-env", path=variables["PATH"]),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert offers in done.stdout and "modal" not in done.stdout


def test_a_shell_that_is_not_known_is_said_so(hermes_env) -> None:
    done = hermes_env("completion", "tcsh")
    assert done.returncode == 2 and "'tcsh' is not one of 'bash'" in done.stderr


def test_output_that_cannot_be_written_is_an_error(variables: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "hermes_env", "completion", "bash"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=variables, check=False)
    assert done.returncode == 125
    assert done.stderr == "hermes-env: cannot write to standard output: No space left on device\n"
