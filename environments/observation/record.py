"""The record of a run: a file with one JSON object a line for each begin, event and end, see docs/records.md."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import os
import socket
import stat
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from environments.errors import SettingsError
from environments.log import logger
from environments.observation.events import Event, Facts, Operation
from environments.output import BoundedCapture, CapturedText, Channel, Sink, byte_size
from environments.redaction import Redactor

if TYPE_CHECKING:
    from environments.observation.observed import Observation

VERSION = 1
"""Of the format. It changes when a key gets another meaning."""

MOST_BYTES = 64 * 1024
"""Bytes of UTF-8 that are kept of one text: half of them from its beginning, half from its end."""
MOST_IN_ALL = 4 * MOST_BYTES
"""Bytes that are kept of all texts of one value, such as the arguments of a tool. The last texts are left out."""
MOST_ENTRIES = 1000
"""Entries that are kept of a list or an object."""
MOST_ENTRIES_IN_ALL = 5000
"""Entries that are kept of all lists and objects of one value."""
MOST_CUTS = 100
"""Cuts that are listed for one line."""
MOST_BITS = 256
"""Bits of a whole number that is kept as one. Python itself writes none that is much longer."""
MOST_LEVELS = 50
"""Levels of lists and objects in each other that are kept."""
LONGEST_NAME = 120
"""Characters of an operation's name."""

_log = logger(__name__)
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Neither is a link followed, nor a pipe's reader waited for."""


# The lines.


class Recorder:
    """Writes operations and events into one file, see `Observer`. There is one for each file and process, see `at`."""

    def __init__(self, path: Path) -> None:
        self._file = RecordFile(path)
        self._labels: WeakKeyDictionary[Observation, str] = WeakKeyDictionary()
        self._counts: dict[str, itertools.count[int]] = {}
        self._begin_run()

    @staticmethod
    def at(path: str | os.PathLike[str]) -> Recorder:
        """Return the recorder of a file, which is made unless it exists.

        Args:
            path: The file; `~` is the home of this machine's user.

        Raises:
            SettingsError: It cannot be written to, is a link or no regular file, or belongs to another user.
        """
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise SettingsError(f"record is {path!r}; give the path of a file")
        place = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - a link is not to be followed
        with _lock:
            found = _known.get(place)
            if found is None:
                found = _known[place] = Recorder(place)
            return found

    def _begin_run(self) -> None:
        self._pid = os.getpid()
        self._run = os.urandom(4).hex()
        self._ids = itertools.count(1)
        self._write("run", time.time(), version=VERSION, program=_program(), pid=self._pid, host=socket.gethostname())

    def begun(self, operation: Operation, outer: object | None) -> str:
        """Write a begin, and return the operation's id, see `Observer`."""
        if self._pid != os.getpid():  # a fork's operations are a run of their own
            self._begin_run()
        mark = f"{self._run}-{next(self._ids)}"
        fitting = Fitting(operation.redactor())
        facts = fitting.facts(operation.facts())
        head = {"id": mark, "parent": outer, "kind": operation.kind, "name": fitting.name(operation.name)}
        where = self._where(operation.environment) | _task(operation.batch_task)
        self._write("begin", operation.began_at, **head, **where, **facts)
        return mark

    def happened(self, event: Event, mark: object | None) -> None:
        """Write an event, see `Observer`."""
        environment = event.environment
        fitting = Fitting(environment.redactor({}) if environment else Redactor.of({}))
        facts = fitting.facts(event.facts)
        where = {} if event.name == "note" else self._where(environment)
        task = _task(environment.batch_task if environment else None)
        self._write(event.name, time.time(), id=mark, **where, **task, **facts)

    def ended(self, operation: Operation, mark: object) -> None:
        """Write an end, see `Observer`."""
        fitting = Fitting(operation.redactor())
        ending = fitting.facts(operation.ending)
        ending = {key: round(value, 6) if isinstance(value, float) else value for key, value in ending.items()}
        if ending.get("omitted_bytes"):
            ending["omitted_at"] = fitting.gaps["output"]
        at = operation.began_at + operation.seconds  # a clock that is set meanwhile does no harm
        head = {"id": mark, "kind": operation.kind, **_task(operation.batch_task)}
        self._write("end", at, **head, seconds=round(operation.seconds, 6), **ending)

    def _where(self, environment: Observation | None) -> dict[str, str]:
        if environment is None:
            return {}
        label = self._labels.get(environment)
        if label is None:
            count = self._counts.setdefault(environment.backend, itertools.count(1))
            label = self._labels.setdefault(environment, f"{environment.backend} {next(count)}")
        return {"environment": label, "backend": environment.backend, "task": environment.task_id}

    def _write(self, event: str, at: float, **rest: object) -> None:
        line = {"event": event, "run": self._run, "time": round(at, 6), **rest}
        try:
            data = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # a surrogate of a byte that was no UTF-8
            data = json.dumps(line, allow_nan=False, separators=(",", ":")).encode()
        self._file.append(data + b"\n")


