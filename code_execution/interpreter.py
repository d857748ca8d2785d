"""Which Python runs a script: the candidates, in order, and the shell text that chooses one of them in the target.

Nothing is found out ahead, so that nothing can be out of date and no command is spent on it. What starts a script takes
the first candidate that is there, and the script's first words tell that it works, see `beginning`. One that did not
get so far is doubtful, and from then on tried out before it is taken.
"""

from __future__ import annotations

import posixpath
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from code_execution.script_start import OLDEST
from environments.base import BaseEnvironment
from environments.errors import UnsupportedError

CHOSEN, NUMBER = "hermes_python", "hermes_number"
"""Shell variables: the Python that was chosen, and its number among the candidates, which is empty if there is none."""
PYTHON = f'"${CHOSEN}"'
"""Shell text: the Python that was chosen."""
NOT_FOUND = 127
"""Exit code when there is none."""
_CHECK = f"import sys; sys.exit(sys.version_info < {OLDEST})"

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

    def choosing(self) -> str:
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
            there = f"(PATH={shlex.quote(self.search_path)}; {look}) || {look}" if self.search_path else look
            condition = f"{CHOSEN}=$( {there})"  # with `((` it could be arithmetic
        if name in self.doubtful:
            condition += f' && "${CHOSEN}" -c {shlex.quote(_CHECK)} </dev/null >/dev/null 2>&1'
        return condition

    def choosing_or_ending(self) -> str:
        """Return shell text that chooses one, or ends the shell."""
        return f'{self.choosing()}[ -n "${NUMBER}" ] || exit {NOT_FOUND}\n'

    def none_works(self, env: BaseEnvironment) -> UnsupportedError:
        """Return the error for a target that has none of them."""
        wanted = ".".join(map(str, OLDEST))
        return UnsupportedError(
            f"backend {env.settings.env!r} has no Python {wanted} or later, which execute_code needs (looked for "
            f"{', '.join(self.candidates)}); install python3 there, or use an image that has it"
        )


def pythons_for(env: BaseEnvironment, session: Mapping[str, str]) -> Pythons:
    """Return the candidates for a script.

    Those of the session's active virtual or conda environment come first. Then it is our own: on this machine the one
    that runs us, elsewhere the `python3` or `python` of the session.

    Args:
        env: Where the script is to run.
        session: The session's variables, if it is to run with them; see `child_environment.session_variables`.
    """
    place = session.get("PWD", "")
    prefixes = (session.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    active = [posixpath.join(place, prefix, "bin/python") for prefix in prefixes if prefix]
    own = [sys.executable] if env.capabilities.same_machine else ["python3", "python"]
    doubtful = frozenset(_doubtful.get(env, ()))
    return Pythons(tuple(dict.fromkeys([*active, *own])), session.get("PATH", ""), doubtful)


def note_begun(env: BaseEnvironment, python: str, *, begun: bool) -> None:
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
