"""Environment variables required by a skill, passed through to scripts and commands of the environment."""

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
"""Limit in bytes for a skill's front matter."""
MOST_NAMES = 100
_KEY = "required_environment_variables"
_FENCE = b"---"


def load_skill(path: str | Path, env: BaseEnvironment) -> tuple[str, ...]:
    """Pass the variables required by a skill through to scripts and commands in `env`, and in no other environment.

    Args:
        path: A SKILL.md whose YAML front matter may list `required_environment_variables`, each a name or a mapping
            with a `name`.
        env: Environment of the session that loaded the skill.

    Returns:
        The allowed names: those of the list that are set here.

    Raises:
        SettingsError: The file can't be read, the front matter is invalid, or the list has a protected variable that
            the settings do not allow by name.
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
            f"{path}: {_KEY} asks for {', '.join(refused)}, which skills may not choose: the key of a well-known "
            "service, a variable of this package, or one that changes which programs run. To allow it, add the name to "
            "code_execution.skill_env_allowlist in config.yaml"
        )


def required_variables(path: str | Path) -> tuple[str, ...]:
    """Return the names listed as `required_environment_variables` in a SKILL.md.

    Raises:
        SettingsError: The file can't be read, or the front matter is invalid.
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
    """Return the text between two lines `---`, if the first line of the file is such a line; else "".

    Reads no more of the file than front matter may have.
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