_lock = threading.Lock()
_known: WeakValueDictionary[Path, Recorder] = WeakValueDictionary()


def _renew_lock() -> None:
    """Replace the lock in a forked child, where the thread that held it does not run."""
    global _lock  # noqa: PLW0603 - a lock cannot be released for another thread
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _task(batch_task: str | float | None) -> dict[str, str | float]:
    return {} if batch_task is None else {"batch_task": batch_task}


def _program() -> str:
    """Return this process's name and subcommand; its other arguments may hold anything."""
    started = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path("python")
    name = started.parent.name if started.name == "__main__.py" else started.name
    subcommand = sys.argv[1] if name in ("hermes-env", "hermes_env") and len(sys.argv) > 1 else ""
    return f"{name} {subcommand}" if subcommand.isalpha() else name


# The file.


class RecordFile:
    """A file that lines are appended to. It is opened for each, so that nothing stays open and a fork shares nothing.

    Lines of several threads and processes do not mix: each is one write to the file's end.
    """

    def __init__(self, path: Path) -> None:
        """Make the file, for this user alone, unless it exists.

        Raises:
            SettingsError: It cannot be written to, or is not one to write a record to.
        """
        self._path = path
        self._has_failed = self._is_torn = False
        try:
            os.close(self._opened(os.O_CREAT))
        except OSError as error:
            why = "it is a link" if error.errno == errno.ELOOP else error.strerror
            raise SettingsError(f"the record {path} cannot be written: {why}; give the path of another file") from None

    def _opened(self, more: int = 0) -> int:
        descriptor = os.open(self._path, _APPEND | more, 0o600)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is no regular file")
            if status.st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it belongs to another user")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def append(self, line: bytes) -> None:
        """Append a line, with its end. The first failure is logged; none is raised."""
        try:
            descriptor = self._opened()
            try:
                # After a line that lacks its end, such as on a full disk, the next one begins on a line of its own.
                data = b"\n" + line if self._is_torn else line
                written = os.write(descriptor, data)
                self._is_torn = written < len(data)
                if self._is_torn:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                _log.warning("the record %s cannot be written any more, and has gaps: %s", self._path, error.strerror)


# The texts.


class Copied(CapturedText):
    """An output that was cut by an `OutputCopy`, and by nothing else."""


class OutputCopy:
    """A sink that hands the output of a background process on, and keeps its beginning and its end."""

    def __init__(self) -> None:
        self._captures: dict[Channel, BoundedCapture] = {}
        self._size: int | None = None

    def into(self, sink: Sink) -> Self:
        """Hand the output on to a sink, and return it."""
        self._sink, self._size = sink, 0
        return self

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        self._size = (self._size or 0) + len(data)
        self._captures.setdefault(channel, BoundedCapture(MOST_BYTES)).add(data)
        self._sink.add(channel, data)

    def facts(self) -> dict[str, object]:
        """Return the output by the keys of docs/records.md. Called once.

        A backend that makes no copies leaves all of them None.
        """
        texts = {channel: Copied(*capture.text()) for channel, capture in self._captures.items()}
        return {
            "output": texts.get(Channel.STDOUT),
            "stderr": texts.get(Channel.STDERR),
            "output_bytes": self._size,
        }


