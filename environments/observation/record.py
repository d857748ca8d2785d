"""The record of a run: a file with one JSON object a line for each start, event and end, see docs/records.md."""

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
from environments.observation.events import Event, Facts, Observer, Operation
from environments.output import BoundedCapture, CapturedText, Channel, Sink, byte_size
from environments.redaction import Redactor

if TYPE_CHECKING:
    from environments.observation.observed import Observation

VERSION = 1
"""Version of the format. Incremented when a key changes its meaning."""

MOST_BYTES = 64 * 1024
"""Maximum UTF-8 bytes of a text: half from the beginning, half from the end."""
MOST_IN_ALL = 4 * MOST_BYTES
"""Maximum bytes of all texts of a value, such as the arguments of a tool. The last texts are dropped."""
MOST_ENTRIES = 1000
"""Maximum entries of a list or an object."""
MOST_ENTRIES_IN_ALL = 5000
"""Maximum entries of all lists and objects of a value."""
MOST_CUTS = 100
"""Maximum cuts listed in a line."""
MOST_BITS = 256
"""Maximum bits of a whole number. Python refuses to print much longer numbers."""
MOST_LEVELS = 50
"""Maximum depth of nested lists and objects."""
LONGEST_NAME = 120
"""Maximum characters of an operation's name."""

_log = logger(__name__)
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Does not follow a link, and does not wait for a pipe's reader."""


# The lines.


class Recorder(Observer):
    """Writes operations and events to a file. One recorder for each file and process, see `at`."""

    def __init__(self, path: Path) -> None:
        self._file = RecordFile(path)
        self._labels: WeakKeyDictionary[Observation, str] = WeakKeyDictionary()
        self._counts: dict[str, itertools.count[int]] = {}
        self._begin_run()

    @staticmethod
    def at(path: str | os.PathLike[str]) -> Recorder:
        """Return the recorder of a file, created if missing.

        Args:
            path: The file; `~` is the home of this machine's user.

        Raises:
            SettingsError: The file cannot be written, is a link or not a regular file, or belongs to another user.
        """
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise SettingsError(f"record is {path!r}; give the path of a file")
        place = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - does not follow links
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
        if self._pid != os.getpid():  # a forked child begins a run of its own
            self._begin_run()
        mark = f"{self._run}-{next(self._ids)}"
        fitting = Fitting(operation.redactor())
        facts = fitting.facts(operation.facts())
        head = {"id": mark, "parent": outer, "kind": operation.kind, "name": fitting.name(operation.name)}
        where = self._where(operation.environment) | _task(operation.batch_task)
        self._write("begin", operation.began_at, **head, **where, **facts)
        return mark

    def happened(self, event: Event, mark: object | None) -> None:
        environment = event.environment
        fitting = Fitting(environment.redactor({}) if environment else Redactor.of({}))
        facts = fitting.facts(event.facts)
        where = {} if event.name == "note" else self._where(environment)
        task = _task(environment.batch_task if environment else None)
        self._write(event.name, time.time(), id=mark, **where, **task, **facts)

    def ended(self, operation: Operation, mark: object) -> None:
        fitting = Fitting(operation.redactor())
        ending = fitting.facts(operation.ending)
        ending = {key: round(value, 6) if isinstance(value, float) else value for key, value in ending.items()}
        if ending.get("omitted_bytes"):
            ending["omitted_at"] = fitting.gaps["output"]
        at = operation.began_at + operation.seconds  # immune to changes of the clock
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
        except UnicodeEncodeError:  # a surrogate for a byte that is not UTF-8
            data = json.dumps(line, allow_nan=False, separators=(",", ":")).encode()
        self._file.append(data + b"\n")


_lock = threading.Lock()
_known: WeakValueDictionary[Path, Recorder] = WeakValueDictionary()


def _renew_lock() -> None:
    """Replace the lock in a forked child, where the thread holding the lock does not run."""
    global _lock  # noqa: PLW0603 - a lock cannot be released for another thread
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _task(batch_task: str | float | None) -> dict[str, str | float]:
    return {} if batch_task is None else {"batch_task": batch_task}


