"""The Python interpreter of a script, and the script's variables.

No command is spent on a search ahead, so no result can be outdated. The start command of a script takes the first
available candidate, and the first message confirms that the Python works; see `output.BootMessages`. A candidate that
sent no such message is marked doubtful, and is tested before later use.
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
from environments.loop import run_async

CHOSEN, NUMBER = "hermes_python", "hermes_number"
"""Shell variables: the chosen Python, and its number among the candidates; empty if none was found."""
PYTHON = f'"${CHOSEN}"'
"""Shell text: the chosen Python."""
NOT_FOUND = 127
"""Exit code if no Python was found."""
_CHECK = f"import sys; sys.exit(sys.version_info < {OLDEST})"

FROM_SESSION = ("PATH", "PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables passed from the session to a script in project mode; the script then finds the same programs and modules.
"""

_doubtful: WeakKeyDictionary[BaseEnvironment, set[str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Pythons:
    """Candidates for a script's Python.

    Args:
        candidates: Paths and names, the best first.
        search_path: PATH to search for names before the shell's own; empty is the shell's own alone.
        doubtful: Candidates that failed to start an earlier script.
    """

    candidates: tuple[str, ...]
    search_path: str = ""
    doubtful: frozenset[str] = frozenset()

    def choose_command(self) -> str:
        """Return shell text that chooses a candidate. Starts no process if all have paths and none is doubtful."""
        tests = [f"if {self._test_command(name)}; then {NUMBER}={i}\n" for i, name in enumerate(self.candidates)]
        branches = "el".join(tests)
        return f"{NUMBER}=\n{branches}fi\n"

    def _test_command(self, name: str) -> str:
        """Return a shell condition that also sets `CHOSEN`."""
        word = shlex.quote(name)
        if "/" in word:
            condition = f"{CHOSEN}={word}; [ -x {word} ] && [ ! -d {word} ]"
        else:
            look = f"command -v {word}"
            found = f"(PATH={shlex.quote(self.search_path)}; {look}) || {look}" if self.search_path else look
            condition = f"{CHOSEN}=$( {found})"  # `((` could be arithmetic
        if name in self.doubtful:
            condition += f' && "${CHOSEN}" -c {shlex.quote(_CHECK)} </dev/null >/dev/null 2>&1'
        return condition

    def choose_and_report_command(self, report_command: Callable[[str], str]) -> str:
        """Return shell text that chooses a candidate and reports its number, or exits the shell.

        Args:
            report_command: Returns shell text that sends a message.
        """
        none = f'[ -n "${NUMBER}" ] || {{ {report_command("-")}; exit {NOT_FOUND}; }}'
        said = report_command(f'"${NUMBER}"')
        return f"{self.choose_command()}{none}\n{said}\n"

    def not_found_error(self, env: BaseEnvironment) -> UnsupportedError:
        """Return the error for a target without a usable Python."""
        wanted = ".".join(map(str, OLDEST))
        return UnsupportedError(
            f"backend {env.settings.env!r} has no Python {wanted} or later, which execute_code needs (looked for "
            f"{', '.join(self.candidates)}); install python3 there, or use an image that has it"
        )


def pythons_for(env: BaseEnvironment, session: Mapping[str, str], *, same_machine: bool) -> Pythons:
    """Return the candidates for a script.

    The session's active virtual or conda environment comes first. Then comes the Python that runs this package, on this
    machine, or the session's `python3` or `python` elsewhere.

    Args:
        env: Environment of the script.
        session: The session's variables in project mode, see `session_variables`; else empty.
        same_machine: True if the script runs on this machine.
    """
    place = session.get("PWD", "")
    prefixes = (session.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    active = [posixpath.join(place, prefix, "bin/python") for prefix in prefixes if prefix]
    own = [sys.executable] if same_machine else ["python3", "python"]
    doubtful = frozenset(_doubtful.get(env, ()))
    return Pythons(tuple(dict.fromkeys([*active, *own])), session.get("PATH", ""), doubtful)


def record_start(env: BaseEnvironment, python: str, *, begun: bool) -> None:
    """Record whether a candidate was able to start a script.

    Args:
        env: The environment.
        python: The candidate.
        begun: True if the start succeeded.
    """
    if not begun:
        _doubtful.setdefault(env, set()).add(python)
    elif python in _doubtful.get(env, ()):
        _doubtful[env].discard(python)


async def session_variables(env: BaseEnvironment) -> dict[str, str]:
    """Return the session's values of `FROM_SESSION` and `PWD`; empty for unset ones.

    Raises:
        TerminalError: The session could not be opened.
    """
    return {name: await run_async(env.internal.variable, name) for name in ("PWD", *FROM_SESSION)}


def script_command(
    argv: str,
    directory: str,
    allowed: Mapping[str, str],
    session: Mapping[str, str],
    exported: Iterable[str] | None = None,
) -> str:
    """Return shell text that replaces the shell by the script, with the allowed variables.

    The text travels over the shell's standard input, so that no process list shows a value.

    Args:
        argv: Shell text: the interpreter, the script and the arguments.
        directory: First entry of the script's PYTHONPATH.
        allowed: Variables allowed by name.
        session: Variables of the session, see `session_variables`; empty in strict mode.
        exported: If not None, the script also sees the shell's exported variables, except names of secrets; these names
            are passed nevertheless.
    """
    others = _other_variables(allowed, session)
    if exported is not None:
        program = running_with_exports(others, argv, session.get("PATH", ""), exported)
    else:
        program = running_clean_with(others, argv, session.get("PATH", ""))
    return _session_exports(directory, session) + program


def _session_exports(directory: str, session: Mapping[str, str]) -> str:
    """Return shell text that sets the session's variables and puts the directory on PYTHONPATH."""
    names = [name for name in FROM_SESSION if name in session and name != "PATH"]
    unset = "".join(f"unset {name}\n" for name in names if not session[name])
    export = exporting({name: session[name] for name in names if session[name]})
    return f'{unset}{export}PYTHONPATH={shlex.quote(directory)}"${{PYTHONPATH:+:$PYTHONPATH}}"\n'


def _other_variables(allowed: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    # PYTHONPATH is already set, like all allowed variables, and so follows the directory.
    return {name: value for name, value in allowed.items() if name != "PYTHONPATH" and name not in session}