class Fitting:
    """Makes the values of one line fit: without secrets, and none longer than is kept. Lists the cuts.

    Args:
        redactor: Removes the secrets.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.cut: dict[str, dict[str, int]] = {}
        """The missing part of each text, by its key."""
        self.gaps: dict[str, int] = {}
        """The index of the gap of each output; its length, if nothing is missing."""
        self._room, self._entries = MOST_IN_ALL, MOST_ENTRIES_IN_ALL

    def facts(self, facts: Facts) -> dict[str, object]:
        """Return the values that are known, and with them the `cut` of the line."""
        fitting = {key: self.value(key, value) for key, value in facts.items() if value is not None}
        return {**fitting, "cut": self.cut} if self.cut else fitting

    def value(self, key: str, value: object) -> object:
        """Return the value of a key."""
        if isinstance(value, CapturedText):
            text = self._captured(key, value)
            if isinstance(value, Copied) and value.omitted_bytes:
                already = self.cut.get(key, {"bytes": 0})["bytes"]
                self._note(key, bytes=value.omitted_bytes + already, at=self.gaps[key])
            return text
        self._room, self._entries = MOST_IN_ALL, MOST_ENTRIES_IN_ALL
        return self._plain(key, value, 0)

    def name(self, text: str) -> str:
        """Return a name: the first line of a text, with spaces in place of what is not printable."""
        shown = self._redactor.text(_beginning(text, MOST_BYTES // 2), cut_behind=len(text) > MOST_BYTES // 2)
        line = next((line for line in shown.splitlines() if line.strip()), "").strip()
        line = "".join(sign if sign.isprintable() else " " for sign in line)
        return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"

    def _captured(self, key: str, captured: CapturedText) -> str:
        text, gap = captured.text, captured.omitted_bytes
        if not gap and byte_size(text) <= MOST_BYTES:
            text = self._redactor.text(text)
            self.gaps[key] = len(text)
            return text
        before, behind = (text[: captured.omitted_at], text[captured.omitted_at :]) if gap else (text, text)
        head, tail = _beginning(before, MOST_BYTES // 2), _end(behind, MOST_BYTES // 2)
        missing = byte_size(text) - byte_size(head) - byte_size(tail)
        head, tail = self._redactor.text(head, cut_behind=True), self._redactor.text(tail, cut_before=True)
        if missing:
            self._note(key, bytes=missing, at=len(head))
        self.gaps[key] = len(head)
        return head + tail

    def _note(self, key: str, **missing: int) -> None:
        if len(self.cut) < MOST_CUTS or key in self.cut:
            self.cut[key] = missing

    def _plain(self, key: str, value: object, level: int) -> object:
        if value is None or isinstance(value, int | float):
            return _number(value)
        if level > MOST_LEVELS:
            self._note(key, entries=1)
            return None
        if isinstance(value, dict):
            kept = itertools.islice(value.items(), self._kept_entries(key, len(value)))
            shown = ((self.name(str(name)), item) for name, item in kept)
            return {name: self._plain(f"{key}.{name}", item, level + 1) for name, item in shown}
        if isinstance(value, list | tuple | set | frozenset):
            kept = itertools.islice(value, self._kept_entries(key, len(value)))
            return [self._plain(f"{key}.{place}", item, level + 1) for place, item in enumerate(kept)]
        return self._text(key, value if isinstance(value, str) else _shown(value))

    def _text(self, key: str, text: str) -> str:
        size = byte_size(text)
        if size > self._room and size <= MOST_BYTES:
            self._note(key, bytes=size, at=0)
            return ""
        fitting = self._captured(key, CapturedText(text, 0, len(text)))
        self._room = max(0, self._room - byte_size(fitting))
        return fitting

    def _kept_entries(self, key: str, size: int) -> int:
        """Return how many of so many entries are kept."""
        most = min(size, MOST_ENTRIES, self._entries)
        self._entries -= most
        if size > most:
            self._note(key, entries=size - most)
        return most


def _number(value: float | None) -> object:
    """Return a number, a boolean or None, or a text in place of a number that JSON cannot hold."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _beginning(text: str, size: int) -> str:
    """Return the first bytes of a text, or a little less, so that no character is cut."""
    head = text[:size]
    return head if head.isascii() else head[: len(head.encode("utf-8", "replace")[:size].decode("utf-8", "ignore"))]


def _end(text: str, size: int) -> str:
    """Return the last bytes of a text in the same way."""
    return _beginning(text[: -size - 1 : -1], size)[::-1]


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return type(value).__name__
