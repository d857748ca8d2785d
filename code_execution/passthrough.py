"""Variables that scripts may see although their names would hold them back: by settings, or by a loaded skill."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from environments.base import BaseEnvironment
from environments.errors import SettingsError
from environments.variables import check_names

_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
_KEY = "required_environment_variables"


def load_skill(path: str | Path, env: BaseEnvironment) -> tuple[str, ...]:
    """Allow scripts in `env`, and in no other environment, the variables that a skill requires.

    Args:
        path: A SKILL.md whose YAML front matter may list `required_environment_variables`, each a name or a
            mapping with a `name`.
        env: The session that loaded the skill.

    Returns:
        The names that were allowed: those of the list that are set here.

    Raises:
        SettingsError: The file can't be read, or its front matter is not what it should be.
    """
    return allow((name for name in required_variables(path) if name in os.environ), env)


def allow(names: Iterable[str], env: BaseEnvironment) -> tuple[str, ...]:
    """Allow scripts in `env` variables of this process by name, and return the names.

    Raises:
        SettingsError: A name can't be a variable's.
    """
    return env.passthrough.allow(names)


def allowed_variables(env: BaseEnvironment) -> dict[str, str]:
    """Return the variables that scripts in `env` may see by name, with the values they have here."""
    return env.passthrough.values()


def required_variables(path: str | Path) -> tuple[str, ...]:
    """Return the names that a SKILL.md lists as `required_environment_variables`.

    Raises:
        SettingsError: The file can't be read, or its front matter is not what it should be.
    """
    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    found = _FRONT_MATTER.match(text.replace("\r\n", "\n"))
    if not found:
        return ()
    try:
        front_matter = yaml.safe_load(found[1])
    except yaml.YAMLError:
        raise SettingsError(f"{path}: the front matter between the --- lines is not valid YAML") from None
    entries = front_matter.get(_KEY) if isinstance(front_matter, dict) else None
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise SettingsError(f"{path}: {_KEY} should be a list of names")
    return check_names(str(path), (entry.get("name") if isinstance(entry, dict) else entry for entry in entries))
