"""Which variables a script sees: what is known to be harmless, what was allowed by name, and what the session set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from environments.base import BaseEnvironment
from environments.clean_environment import exporting, running_clean_with, running_with_exports
from environments.passthrough import Passthrough

FROM_SESSION = ("PATH", "PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""What a script in project mode has from the session: with these, it finds the programs and modules that this finds."""


def session_variables(env: BaseEnvironment) -> dict[str, str]:
    """Return the session's own values of `FROM_SESSION`, and its `PWD`; empty for what it has not set.

    Raises:
        TerminalError: The session could not be opened.
    """
    return {name: env.session_variable(name) for name in ("PWD", *FROM_SESSION)}


def script_command(
    argv: str, directory: str, allowed: Passthrough, session: Mapping[str, str], *, exports: bool = False
) -> str:
    """Return shell text that becomes a script, which sees what it may see.

    It travels over the shell's input, so that no value of what was allowed shows in a process list.

    Args:
        argv: Shell text: the interpreter, the script and its arguments.
        directory: What comes first on its PYTHONPATH.
        allowed: Variables that were allowed by name.
        session: Those of the session, see `session_variables`; in strict mode none.
        exports: Whether it also sees what the shell that it becomes exports, but for what is named as secrets are.
    """
    names = [name for name in FROM_SESSION if name in session and name != "PATH"]
    unset = "".join(f"unset {name}\n" for name in names if not session[name])
    export = exporting({name: session[name] for name in names if session[name]})
    path = f'PYTHONPATH={shlex.quote(directory)}"${{PYTHONPATH:+:$PYTHONPATH}}"\n'
    # That one is set already, like all that was allowed, and so goes on behind the directory.
    others = {name: value for name, value in allowed.values().items() if name != "PYTHONPATH" and name not in session}
    if exports:
        program = running_with_exports(others, argv, session.get("PATH", ""), allowed.names)
    else:
        program = running_clean_with(others, argv, session.get("PATH", ""))
    return unset + export + path + program
