"""Which variables a script sees: only what is known to be harmless, and what was allowed by name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from environments.clean_environment import running_clean_with


def script_command(argv: Sequence[str], directory: str, allowed: Mapping[str, str]) -> str:
    """Return shell text that becomes a script, which sees what it may see.

    It travels over the shell's input, so that no value of what was allowed shows in a process list.

    Args:
        argv: The interpreter, the script and its arguments.
        directory: What comes first on its PYTHONPATH.
        allowed: Variables that were allowed by name, with the values to give them.
    """
    path = f'PYTHONPATH={shlex.quote(directory)}"${{PYTHONPATH:+:$PYTHONPATH}}"\n'
    # That one is set already, like all that was allowed, and so goes on behind the directory.
    others = {name: value for name, value in allowed.items() if name != "PYTHONPATH"}
    return path + running_clean_with(others, shlex.join(argv))
