"""Which variables a script sees: what is known to be harmless, what was allowed by name, and what the session set."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from environments.base import BaseEnvironment
from environments.clean_environment import clean_arguments, exporting, running_clean_with, running_with_exports

FROM_SESSION = ("PATH", "PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""What a script in project mode has from the session: with these, it finds the programs and modules that this finds."""


def session_variables(env: BaseEnvironment) -> dict[str, str]:
    """Return the session's own values of `FROM_SESSION`, and its `PWD`; empty for what it has not set.

    Raises:
        TerminalError: The session could not be opened.
    """
    return {name: env.internal.variable(name) for name in ("PWD", *FROM_SESSION)}


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


def script_variables(directory: str, allowed: Mapping[str, str], session: Mapping[str, str]) -> str:
    """Return shell text that makes what such a script sees the arguments of the shell, each as `NAME=VALUE`.

    Arguments are those of `script_command`.
    """
    return _of_session(directory, session) + clean_arguments(_others(allowed, session), session.get("PATH", ""))


def _of_session(directory: str, session: Mapping[str, str]) -> str:
    """Return shell text that sets what a script has from the session, and puts the directory on its PYTHONPATH."""
    names = [name for name in FROM_SESSION if name in session and name != "PATH"]
    unset = "".join(f"unset {name}\n" for name in names if not session[name])
    export = exporting({name: session[name] for name in names if session[name]})
    return f'{unset}{export}PYTHONPATH={shlex.quote(directory)}"${{PYTHONPATH:+:$PYTHONPATH}}"\n'


def _others(allowed: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    # PYTHONPATH is set already, like all that was allowed, and so goes on behind the directory.
    return {name: value for name, value in allowed.items() if name != "PYTHONPATH" and name not in session}
