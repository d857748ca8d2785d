"""Which Python runs a script, and which variables it sees.

Nothing is found out ahead, so that nothing can be out of date and no command is spent on it. What starts a script takes
the first candidate that is there, and the script's first words tell that it works, see `output.Messages`. One that did
not get so far is doubtful, and from then on tried out before it is taken.
"""

from __future__ import annotations

import posixpath
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from code_execution.boot_program import OLDEST
from environments.base import BaseEnvironment
from environments.clean_environment import exporting, running_clean_with, running_with_exports
from environments.errors import UnsupportedError
from environments.loop import done

CHOSEN, NUMBER = "hermes_python", "hermes_number"
"""Shell variables: the Python that was chosen, and its number among the candidates, which is empty if there is none."""
PYTHON = f'"${CHOSEN}"'
"""Shell text: the Python that was chosen."""
NOT_FOUND = 127
"""Exit code when there is none."""
_CHECK = f"import sys; sys.exit(sys.version_info < {OLDEST})"

FROM_SESSION = ("PATH", "PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""What a script in project mode has from the session: with these, it finds the programs and modules that this finds."""

_doubtful: WeakKeyDictionary[BaseEnvironment, set[str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Pythons:
    """The candidates for a script.

    Args:
        candidates: Paths and names, the best first.
        search_path: The PATH to look for names on, before the shell's own; empty is its own alone.
        doubtful: Those that did not begin an earlier script.
    """

    candidates: tuple[str, ...]
    search_path: str = ""
    doubtful: frozenset[str] = frozenset()

    def choose_command(self) -> str:
        """Return shell text that chooses one. It starts no process where all have paths and none is doubtful."""
        branches = "el".join(f"if {self._can_be(name)}; then {NUMBER}={i}\n" for i, name in enumerate(self.candidates))
        return f"{NUMBER}=\n{branches}fi\n"

    def _can_be(self, name: str) -> str:
        """Return a condition that also sets `CHOSEN`."""
        word = shlex.quote(name)
        if "/" in word:
            condition = f"{CHOSEN}={word}; [ -x {word} ] && [ ! -d {word} ]"
        else:
            look = f"command -v {word}"
            found = f"(PATH={shlex.quote(self.search_path)}; {look}) || {look}" if self.search_path else look
            condition = f"{CHOSEN}=$( {found})"  # with `((` it could be arithmetic
        if name in self.doubtful:
            condition += f' && "${CHOSEN}" -c {shlex.quote(_CHECK)} </dev/null >/dev/null 2>&1'
        return condition

    def choose_and_report_command(self, report_command: Callable[[str], str]) -> str:
        """Return shell text that chooses one and says which, or ends the shell.

        Args:
            report_command: Returns shell text that says a word.
        """
        none = f'[ -n "${NUMBER}" ] || {{ {report_command("-")}; exit {NOT_FOUND}; }}'
        said = report_command(f'"${NUMBER}"')
        return f"{self.choose_command()}{none}\n{said}\n"

    def not_found_error(self, env: BaseEnvironment) -> UnsupportedError:
        """Return the error for a target that has none of them."""
        wanted = ".".join(map(str, OLDEST))
        return UnsupportedError(
            f"backend {env.settings.env!r} has no Python {wanted} or later, which execute_code needs (looked for "
            f"{', '.join(self.candidates)}); install python3 there, or use an image that has it"
        )


def pythons_for(env: BaseEnvironment, session: Mapping[str, str], *, same_machine: bool) -> Pythons:
    """Return the candidates for a script.

    Those of the session's active virtual or conda environment come first. Then it is our own: on this machine the one
    that runs us, elsewhere the `python3` or `python` of the session.

    Args:
        env: Where the script is to run.
        session: The session's variables, if it is to run with them; see `session_variables`.
        same_machine: Whether that is this machine.
    """
    place = session.get("PWD", "")
    prefixes = (session.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    active = [posixpath.join(place, prefix, "bin/python") for prefix in prefixes if prefix]
    own = [sys.executable] if same_machine else ["python3", "python"]
    doubtful = frozenset(_doubtful.get(env, ()))
    return Pythons(tuple(dict.fromkeys([*active, *own])), session.get("PATH", ""), doubtful)


def record_start(env: BaseEnvironment, python: str, *, begun: bool) -> None:
    """Note whether a candidate has begun a script.

    Args:
        env: Where.
        python: The candidate.
        begun: Whether it has.
    """
    if not begun:
        _doubtful.setdefault(env, set()).add(python)
    elif python in _doubtful.get(env, ()):
        _doubtful[env].discard(python)


async def session_variables(env: BaseEnvironment) -> dict[str, str]:
    """Return the session's own values of `FROM_SESSION`, and its `PWD`; empty for what it has not set.

    Raises:
        TerminalError: The session could not be opened.
    """
    return {name: await done(env.internal.variable, name) for name in ("PWD", *FROM_SESSION)}


def script_command(
    argv: str,
    directory: str,
    allowed: Mapping[str, str],
    session: Mapping[str, str],
    exported: Iterable[str] | None = None,
) -> str:
    """Return shell text that becomes a script, which sees what it may see.

    It travels over the shell's input, so that no value of what was allowed shows in a process list.

    Args:
        argv: Shell text: the interpreter, the script and its arguments.
        directory: What comes first on its PYTHONPATH.
        allowed: Variables that were allowed by name.
        session: Those of the session, see `session_variables`; in strict mode none.
        exported: If it also sees what the shell that it becomes exports, but for what is named as secrets are: the
            names of those among these that it sees all the same.
    """
    others = _others(allowed, session)
    if exported is not None:
        program = running_with_exports(others, argv, session.get("PATH", ""), exported)
    else:
        program = running_clean_with(others, argv, session.get("PATH", ""))
    return _of_session(directory, session) + program


def _of_session(directory: str, session: Mapping[str, str]) -> str:
    """Return shell text that sets what a script has from the session, and puts the directory on its PYTHONPATH."""
    names = [name for name in FROM_SESSION if name in session and name != "PATH"]
    unset = "".join(f"unset {name}\n" for name in names if not session[name])
    export = exporting({name: session[name] for name in names if session[name]})
    return f'{unset}{export}PYTHONPATH={shlex.quote(directory)}"${{PYTHONPATH:+:$PYTHONPATH}}"\n'


def _others(allowed: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    # PYTHONPATH is set already, like all that was allowed, and so goes on behind the directory.
    return {name: value for name, value in allowed.items() if name != "PYTHONPATH" and name not in session}
