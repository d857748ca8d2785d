"""`hermes-env completion`: the words that a shell offers at the cursor."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from targets.command_line import CommandLine

from environments import backend_names

# bash calls the script's completion function with the words of the line so far.
_ASK_BASH = """
{script}
COMP_WORDS=({line}) COMP_CWORD={place}
"$(complete -p hermes-env | sed 's/.*-F \\([^ ]*\\).*/\\1/')" hermes-env
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def test_bash_asks_as_its_script_says(hermes_env: CommandLine, variables: dict[str, str], tmp_path: Path) -> None:
    main = "from hermes_env.cli import main; import sys; sys.argv[0] = 'hermes-env'; main()"
    program = tmp_path / "bin" / "hermes-env"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(main)} "$@"\n')
    program.chmod(0o755)
    line = ["hermes-env", "-v", "ls", "-b", "sin"]
    text = _ASK_BASH.format(script=hermes_env("completion", "bash").stdout, line=shlex.join(line), place=len(line) - 1)
    own = {**variables, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", text], env=own, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("singularity\n", "")


def test_subcommands_options_and_names_of_backends_are_offered(hermes_env: CommandLine) -> None:
    def offered(line: str) -> list[str]:
        place = str(len(line.split(" ")) - 1)
        asked = {"_HERMES_ENV_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": place}
        return hermes_env(**asked).stdout.split()

    assert {"exec", "run", "ls", "rm", "doctor", "gc", "completion"} <= set(offered("hermes-env "))
    assert offered("hermes-env exec --ba") == ["--backend"]
    assert {"--all", "--force", "--task"} <= set(offered("hermes-env rm --"))
    assert offered("hermes-env exec --backend ") == backend_names()
    assert offered("hermes-env completion f") == ["fish"]


def test_other_shells_are_answered_as_their_scripts_ask(hermes_env: CommandLine) -> None:
    asked = {
        "zsh": {"_HERMES_ENV_COMPLETE": "complete_zsh"},
        "fish": {"_HERMES_ENV_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    for shell, variables in asked.items():
        text = hermes_env("completion", shell).stdout
        assert all(f"{name}={value}" in text for name, value in variables.items())
        offers = hermes_env(**variables, _TYPER_COMPLETE_ARGS="hermes-env exec -b do").stdout
        assert "docker" in offers and "modal" not in offers
    done = hermes_env("completion", "tcsh")
    assert (done.returncode, done.stderr) == (2, "hermes-env: SHELL tcsh: it should be one of bash, zsh, fish\n")
