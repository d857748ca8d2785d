"""The journal of a batch: the checkpoint for resume. Results, and marks of begun tasks, survive a kill at any moment.

Each task runs at most once. The driver marks a task as begun before any part runs, and adds the result after the end.
A task with a mark and no result may have run: the status is `lost`, and only an explicit retry runs the task again. The
marks stand beside the results, in a file of the same name with the suffix `.begun`. This file is removed when each
marked task has a result.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from environments.errors import TerminalError
from environments.local_files import replace_file
from hermes_env.batch.result import Result, Status
from hermes_env.batch.task import TaskId, is_task_id

BEGUN = ".begun"
"""The suffix of the file of marks."""
LOST_MESSAGE = "the run was killed after the task began, so the task may have run"
_BEGINNING = b'{"id":'
_READ_AND_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
"""`O_NONBLOCK`: opening a pipe does not wait for the other end."""


class MemoryJournal:
    """The journal of a batch without a file of results, see `Journal`.

    Args:
        keeps: True if the results are kept.
    """

    was_killed = False

    def __init__(self, *, keeps: bool = True) -> None:
        self._keeps = keeps
        self.results: list[Result] = []
        self.done: dict[TaskId, Status] = {}

    def resume(self, retry: Collection[Status], among: Collection[TaskId] | None = None) -> None:
        """Do nothing: there is no earlier run."""

    def begin(self, names: Collection[TaskId]) -> None:
        """Do nothing: marks would not survive this process."""

    def withdraw(self, names: Collection[TaskId]) -> None:
        """Do nothing, as `begin`."""

    def add(self, results: Collection[Result]) -> None:
        """Keep results."""
        if self._keeps:
            self.results += results

    def close(self) -> None:
        """Do nothing."""


class Journal:
    """The results of a batch, and the marks of the tasks, for one thread at a time.

    Args:
        path: The file of results, one JSON object a line. A missing file is created.

    Raises:
        TerminalError: The file cannot be written, is a link, is locked by another run, is not a file of results, or is
            missing while the marks exist. The files stay as they were.
    """

    def __init__(self, path: Path) -> None:
        path = Path(os.path.realpath(path.parent)) / path.name  # so that two names of a file share a lock
        marks = path.with_name(path.name + BEGUN)
        self.was_killed = marks.exists()
        """True if the run before was killed, and may have left orphans in targets."""
        self.done: dict[TaskId, Status] = {}
        """The status of each task with a result from earlier runs."""
        self.results: tuple[Result, ...] = ()
        """Empty: the results are in the file."""
        self._open: set[TaskId] = set()
        """The begun tasks without a result."""
        self._marks = _locked(marks, path)
        is_new = not path.exists()
        try:
            self._results = LineFile(path)
            try:
                self._read()
                if is_new and self._open:
                    raise TerminalError(
                        f"{path} is gone, but {marks.name} beside it lists tasks that have begun; restore the file to "
                        f"resume, or remove {marks.name} too, to begin anew"
                    )
            except BaseException:
                self._results.close()
                if is_new:
                    path.unlink()
                raise
        except BaseException:
            self._close_marks(needed=self.was_killed)
            raise

    def _read(self) -> None:
        for number, line in enumerate(self._results.lines(), 1):
            try:
                result = Result.of_line(line)
            except (ValueError, RecursionError) as error:
                raise TerminalError(
                    f"{self._results.path}, line {number}: this is no result of a batch ({error}), so the file is left "
                    "unchanged; give another file"
                ) from None
            self.done[result.id] = result.status
        torn = self._results.torn()
        if torn and not _may_be_cut_off(torn):
            raise TerminalError(
                f"{self._results.path}: the last line is no result of a batch, not even a part, so the file is left "
                "unchanged; give another file"
            )
        self._read_marks()

    def _read_marks(self) -> None:
        for line in self._marks.lines():
            try:
                (kind, name), *_ = json.loads(line).items()
            except (ValueError, AttributeError):
                kind, name = "", ""
            if kind not in ("begun", "withdrawn") or not is_task_id(name):
                raise TerminalError(
                    f"{self._marks.path} does not hold the marks of a batch; give another file for the results"
                )
            (self._open.add if kind == "begun" else self._open.discard)(name)
        self._open -= self.done.keys()

    def resume(self, retry: Collection[Status], among: Collection[TaskId] | None = None) -> None:
        """Recover the state of the run before.

        Args:
            retry: The statuses of results to remove, so that their tasks run again. A begun task without a result
                becomes `lost`, unless `lost` is among these.
            among: The ids of the tasks that may run again; None is all.

        Raises:
            TerminalError: A file cannot be written.
        """
        self._repair()
        again = {name for name, status in self.done.items() if status in retry and (among is None or name in among)}
        if again:
            self._remove(again)
        if "lost" in retry:
            self.withdraw([name for name in self._open if among is None or name in among])
        lost = [Result(name, "lost", error=LOST_MESSAGE) for name in sorted(self._open, key=str)]
        self.add(lost)
        self.done.update((result.id, result.status) for result in lost)

    def _repair(self) -> None:
        """Remove torn lines, but keep a whole line that lacks only the newline."""
        self._marks.truncate()
        torn = self._results.torn()
        self._results.truncate()
        if torn and (whole := _whole(torn)):
            self.add([whole])
            self.done[whole.id] = whole.status

    def _remove(self, names: Collection[TaskId]) -> None:
        path = self._results.path
        kept = self._results.lines()
        replace_file(
            path, lambda file: file.writelines(line + b"\n" for line in kept if Result.of_line(line).id not in names)
        )
        self._results.close()
        self._results = LineFile(path)
        for _ in self._results.lines():
            pass
        for name in names:
            del self.done[name]
        self._mark("withdrawn", names)

    def begin(self, names: Collection[TaskId]) -> None:
        """Mark tasks as begun, before the first part runs. Raises TerminalError if the file cannot be written."""
        self._mark("begun", names)
        self._open.update(names)

    def withdraw(self, names: Collection[TaskId]) -> None:
        """Remove the marks of tasks that did not begin after all. Raises as `begin` does."""
        self._mark("withdrawn", self._open.intersection(names))
        self._open.difference_update(names)

    def _mark(self, kind: str, names: Collection[TaskId]) -> None:
        if names:
            self._marks.append("".join(f'{{"{kind}":{json.dumps(name)}}}\n' for name in names).encode())

    def add(self, results: Collection[Result]) -> None:
        """Append results: all or none. Raises TerminalError if the file cannot be written."""
        if results:
            self._results.append("".join(result.to_line() for result in results).encode())
            self._open.difference_update(result.id for result in results)

    def close(self) -> None:
        """Flush the results to the disk, and remove the marks if each task has a result. Safe to call twice."""
        if self._results.descriptor >= 0:
            self._results.sync()
            self._results.close()
            self._close_marks(needed=bool(self._open))

    def _close_marks(self, *, needed: bool) -> None:
        if self._marks.descriptor >= 0:
            if not needed:
                self._marks.path.unlink(missing_ok=True)
            self._marks.close()


class LineFile:
    """A file of whole lines, to append to. A line torn by a crash does not count.

    Args:
        path: The file. A missing file is created with mode 0600.

    Raises:
        TerminalError: The file cannot be opened for reading and writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.descriptor = os.open(path, _READ_AND_APPEND, 0o600)
            if not stat.S_ISREG(os.fstat(self.descriptor).st_mode):
                os.close(self.descriptor)
                raise OSError(errno.EINVAL, "this is not a regular file")
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise TerminalError(f"cannot write {path}: it is a link; give the path of another file") from None
            raise TerminalError(f"cannot write {path}: {error.strerror}; give a file that can be written") from error
        self._size = 0
        """Bytes up to the end of the last whole line."""

    @property
    def is_in_place(self) -> bool:
        """True if the path still leads to the open file."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self.descriptor))
        except FileNotFoundError:
            return False

    def lines(self) -> Iterator[bytes]:
        """Yield the whole lines without their newlines. Raises TerminalError if the file cannot be read."""
        self._size = 0
        try:
            with open(self.path, "rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        self._size += len(line)
                        yield line[:-1]
        except OSError as error:
            raise TerminalError(f"cannot read {self.path}: {error.strerror}") from error

    def torn(self) -> bytes:
        """Return the bytes behind the last newline read by `lines`."""
        return os.pread(self.descriptor, os.fstat(self.descriptor).st_size - self._size, self._size)

    def truncate(self) -> None:
        """Remove the torn bytes. Raises TerminalError if the file cannot be written."""
        try:
            os.ftruncate(self.descriptor, self._size)
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, data: bytes) -> None:
        """Append whole lines: all or none. They survive the end of this process.

        Raises:
            TerminalError: The file cannot be written, such as on a full disk.
        """
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self.descriptor, self._size)
            raise self._unwritable(error) from error
        self._size += len(data)

    def sync(self) -> None:
        """Flush the file to the disk, to survive a loss of power where the file system can."""
        with contextlib.suppress(OSError):
            os.fsync(self.descriptor)

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _unwritable(self, error: OSError) -> TerminalError:
        return TerminalError(
            f"cannot write {self.path}: {error.strerror}; its results stay. Free some space, and run the same batch "
            "again to resume"
        )


def _locked(path: Path, results: Path) -> LineFile:
    """Open the marks beside a file of results, with a lock against other runs until they are closed."""
    while True:
        marks = LineFile(path)
        try:
            fcntl.flock(marks.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            marks.close()
            raise TerminalError(
                f"another run is writing to {results}; wait until it has ended, or give another file"
            ) from None
        if marks.is_in_place:
            return marks
        marks.close()  # the run before removed the file after our open and before our lock


def _may_be_cut_off(torn: bytes) -> bool:
    """Return True if bytes are the beginning of a result's line."""
    return torn.startswith(_BEGINNING) or _BEGINNING.startswith(torn) or _whole(torn) is not None


def _whole(torn: bytes) -> Result | None:
    """Return the result of a line that lacks only its newline."""
    try:
        return Result.of_line(torn)
    except (ValueError, RecursionError):
        return None


def read_results(path: str | os.PathLike[str]) -> Iterator[Result]:
    """Yield the results of a batch, also during the run.

    Args:
        path: The file of results: the `out` of `run_batch`.

    Raises:
        TerminalError: The file cannot be read, or a line is no result.
    """
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return  # a line still being written, or torn
                try:
                    yield Result.of_line(line)
                except (ValueError, RecursionError) as error:
                    raise TerminalError(f"{path}, line {number}: this is no result of a batch ({error})") from None
    except OSError as error:
        raise TerminalError(f"cannot read {path}: {error.strerror}") from error
