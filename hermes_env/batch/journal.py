"""What is known of a batch, in two files that outlive a kill at any moment: its results, and which tasks have begun.

A task is noted as begun before any of it runs, and its result is added once it has ended. So a task with a mark and
without a result may have run, and it is not run again unless that is asked for. The marks stand beside the results, in
a file of the same name with `.begun` behind it, which goes when each of them has its result.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from environments.errors import TerminalError
from environments.local_files import replace_file
from hermes_env.batch.appended_file import AppendedFile
from hermes_env.batch.result import Result, Status

BEGUN = ".begun"
"""What stands behind the name of the file of marks."""
_BEGINNING = b'{"id":"'
LOST_MESSAGE = "the run that began it was killed before its end, so that it may have run"


class Journal:
    """The results of a batch, and the marks of its tasks.

    One thread uses it at a time.

    Args:
        path: The file of results, one JSON object a line. It is made, or added to.

    Raises:
        TerminalError: It cannot be written, another run has it, it holds something else, or it is gone and the marks
            are not. It stays as it was.
    """

    def __init__(self, path: Path) -> None:
        path = Path(os.path.realpath(path))  # so that two names of one file are one
        marks = path.with_name(path.name + BEGUN)
        self.follows_a_kill = marks.exists()
        """Whether the run before this one was killed, so that it may have left things in targets."""
        self._marks = _locked(marks, path)
        self.done: dict[str, Status] = {}
        """The tasks that had a result when this run began to go on, with its status."""
        self.results: tuple[Result, ...] = ()
        """None is kept here."""
        self._open: set[str] = set()
        """The tasks that have begun and have no result."""
        is_new = not path.exists()
        try:
            self._results = AppendedFile(path)
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
            self._leave_marks(are_needed=self.follows_a_kill)
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
            if kind not in ("begun", "withdrawn") or not isinstance(name, str):
                raise TerminalError(
                    f"{self._marks.path} is not what a batch writes beside its results; give another file for those"
                )
            (self._open.add if kind == "begun" else self._open.discard)(name)
        self._open -= self.done.keys()

    def resume(self, retry: Collection[Status], among: Collection[str] | None = None) -> None:
        """Get ready to go on, and settle what the run before left open.

        Args:
            retry: The statuses of results that are taken out, so that their tasks run again. Tasks that had begun and
                have no result get one, `lost`, unless that is among these.
            among: The ids of the tasks that may run again; None is all.

        Raises:
            TerminalError: A file cannot be written.
        """
        self._mend()
        again = {name for name, status in self.done.items() if status in retry and (among is None or name in among)}
        if again:
            self._take_out(again)
        if "lost" in retry:
            self.withdraw([name for name in self._open if among is None or name in among])
        lost = [Result(name, "lost", error=LOST_MESSAGE) for name in sorted(self._open)]
        self.add(lost)
        self.done.update((result.id, result.status) for result in lost)

    def _mend(self) -> None:
        """Take off what was cut off, unless it is a whole line without its end."""
        self._marks.mend()
        torn = self._results.torn()
        self._results.mend()
        if torn and (whole := _whole(torn)):
            self.add([whole])
            self.done[whole.id] = whole.status

    def _take_out(self, names: Collection[str]) -> None:
        path = self._results.path
        kept = self._results.lines()
        replace_file(
            path, lambda file: file.writelines(line + b"\n" for line in kept if Result.of_line(line).id not in names)
        )
        self._results.close()
        self._results = AppendedFile(path)
        for _ in self._results.lines():
            pass
        for name in names:
            del self.done[name]
        self._mark("withdrawn", names)

    def begin(self, names: Collection[str]) -> None:
        """Note that tasks begin, before any of them does. Raises TerminalError if it cannot be written."""
        self._mark("begun", names)
        self._open.update(names)

    def withdraw(self, names: Collection[str]) -> None:
        """Note that tasks have certainly not begun after all. Raises TerminalError if it cannot be written."""
        self._mark("withdrawn", self._open.intersection(names))
        self._open.difference_update(names)

    def _mark(self, kind: str, names: Collection[str]) -> None:
        if names:
            self._marks.append("".join(f'{{"{kind}":{json.dumps(name)}}}\n' for name in names).encode())

    def add(self, results: Collection[Result]) -> None:
        """Add results, each of which is there once. Raises TerminalError if they cannot be written: then none is."""
        if results:
            self._results.append("".join(result.to_line() for result in results).encode())
            self._open.difference_update(result.id for result in results)

    def close(self) -> None:
        """Have the disk hold the results, and remove the marks if each has a result. Safe to call twice."""
        if self._results.descriptor >= 0:
            self._results.sync()
            self._results.close()
        self._leave_marks(are_needed=bool(self._open))

    def _leave_marks(self, *, are_needed: bool) -> None:
        if self._marks.descriptor >= 0:
            if not are_needed:
                self._marks.path.unlink(missing_ok=True)
            self._marks.close()


def _locked(path: Path, results: Path) -> AppendedFile:
    """Open the marks beside a file of results, and keep other runs off as long as they are open."""
    while True:
        marks = AppendedFile(path)
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
    """Whether something is the beginning of a result's line."""
    return torn.startswith(_BEGINNING) or _BEGINNING.startswith(torn) or _whole(torn) is not None


def _whole(torn: bytes) -> Result | None:
    """Return the result of a line that lacks its newline alone."""
    try:
        return Result.of_line(torn)
    except (ValueError, RecursionError):
        return None


def read_results(path: str | os.PathLike[str]) -> Iterator[Result]:
    """Go through the results of a batch, also while it runs.

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
