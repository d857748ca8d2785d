"""The journal of a batch: its results, and marks of the tasks that have begun. Both files outlive a kill at any moment.

A task is marked as begun before any part of it runs. Its result is added once it has ended. A task with a mark and no
result may have run: it is `lost`, and runs again only if that is asked for. The marks stand beside the results, in a
file of the same name with the suffix `.begun`, which is removed when each marked task has its result.
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
LOST_MESSAGE = "the run that began it was killed before its end, so that it may have run"
_BEGINNING = b'{"id":'
_READ_AND_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
"""`O_NONBLOCK`: opening a pipe does not wait for its other end."""


class MemoryJournal:
    """The journal of a batch without a file of results, see `Journal`.

    Args:
        keeps: Whether the results are kept.
    """

    follows_a_kill = False

    def __init__(self, *, keeps: bool = True) -> None:
        self._keeps = keeps
        self.results: list[Result] = []
        self.done: dict[TaskId, Status] = {}

    def resume(self, retry: Collection[Status], among: Collection[TaskId] | None = None) -> None:
        """Do nothing: there is no earlier run."""

    def begin(self, names: Collection[TaskId]) -> None:
        """Do nothing: marks would not outlive this process."""

    def withdraw(self, names: Collection[TaskId]) -> None:
        """Do nothing, as `begin`."""

    def add(self, results: Collection[Result]) -> None:
        """Keep results."""
        if self._keeps:
            self.results += results

    def close(self) -> None:
        """Do nothing."""


class Journal:
    """The results of a batch, and the marks of its tasks. One thread uses it at a time.

    Args:
        path: The file of results, one JSON object a line. It is created, or appended to.

    Raises:
        TerminalError: The file cannot be written, is a link, another run has it open, it holds something else, or it
            is gone while its marks are there. The files stay as they were.
    """

    def __init__(self, path: Path) -> None:
        path = Path(os.path.realpath(path.parent)) / path.name  # so that two names of one file are one
        marks = path.with_name(path.name + BEGUN)
        self.follows_a_kill = marks.exists()
        """True if the run before was killed, and may have left things in targets."""
        self.done: dict[TaskId, Status] = {}
        """The status of each task that has a result when this run continues."""
        self.results: tuple[Result, ...] = ()
        """Empty: the results are in the file."""
        self._open: set[TaskId] = set()
        """The tasks that have begun and have no result."""
        self._marks = _locked(marks, path)
        is_new = not path.exists()
        try:
            self._results = LineFile(path)
            try:
                self._read()
                if is_new and self._open:
                    raise TerminalError(
                        f"{path} is gone, and {marks.name} beside it says that tasks have begun; bring it back to go "
                        "on, or remove that, too, to begin anew"
                    )
            except BaseException:
                self._results.close()
                if is_new:
                    path.unlink()
                raise
        except BaseException:
            self._close_marks(needed=self.follows_a_kill)
            raise

    def _read(self) -> None:
        for number, line in enumerate(self._results.lines(), 1):
            try:
                result = Result.of_line(line)
            except (ValueError, RecursionError) as error:
                raise TerminalError(
                    f"{self._results.path}, line {number}: it is no result of a batch ({error}), and so nothing is "
                    "added to it; give another file"
                ) from None
            self.done[result.id] = result.status
        torn = self._results.torn()
        if torn and not _may_be_cut_off(torn):
            raise TerminalError(
                f"{self._results.path}: its last line is no result of a batch that was cut off, and so nothing is "
                "added to it; give another file"
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
                    f"{self._marks.path} is not what a batch writes beside its results; give another file for those"
                )
            (self._open.add if kind == "begun" else self._open.discard)(name)
        self._open -= self.done.keys()

    def resume(self, retry: Collection[Status], among: Collection[TaskId] | None = None) -> None:
        """Settle what the run before left open.

        Args:
            retry: The statuses of results to remove, so that their tasks run again. Each task that has begun and has no
                result becomes `lost`, unless that is among these.
            among: The ids of the tasks that may run again; None is all.

        Raises:
            TerminalError: A file cannot be written.
        """
        self._mend()
        again = {name for name, status in self.done.items() if status in retry and (among is None or name in among)}
        if again:
            self._remove(again)
        if "lost" in retry:
            self.withdraw([name for name in self._open if among is None or name in among])
        lost = [Result(name, "lost", error=LOST_MESSAGE) for name in sorted(self._open, key=str)]
        self.add(lost)
        self.done.update((result.id, result.status) for result in lost)

    def _mend(self) -> None:
        """Remove what was cut off, unless it is a whole line without its newline."""
        self._marks.mend()
        torn = self._results.torn()
        self._results.mend()
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
        """Mark tasks as begun, before they begin. Raises TerminalError if the file cannot be written."""
        self._mark("begun", names)
        self._open.update(names)

    def withdraw(self, names: Collection[TaskId]) -> None:
        """Remove the marks of tasks that have not begun after all. Raises as `begin` does."""
        self._mark("withdrawn", self._open.intersection(names))
        self._open.difference_update(names)

    def _mark(self, kind: str, names: Collection[TaskId]) -> None:
        if names:
            self._marks.append("".join(f'{{"{kind}":{json.dumps(name)}}}\n' for name in names).encode())

    def add(self, results: Collection[Result]) -> None:
        """Append results. Raises TerminalError if they cannot be written; then none of them is in the file."""
        if results:
            self._results.append("".join(result.to_line() for result in results).encode())
            self._open.difference_update(result.id for result in results)

    def close(self) -> None:
        """Flush the results to the disk, and remove the marks if each task has its result. Safe to call twice."""
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
    """A file that whole lines are appended to. A line that a crash cut off does not count.

    Args:
        path: The file. It is created with mode 0600 if it is missing.

    Raises:
        TerminalError: It cannot be opened to read and write it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.descriptor = os.open(path, _READ_AND_APPEND, 0o600)
            if not stat.S_ISREG(os.fstat(self.descriptor).st_mode):
                os.close(self.descriptor)
                raise OSError(errno.EINVAL, "it is no regular file")
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise TerminalError(f"cannot write {path}: it is a link; give the path of another file") from None
            raise TerminalError(f"cannot write {path}: {error.strerror}; give a file that can be written") from error
        self._size = 0
        """Bytes up to the end of the last whole line."""

    @property
    def is_in_place(self) -> bool:
        """True if its path still leads to it."""
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
        """Return the bytes behind the last newline that `lines` has read."""
        return os.pread(self.descriptor, os.fstat(self.descriptor).st_size - self._size, self._size)

    def mend(self) -> None:
        """Remove these bytes. Raises TerminalError if the file cannot be written."""
        try:
            os.ftruncate(self.descriptor, self._size)
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, data: bytes) -> None:
        """Append whole lines, which outlive this process from then on.

        Raises:
            TerminalError: They could not be written, such as on a full disk. None of them is in the file.
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
        """Flush it to the disk, so that it outlives a loss of power, where the file system can."""
        with contextlib.suppress(OSError):
            os.fsync(self.descriptor)

    def close(self) -> None:
        """Close it. Safe to call twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _unwritable(self, error: OSError) -> TerminalError:
        return TerminalError(
            f"cannot write {self.path}: {error.strerror}; what it holds stays. Make room, and run the "
            "batch again to go on"
        )