def _program() -> str:
    """Return this process's name and subcommand. Other arguments may hold secrets."""
    started = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path("python")
    name = started.parent.name if started.name == "__main__.py" else started.name
    subcommand = sys.argv[1] if name in ("hermes-env", "hermes_env") and len(sys.argv) > 1 else ""
    return f"{name} {subcommand}" if subcommand.isalpha() else name


# The file.


class RecordFile:
    """An append-only file of lines, opened for each line: no descriptor stays open or is shared by forks.

    Lines of several threads and processes do not mix: each is a single write to the file's end.
    """

    def __init__(self, path: Path) -> None:
        """Create the file, readable by this user only, unless it exists.

        Raises:
            SettingsError: The file cannot be written, or is not suitable for a record.
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
        """Append a line with its line break. The first failure is logged; none is raised."""
        try:
            descriptor = self._opened()
            try:
                # After a torn line, such as on a full disk, the next begins with a line break.
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
    """An output cut by an `OutputCopy` only."""


class OutputCopy(Sink):
    """A sink that forwards the output of a background process, and keeps its beginning and end."""

    def __init__(self) -> None:
        self._captures: dict[Channel, BoundedCapture] = {}
        self._size: int | None = None

    def into(self, sink: Sink) -> Self:
        """Forward the output to a sink, and return this sink."""
        self._sink, self._size = sink, 0
        return self

    def add(self, channel: Channel, data: bytes) -> None:
        self._size = (self._size or 0) + len(data)
        self._captures.setdefault(channel, BoundedCapture(MOST_BYTES)).add(data)
        self._sink.add(channel, data)

    def facts(self) -> dict[str, object]:
        """Return the output by the keys of docs/records.md. Called once.

        All values are None for a backend without copies.
        """
        texts = {channel: Copied(*capture.text()) for channel, capture in self._captures.items()}
        return {
            "output": texts.get(Channel.STDOUT),
            "stderr": texts.get(Channel.STDERR),
            "output_bytes": self._size,
        }


class Fitting:
    """Fits values into a line: without secrets, and cut to the limits. Lists the cuts.

    Args:
        redactor: Removes the secrets.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.cut: dict[str, dict[str, int]] = {}
        """Cuts by key."""
        self.gaps: dict[str, int] = {}
        """Index of the cut of each output; its length if uncut."""
        self._room, self._entries = MOST_IN_ALL, MOST_ENTRIES_IN_ALL

    def facts(self, facts: Facts) -> dict[str, object]:
        """Return the known values, with the `cut` of the line."""
        fitting = {key: self.value(key, value) for key, value in facts.items() if value is not None}
        return {**fitting, "cut": self.cut} if self.cut else fitting

    def value(self, key: str, value: object) -> object:
        """Return the fitted value of a key."""
        if isinstance(value, CapturedText):
            text = self._captured(key, value)
            if isinstance(value, Copied) and value.omitted_bytes:
                already = self.cut.get(key, {"bytes": 0})["bytes"]
                self._note(key, bytes=value.omitted_bytes + already, at=self.gaps[key])
            return text
        self._room, self._entries = MOST_IN_ALL, MOST_ENTRIES_IN_ALL
        return self._plain(key, value, 0)

    def name(self, text: str) -> str:
        """Return a name: the first line of a text, with spaces for unprintable characters."""
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
        """Return how many of `size` entries are kept."""
        most = min(size, MOST_ENTRIES, self._entries)
        self._entries -= most
        if size > most:
            self._note(key, entries=size - most)
        return most


def _number(value: float | None) -> object:
    """Return a number, a boolean or None; text for a number that JSON cannot hold."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _beginning(text: str, size: int) -> str:
    """Return the first bytes of a text, or slightly fewer, without a split character."""
    head = text[:size]
    return head if head.isascii() else head[: len(head.encode("utf-8", "replace")[:size].decode("utf-8", "ignore"))]


def _end(text: str, size: int) -> str:
    """Return the last bytes of a text, likewise."""
    return _beginning(text[: -size - 1 : -1], size)[::-1]


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return type(value).__name__
