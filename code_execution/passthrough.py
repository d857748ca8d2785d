"""Variables that a skill asks for, which are then handed on to what runs in its environment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from code_execution.settings import load_code_execution_settings
from environments.base import BaseEnvironment
from environments.errors import SettingsError, TerminalError
from environments.local_files import open_regular
from environments.secrets import is_protected
from environments.variables import check_names

FRONT_MATTER_LIMIT = 64 * 1024
"""Bytes that the front matter of a skill may have."""
MOST_NAMES = 100
_KEY = "required_environment_variables"
_FENCE = b"---"


def load_skill(path: str | Path, env: BaseEnvironment) -> tuple[str, ...]:
    """Allow scripts and commands in `env`, and in no other environment, the variables that a skill requires.

    Args:
        path: A SKILL.md whose YAML front matter may list `required_environment_variables`, each a name or a
            mapping with a `name`.
        env: The session that loaded the skill.

    Returns:
        The names that were allowed: those of the list that are set here.

    Raises:
        SettingsError: The file can't be read, or its front matter is not what it should be, or it asks for a variable
            that is not for a skill to choose, and the settings do not allow it by name.
    """
    names = required_variables(path)
    _refuse_protected(path, names, env)
    return env.passthrough.allow(name for name in names if name in os.environ)


def _refuse_protected(path: str | Path, names: Iterable[str], env: BaseEnvironment) -> None:
    protected = [name for name in names if is_protected(name)]
    if not protected:
        return
    allowed = {*load_code_execution_settings().skill_env_allowlist, *env.settings.env_passthrough}
    if refused := [name for name in protected if name not in allowed]:
        raise SettingsError(
            f"{path}: {_KEY} asks for {', '.join(refused)}, which is not for a skill to choose: it is a well-known "
            "service's, this package's own, or changes what runs. If the skill is to have it, add the name to "
            "code_execution.skill_env_allowlist in config.yaml"
        )


def required_variables(path: str | Path) -> tuple[str, ...]:
    """Return the names that a SKILL.md lists as `required_environment_variables`.

    Raises:
        SettingsError: The file can't be read, or its front matter is not what it should be.
    """
    text = _front_matter(Path(path))
    if not text.strip():
        return ()
    from environments.sources import read_mapping

    entries = read_mapping(text, f"{path}: the front matter between the --- lines").value(_KEY)
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise SettingsError(f"{path}: {_KEY} should be a list of names")
    if len(entries) > MOST_NAMES:
        raise SettingsError(f"{path}: {_KEY} has more than {MOST_NAMES} names")
    return check_names(str(path), (entry.get("name") if isinstance(entry, dict) else entry for entry in entries))


def _front_matter(path: Path) -> str:
    """Return what stands between the first line of a file and the next like it, if that is `---`; else nothing.

    Of the file no more is read than front matter may have.
    """
    try:
        with open_regular(path) as file:
            data = file.read(FRONT_MATTER_LIMIT + 1)
    except (OSError, TerminalError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    lines = data.split(b"\n")
    if lines[0].rstrip() != _FENCE:
        return ""
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        if len(data) > FRONT_MATTER_LIMIT:
            raise SettingsError(f"{path}: its front matter is longer than {FRONT_MATTER_LIMIT // 1024} KB")
        return ""
    try:
        return b"\n".join(lines[1:end]).decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