def _locked(path: Path, results: Path) -> LineFile:
    """Open the marks beside a file of results, and lock them against other runs while they are open."""
    while True:
        marks = LineFile(path)
        try:
            fcntl.flock(marks.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            marks.close()
            raise TerminalError(
                f"another run adds to {results} just now; wait until it has ended, or give another file"
            ) from None
        if marks.is_in_place:
            return marks
        marks.close()  # its last user removed it between our opening and our locking it


def _may_be_cut_off(torn: bytes) -> bool:
    """Return True for the beginning of a result's line."""
    return torn.startswith(_BEGINNING) or _BEGINNING.startswith(torn) or _whole(torn) is not None


def _whole(torn: bytes) -> Result | None:
    """Return the result of a line that lacks only its newline."""
    try:
        return Result.of_line(torn)
    except (ValueError, RecursionError):
        return None


def read_results(path: str | os.PathLike[str]) -> Iterator[Result]:
    """Yield the results of a batch, also while it runs.

    Args:
        path: The file that `run_batch` was given as `out`.

    Raises:
        TerminalError: The file cannot be read, or a line is no result.
    """
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return  # it is being written, or was cut off
                try:
                    yield Result.of_line(line)
                except (ValueError, RecursionError) as error:
                    raise TerminalError(f"{path}, line {number}: it is no result of a batch ({error})") from None
    except OSError as error:
        raise TerminalError(f"cannot read {path}: {error.strerror}") from error
