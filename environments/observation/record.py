"""The record of a run: one JSON object a line for whatever begins and ends, see docs/records.md."""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from environments.errors import SettingsError
from environments.observation.fitting import Fitting
from environments.observation.observation import Observation, Redacts
from environments.observation.record_file import RecordFile

if TYPE_CHECKING:
    from environments.observation.watched import Watched

VERSION = 1
"""Of the format. It changes when something gets another meaning."""

_lock = threading.Lock()
_known: WeakValueDictionary[Path, Recorder] = WeakValueDictionary()


class Recorder:
    """Writes what it looks at into one file. There is one for each file and process, see `at`."""

    def __init__(self, path: Path) -> None:
        self._file = RecordFile(path)
        self._labels: WeakKeyDictionary[Watched, str] = WeakKeyDictionary()
        self._counts: dict[str, itertools.count[int]] = {}
        self._begin_run()

    @staticmethod
    def at(path: str | os.PathLike[str]) -> Recorder:
        """Return the recorder of a file, which is made unless it is there.

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

    def begun(self, seen: Observation, outer: object | None) -> str:
        """Write what begins, and return its id, see `Observer`."""
        if self._pid != os.getpid():  # a fork: what it does is a run of its own
            self._begin_run()
        name = f"{self._run}-{next(self._ids)}"
        fitting = Fitting(_redactor(seen))
        facts = {key: fitting.value(key, value) for key, value in seen.facts().items() if value is not None}
        head = {"id": name, "parent": outer, "kind": seen.kind, "name": fitting.name(seen.name)}
        self._write("begin", seen.began_at, **head, **self._place(seen), **facts, **_cut(fitting))
        return name

    def active(self, mark: object) -> AbstractContextManager[object]:
        """Return nothing that does anything, see `Observer`."""
        return nullcontext()

    def noted(self, mark: object | None, seen: Observation, text: str, done: int | None, total: int | None) -> None:
        """Write how far something is, see `Observer`."""
        sizes = {key: value for key, value in (("done", done), ("total", total)) if value is not None}
        self._write("note", time.time(), id=mark, text=Fitting(_redactor(seen)).value("text", text), **sizes)

    def ended(self, mark: object, seen: Observation) -> None:
        """Write what has ended, see `Observer`."""
        fitting = Fitting(_redactor(seen))
        ready = {key: _rounded(fitting.value(key, value)) for key, value in seen.ending.items() if value is not None}
        if ready.get("omitted_bytes"):
            ready["omitted_at"] = fitting.gaps["output"]
        at = seen.began_at + seen.seconds  # a clock that is set meanwhile does no harm
        self._write("end", at, id=mark, kind=seen.kind, seconds=round(seen.seconds, 6), **ready, **_cut(fitting))

    def _place(self, seen: Observation) -> dict[str, str]:
        place = seen.place
        if place is None:
            return {}
        label = self._labels.get(place)
        if label is None:
            counts = self._counts.setdefault(place.backend, itertools.count(1))
            label = self._labels.setdefault(place, f"{place.backend} {next(counts)}")
        return {"environment": label, "backend": place.backend, "task": place.task_id}

    def _write(self, event: str, at: float, **rest: object) -> None:
        line = {"event": event, "run": self._run, "time": round(at, 6), **rest}
        try:
            data = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # of what was no UTF-8 where it came from
            data = json.dumps(line, allow_nan=False, separators=(",", ":")).encode()
        self._file.add(data + b"\n")


def _forget() -> None:
    """Leave to the parent what is the parent's: in a fork its thread that holds the lock is not there."""
    global _lock  # noqa: PLW0603 - a lock cannot be given back for another thread
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


class _NoSecrets:
    """What takes nothing out."""

    def text(self, text: str, *, cut_before: bool = False, cut_behind: bool = False) -> str:
        """Return the text."""
        return text


def _redactor(seen: Observation) -> Redacts:
    return seen.redactor() or _NoSecrets()


def _cut(fitting: Fitting) -> dict[str, object]:
    return {"cut": fitting.cut} if fitting.cut else {}


def _rounded(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


def _program() -> str:
    """Return what this process is called and which subcommand was asked for; other arguments may hold anything."""
    started = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path("python")
    name = started.parent.name if started.name == "__main__.py" else started.name
    subcommand = sys.argv[1] if name in ("hermes-env", "hermes_env") and len(sys.argv) > 1 else ""
    return f"{name} {subcommand}" if subcommand.isalpha() else name
