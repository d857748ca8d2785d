"""Which variables a script sees: only what is known to be harmless, and what was allowed by name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from environments.owner import MARKER_VARIABLE

SAFE_NAMES = (
    "PATH", "HOME", "LANG", "LANGUAGE", "SHELL", "USER", "LOGNAME", "TERM", "COLORTERM", "TZ", "PWD", "OLDPWD", "SHLVL",
    "TMPDIR", "TMP", "TEMP", "HOSTNAME", "PYTHONPATH", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED", "PYTHONHASHSEED", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "EDITOR", "PAGER", "NO_COLOR", "COLUMNS",
    "LINES", "HERMES_HOME", MARKER_VARIABLE,
)  # fmt: skip
SAFE_PREFIXES = ("LC_", "CONDA_", "XDG_")
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "PASSWD", "AUTH")
"""A name that holds one of these, in any case, never passes unless it was allowed itself."""


def scrubbing(allowed: Mapping[str, str]) -> str:
    """Return shell text that leaves only what a script may see in the environment of what it starts.

    It travels over the shell's input, so that no value shows in a process list.

    Args:
        allowed: Variables that were allowed by name, with the values to give them.
    """
    secret = "|".join(f"*{_any_case(word)}*" for word in SECRET_WORDS)
    safe = "|".join([*SAFE_NAMES, *(f"{prefix}*" for prefix in SAFE_PREFIXES)])
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in allowed.items())
    return f"""\
if [ -n "${{BASH_VERSION-}}" ]; then names=$(compgen -e); \
else names=$(export -p | command -p sed -n 's/^export \\([A-Za-z_][A-Za-z0-9_]*\\).*/\\1/p'); fi
for name in $names; do
  case $name in {secret}) unset "$name" ;; {safe}) ;; *) unset "$name" ;; esac
done
{exports}"""


def _any_case(word: str) -> str:
    return "".join(f"[{letter}{letter.lower()}]" for letter in word)
