"""A task of a batch, as a line of JSON."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, TypeGuard

from environments.errors import TerminalError
from environments.plain_number import plain_number
from environments.validation import closest

TaskId = str | int | float
"""The id of a task. The number 0 and the text "0" are different ids; 1 and 1.0 are the same id."""
KEYS = ("id", "command", "script", "timeout", "files", "settings")
"""The fields of a task. A task for Python code may have others."""
_SHOWN = 50
"""Characters of an id in an error."""


class TaskError(TerminalError, ValueError):
    """A task is wrong. The message names the task and the remedy."""


@dataclass(frozen=True, slots=True)
class Task:
    """A command, a script, or input for Python code, for one environment."""

    id: TaskId
    """Text or a number, unique in the batch. A later run identifies the task by this id."""
    command: str | None = None
    """Shell text that `execute` runs."""
    script: str | None = None
    """Python source that `execute_code` runs, with the default tools."""
    timeout: float | None = None
    """Time limit in seconds, without the start of the environment; None is the limit of the batch."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Files to write first, by path. A relative path starts at the session's directory."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of `create_environment` that override those of the batch; `backend` selects another backend."""
    data: Mapping[str, object] = field(default_factory=dict)
    """All other fields of the line, for Python code."""

    @classmethod
    def of(cls, fields: object, *, has_work: bool = False) -> Self:
        """Return the task of a JSON object.

        Args:
            fields: The object, as a mapping.
            has_work: True if Python code works on the task: then a command is optional, and further fields are allowed.

        Raises:
            TaskError: A field is wrong.
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
        """Check the fields, and return the task. Arguments and errors are those of `of`."""
        type(self).of({key: getattr(self, key) for key in KEYS}, has_work=has_work)
        return self

    def to_line(self) -> str:
        """Return the task as a line of JSON with a newline. Raises TypeError if JSON cannot hold `data`."""
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


def is_task_id(value: object) -> TypeGuard[TaskId]:
    """Return True for non-empty text, and for a finite number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else value != ""


def _checked_id(fields: Mapping[str, object]) -> TaskId:
    name = fields.get("id")
    if "id" not in fields:
        raise TaskError('a task has no id; give it one, such as "id": "17"')
    if not is_task_id(name):
        raise TaskError(f'the id of a task is {name!r:.{_SHOWN}}; give it text or a number, such as "id": "17"')
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
    """Return the name of a value's type in JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = {"str": "text", "int": "a number", "float": "a number", "list": "a list", "dict": "an object"}
    return names.get(type(value).__name__, f"of type {type(value).__name__}")
