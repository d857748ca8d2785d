"""Which Python runs a script."""

from __future__ import annotations

import shlex
import sys
from weakref import WeakKeyDictionary

from code_execution.settings import Mode
from environments.base import BaseEnvironment
from environments.errors import UnsupportedError

OLDEST = (3, 8)
"""The oldest Python the stub runs on."""

_found: WeakKeyDictionary[BaseEnvironment, dict[tuple[str, ...], str]] = WeakKeyDictionary()


def find_python(env: BaseEnvironment, mode: Mode, timeout: float) -> str:
    """Return the path or name of the Python to run a script with.

    In project mode that is the active virtual or conda environment's, if it works and is 3.8 or later. Otherwise it
    is our own: on this machine the one that runs us, elsewhere the target's `python3` or `python`.

    Args:
        env: Where the script is to run.
        mode: See `execute_code`.
        timeout: Seconds to look for it.

    Raises:
        UnsupportedError: The target has none.
    """
    active = _active_pythons(env) if mode == "project" else ()
    own = (sys.executable,) if env.capabilities.same_machine else ("python3", "python")
    candidates = (*active, *own)
    if candidates == (sys.executable,):
        return sys.executable
    known = _found.setdefault(env, {})
    if candidates not in known:
        known[candidates] = _first_that_works(env, candidates, timeout)
    return known[candidates]


def forget_python(env: BaseEnvironment) -> None:
    """Look again next time: what was found could not be started."""
    _found.pop(env, None)


def _active_pythons(env: BaseEnvironment) -> tuple[str, ...]:
    prefixes = (env.session_variable("VIRTUAL_ENV"), env.session_variable("CONDA_PREFIX"))
    return tuple(f"{prefix}/bin/python" for prefix in prefixes if prefix)


def _first_that_works(env: BaseEnvironment, candidates: tuple[str, ...], timeout: float) -> str:
    check = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    names = " ".join(shlex.quote(candidate) for candidate in candidates)
    result = env.execute_own(
        f'for p in {names}; do if "$p" -c {shlex.quote(check)} >/dev/null 2>&1; then printf %s "$p"; break; fi; done',
        timeout=timeout,
    )
    if not result.output:
        wanted = ".".join(map(str, OLDEST))
        raise UnsupportedError(
            f"backend {env.settings.env!r} has no Python {wanted} or later, which execute_code needs (looked for "
            f"{', '.join(candidates)}); install python3 there, or use an image that has it"
        )
    return result.output
