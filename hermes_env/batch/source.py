"""The source of a batch's tasks: a JSON Lines file, standard input, or an iterable."""

from __future__ import annotations

import os
import select
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from environments.errors import TerminalError
from hermes_env.batch.task import Task, TaskError, TaskId
from hermes_env.batch.task_types import TaskTypes

Item = Task | Mapping[str, object]
Tasks = str | os.PathLike[str] | Iterable[Item]
"""The path of a file with a JSON object a line, `-` for standard input, or tasks."""
_PIECE = 256 * 1024
"""Bytes per read."""
_IN_MEMORY = 16 * 1024 * 1024
"""Bytes of standard input, or of a pipe, kept in memory; more go to a file."""
_POLL = 0.1
"""Seconds between checks for an interrupt during the wait for input."""


class TaskSource:
    """The tasks of a batch.

    All tasks of a file or a sequence are checked first, so a wrong task stops the batch before any task runs. Only the
    ids of a file stay in memory. The tasks of another iterable, such as a generator, are checked as they come.

    Args:
        tasks: The argument of `run_batch`.
        types: The types of environments.
        has_work: True if Python code works on the tasks, see `Task.of`.
        is_interrupted: Polled during the wait for standard input or a pipe; True ends the wait.

    Raises:
        TaskError: A task is wrong. The message names the task.
        TerminalError: The file cannot be read.
        TypeError: `tasks` is neither a path nor iterable.
    """

    def __init__(
        self, tasks: Tasks, types: TaskTypes, *, has_work: bool, is_interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self._types = types
        self._has_work = has_work
        self._file: BinaryIO | None = None
        self._name = ""
        self._items: Iterable[Item] = ()
        self.ids: Collection[TaskId] | None = None
        """The ids of all tasks; None if unknown."""
        self.is_cut_off = False
        """True if an interrupt ended the wait for input, so that tasks are missing."""
        self._is_interrupted = is_interrupted
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
                return self._spooled(sys.stdin.fileno())
            file = Path(path).open("rb")  # noqa: SIM115
            if file.seekable():
                return file
            with file:  # a pipe, such as a shell's `<(...)`
                return self._spooled(file.fileno())
        except OSError as error:
            raise self._unreadable(error) from error

    def _spooled(self, source: int) -> BinaryIO:
        """Read all input into a temporary file, because the tasks are read twice."""
        spooled: BinaryIO = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # type: ignore[assignment]  # noqa: SIM115
        while not self._is_interrupted():
            if select.select([source], [], [], _POLL)[0]:
                if not (piece := os.read(source, _PIECE)):
                    return spooled
                spooled.write(piece)
        self.is_cut_off = True
        return spooled

    def _check(self) -> None:
        try:
            self.ids = {task.id for task in self._checked()}
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Task]:
        """Yield the tasks. Raises TaskError for a wrong task."""
        if self.ids is None:
            yield from self._checked()
        else:
            yield from (self._task(item, where) for where, item in self._numbered())

    def _checked(self) -> Iterator[Task]:
        seen: set[TaskId] = set()
        for where, item in self._numbered():
            task = self._task(item, where)
            if task.id in seen:
                raise TaskError(f"{where}: an earlier task has the same id {task.id!r:.50}; give each task its own id")
            seen.add(task.id)
            try:
                self._types.of(task)
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
        """Close the file."""
        if self._file:
            self._file.close()
