"""One task of a batch, and the line it is written as."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from environments.errors import TerminalError
from environments.plain_number import plain_number
from environments.validation import closest

KEYS = ("id", "command", "script", "timeout", "files", "settings")
"""What a task's line may hold, but for the further fields of one that Python code works on."""
_SHOWN = 50
"""Characters of an id that are shown in an error."""


class TaskError(TerminalError, ValueError):
    """A task is not in order. The message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done in one environment."""

    id: str
    """Tells it from the others of its batch, also in a later run that goes on with the batch."""
    command: str | None = None
    """Shell text that `execute` runs."""
    script: str | None = None
    """Python source that `execute_code` runs, with the default tools."""
    timeout: float | None = None
    """Seconds that it may take, without the start of its environment; None is what the batch says."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Files that are written before, by path. A relative one is taken from the session's directory."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of its environment over those of the batch, as for `create_environment`; `backend` names another."""
    data: Mapping[str, object] = field(default_factory=dict)
    """All other fields of its line, for the Python code that works on it."""

    @classmethod
    def of(cls, fields: object, *, has_work: bool = False) -> Self:
        """Return the task that a JSON object, as a mapping, stands for.

        Args:
            fields: The object.
            has_work: Whether Python code works on it, so that it needs no command and may have any further fields.

        Raises:
            TaskError: It is not in order.
        """
        if not isinstance(fields, Mapping):
            raise TaskError(f"a task is an object with an id and a command or a script, and this is {_kind(fields)}")
        name = _checked_id(fields)
        further = {key: value for key, value in fields.items() if key not in KEYS}
        if further and not has_work:
            key = str(next(iter(further)))
            raise TaskError(f"a task has no field {key!r}{closest(key, KEYS)}; it may have: {', '.join(KEYS)}")
        command, script = _checked_text(fields, "command"), _checked_text(fields, "script")
        if not has_work and (command is None) == (script is None):
            number = "neither a command nor a script" if command is None else "both a command and a script"
            raise TaskError(f"task {name!r:.{_SHOWN}} has {number}; give it one of them")
        timeout = _checked_timeout(fields.get("timeout"))
        return cls(name, command, script, timeout, _checked_files(fields), _checked_settings(fields), further)

    @classmethod
    def of_line(cls, line: str | bytes, *, has_work: bool = False) -> Self:
        """Return the task of a line of JSON. Arguments and errors are those of `of`."""
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TaskError(f"it is not valid JSON: {error}") from None
        return cls.of(fields, has_work=has_work)

    def checked(self, *, has_work: bool = False) -> Self:
        """Return itself, if what it holds is in order. Arguments and errors are those of `of`."""
        type(self).of({key: getattr(self, key) for key in KEYS}, has_work=has_work)
        return self

    def to_line(self) -> str:
        """Return it as one line of JSON, with its newline. Raises TypeError if `data` holds what JSON does not."""
        files = {
            path: text if isinstance(text, str) else {"base64": base64.b64encode(text).decode()}
            for path, text in self.files.items()
        }
        known = {
            "id": self.id,
            "command": self.command,
            "script": self.script,
            "timeout": self.timeout,
            "files": files or None,
            "settings": dict(self.settings) or None,
        }
        fields = {key: value for key, value in known.items() if value is not None}
        return json.dumps({**fields, **self.data}, separators=(",", ":")) + "\n"


def _checked_id(fields: Mapping[str, object]) -> str:
    name = fields.get("id")
    if "id" not in fields:
        raise TaskError('a task has no id; give it one, such as "id": "17"')
    if not isinstance(name, str) or not name:
        raise TaskError(f'the id of a task is {name!r:.{_SHOWN}}; give it text, such as "id": "17"')
    return name


def _checked_text(fields: Mapping[str, object], key: str) -> str | None:
    text = fields.get(key)
    if text is not None and not isinstance(text, str):
        raise TaskError(f"{key} is {_kind(text)}; it should be text")
    if text is not None:
        _check_sendable(key, text)
    return text


def _check_sendable(called: str, text: str) -> None:
    if "\0" in text:
        raise TaskError(f"{called} holds a NUL character, which no shell can take; leave it out")
    _check_bytes(called, text)


def _check_bytes(called: str, text: str) -> None:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise TaskError(f"{called} holds half of a character, {half!a}, for which there are no bytes") from None


def _checked_timeout(timeout: object) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TaskError(f"timeout is {_kind(timeout)}; it should be a number of seconds")
    if not timeout > 0:
        raise TaskError(f"timeout is {plain_number(timeout)} s; it should be greater than 0")
    return float(timeout)


def _checked_files(fields: Mapping[str, object]) -> dict[str, str | bytes]:
    files = fields.get("files") or {}
    if not isinstance(files, Mapping):
        raise TaskError(f"files is {_kind(files)}; it should be an object of paths and texts")
    return {str(path): _checked_contents(str(path), contents) for path, contents in files.items()}


def _checked_contents(path: str, contents: object) -> str | bytes:
    if not path:
        raise TaskError("files has an empty path; give each file one")
    _check_sendable(f"the path {path!r} of files", path)
    if isinstance(contents, str):
        _check_bytes(f"files[{path!r}]", contents)
        return contents
    if isinstance(contents, bytes):
        return contents
    if isinstance(contents, Mapping) and contents.keys() == {"base64"} and isinstance(contents["base64"], str):
        try:
            return base64.b64decode(contents["base64"], validate=True)
        except (ValueError, binascii.Error):
            raise TaskError(f"files[{path!r}] is not valid base64") from None
    raise TaskError(f'files[{path!r}] is {_kind(contents)}; it should be text, or {{"base64": "..."}} for bytes')


def _checked_settings(fields: Mapping[str, object]) -> dict[str, object]:
    settings = fields.get("settings") or {}
    if not isinstance(settings, Mapping):
        raise TaskError(f"settings is {_kind(settings)}; it should be an object of names and values")
    return {str(name): value for name, value in settings.items()}


def _kind(value: object) -> str:
    """Return what a value is, in the words of JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = {"str": "text", "int": "a number", "float": "a number", "list": "a list", "dict": "an object"}
    return names.get(type(value).__name__, f"of type {type(value).__name__}")
