"""Variables that scripts may see although their names would hold them back: by settings, or by a loaded skill."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

from environments.base import BaseEnvironment
from environments.errors import SettingsError

_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = "required_environment_variables"

_by_session: WeakKeyDictionary[BaseEnvironment, set[str]] = WeakKeyDictionary()


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
    checked = tuple(names)
    for name in checked:
        _check_name(name, "the passthrough list")
    _by_session.setdefault(env, set()).update(checked)
    return checked


def allowed_variables(env: BaseEnvironment) -> dict[str, str]:
    """Return the variables that scripts in `env` may see by name, with the values they have here."""
    names = {*env.settings.env_passthrough, *_by_session.get(env, ())}
    for name in names:
        _check_name(name, "terminal.env_passthrough")
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


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
    return tuple(_check_name(entry.get("name") if isinstance(entry, dict) else entry, path) for entry in entries)


def _check_name(name: object, where: str | Path) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingsError(f"{where}: {name!r} is not the name of a variable")
    return name
