"""Where the tasks of a batch come from: a file of lines, or anything that can be gone through."""

from __future__ import annotations

import os
import select
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from environments.errors import TerminalError
from hermes_env.batch.kinds import Kinds
from hermes_env.batch.task import Task, TaskError

Item = Task | Mapping[str, object]
Tasks = str | os.PathLike[str] | Iterable[Item]
"""The path of a file with a JSON object a line, `-` for standard input, or tasks."""
_PIECE = 256 * 1024
"""Bytes that are read at a time."""
_IN_MEMORY = 16 * 1024 * 1024
"""Bytes of standard input, or of a pipe, that need no file."""
_LOOK = 0.1
"""Seconds between looks whether it is still waited for."""


class Source:
    """The tasks of a batch.

    Those that are all there already are checked at once, so that nothing runs if one is not in order; of a file no more
    than their ids stays in memory. Others, such as those of a generator, are checked as they come.

    Args:
        tasks: What was given.
        kinds: Which environments there may be.
        has_work: Whether Python code works on the tasks, see `Task.of`.
        is_unwanted: Whether standard input, or a pipe, which may be long in coming, is not to be waited for any more.

    Raises:
        TaskError: One is not in order. It says which.
        TerminalError: The file cannot be read.
        TypeError: It is neither a path nor can it be gone through.
    """

    def __init__(
        self, tasks: Tasks, kinds: Kinds, *, has_work: bool, is_unwanted: Callable[[], bool] = lambda: False
    ) -> None:
        self._kinds = kinds
        self._has_work = has_work
        self._file: BinaryIO | None = None
        self._name = ""
        self._items: Iterable[Item] = ()
        self.ids: Collection[str] | None = None
        """The ids of all tasks; None where they are not known."""
        self.total: int | None = None
        """How many there are; None where that is not known."""
        self.is_cut_off = False
        """Whether that was left before its end, so that these are not the tasks."""
        self._is_unwanted = is_unwanted
        if isinstance(tasks, str | os.PathLike):
            self._name = "standard input" if tasks == "-" else os.fspath(tasks)
            self._file = self._opened(tasks)
        elif isinstance(tasks, Iterable) and not isinstance(tasks, bytes | Mapping):
            self._items = tasks
        else:
            raise TypeError(f"tasks is of type {type(tasks).__name__}; give the path of a file, or a list of tasks")
        if (self._file and not self.is_cut_off) or isinstance(tasks, Sequence):
            self._check()

    def _opened(self, path: str | os.PathLike[str]) -> BinaryIO:
        try:
            if path == "-":
                if sys.stdin is None:
                    raise TerminalError("standard input is closed; give a file of tasks, or send them there")
                return self._kept(sys.stdin.fileno())
            file = Path(path).open("rb")  # noqa: SIM115
            if file.seekable():
                return file
            with file:  # a pipe, as a shell has for `<(...)`
                return self._kept(file.fileno())
        except OSError as error:
            raise self._unreadable(error) from error

    def _kept(self, source: int) -> BinaryIO:
        """Return all that comes, as it is gone through more than once."""
        kept: BinaryIO = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # type: ignore[assignment]  # noqa: SIM115
        while not self._is_unwanted():
            if select.select([source], [], [], _LOOK)[0]:
                if not (piece := os.read(source, _PIECE)):
                    return kept
                kept.write(piece)
        self.is_cut_off = True
        return kept

    def _check(self) -> None:
        try:
            self.ids = {task.id for task in self._checked()}
            self.total = len(self.ids)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Task]:
        """Go through the tasks. Raises TaskError for one that is not in order."""
        if self.ids is None:
            yield from self._checked()
        else:
            yield from (self._task(item, where) for where, item in self._numbered())

    def _checked(self) -> Iterator[Task]:
        seen: set[str] = set()
        for where, item in self._numbered():
            task = self._task(item, where)
            if task.id in seen:
                raise TaskError(f"{where}: a task before it has the id {task.id!r:.50}, too; give each one of its own")
            seen.add(task.id)
            try:
                self._kinds.of(task)
            except TaskError as error:
                raise TaskError(f"{where}: {error}") from error
            yield task

    def _task(self, item: Item | bytes, where: str) -> Task:
        try:
            if isinstance(item, bytes):
                return Task.of_line(item, has_work=self._has_work)
            if isinstance(item, Task):
                return item.checked(has_work=self._has_work)
            return Task.of(item, has_work=self._has_work)
        except TaskError as error:
            raise TaskError(f"{where}: {error}") from None

    def _numbered(self) -> Iterator[tuple[str, Item | bytes]]:
        if self._file is None:
            yield from ((f"task {number}", item) for number, item in enumerate(self._items, 1))
            return
        try:
            self._file.seek(0)
            for number, line in enumerate(self._file, 1):
                if line.strip():
                    yield f"{self._name}, line {number}", line
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> TerminalError:
        return TerminalError(f"cannot read the tasks in {self._name}: {error.strerror}")

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file:
            self._file.close()
