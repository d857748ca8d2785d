"""Changes to several files: prepared first, then written all together or not at all."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import CallCancelledError, EnvironmentLostError, TargetFileNotFoundError, TerminalError
from environments.files import TargetFiles, WriteConditionError, WriteConditions, run_on_files
from environments.write_guard import WriteGuard
from hermes_tools.files.read_file import read_bytes, unreadable
from hermes_tools.files.target_paths import target_path
from hermes_tools.interruption import ToolInterruptedError, raise_if_interrupted
from hermes_tools.patch.text_file import MAX_BYTES, BinaryFileError, FileSizeError, TextFile, is_plain
from hermes_tools.patch.unified_diff import FileDiff, unified_diff

_MAX_TOTAL_BYTES = 100_000_000
"""Limit in bytes for all files that a patch reads and makes; all are in memory before the first write."""

NOTHING_CHANGED = "no file was changed"


class StagingError(Exception):
    """A file does not fit the change, or could not be written. The message names the file."""


@dataclass(slots=True)
class _Staged:
    """A path of the target. None stands for no file."""

    shown_path: str
    moved: TextFile | None
    """Content after moves alone."""
    current: TextFile | None
    """Content after all changes."""
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of a file."""

    kind: Literal["changed", "added", "deleted"]
    diff: FileDiff


@dataclass(frozen=True, slots=True)
class _Move:
    """A move of a file."""

    path: str
    source: str
    target: str

    async def do(self, files: TargetFiles, guard: WriteGuard) -> None:
        await files.move(self.source, self.target, guard)

    async def undo(self, files: TargetFiles, guard: WriteGuard) -> None:
        try:
            await files.move(self.target, self.source, guard)
        except WriteConditionError as error:
            if error.kind != "exists":  # the file was not moved
                raise


@dataclass(frozen=True, slots=True)
class _Change:
    """New content of a file; None is no file."""

    path: str
    where: str
    old: bytes | None
    new: bytes | None

    async def do(self, files: TargetFiles, guard: WriteGuard) -> None:
        conditions = WriteConditions(guard, expected=self.old, must_be_new=self.old is None)
        if self.new is not None:
            await files.write(self.where, self.new, conditions=conditions)
        else:
            await files.check(self.where, conditions)
            await files.delete(self.where, guard)

    async def undo(self, files: TargetFiles, guard: WriteGuard) -> None:
        if self.old is None:
            await files.delete(self.where, guard)
            return
        with contextlib.suppress(TargetFileNotFoundError):
            if await files.read(self.where, len(self.old) + 1) == self.old:
                return
        await files.write(self.where, self.old, conditions=WriteConditions(guard))


class StagedFiles:
    """Files read once from the target, changed in memory, and written back by `write`.

    Args:
        env: The environment.
        several: True if a later file may be refused after a first write: then each file is checked while staging.
    """

    def __init__(self, env: BaseEnvironment, *, several: bool) -> None:
        self._env = env
        self._several = several
        self._guard = WriteGuard.of(env.settings)
        self._bytes = 0
        self._files: dict[str, _Staged] = {}
        self._moves: list[tuple[str, str]] = []
        self._started: list[_Move | _Change] = []
        """Started steps in their order. Reading a file may already change the file."""

    def read(self, path: str, replacing: tuple[str, str] | None = None) -> TextFile:
        """Return a file with all changes so far.

        Args:
            path: The file.
            replacing: A text and its replacement. If the file has the text once, the target may replace the text at
                once; the caller then makes the same change with `update`.

        Raises:
            StagingError: The file is missing, binary, unreadable, too large or protected.
            ToolInterruptedError: The script that called the tool has ended.
        """
        raise_if_interrupted()
        where = self._key(path)
        staged = self._files.get(where)
        if staged is None:
            file = self._load(path, where, replacing)
            self._files[where] = _Staged(path, file, file)
            return file
        if staged.current is None:
            raise StagingError(f"{path} was deleted or moved earlier in the patch")
        return staged.current

    def add(self, path: str, text: str) -> None:
        """Add a new file.

        Raises:
            StagingError: The file exists, is too large or protected.
        """
        vacant = self._vacant(path)
        vacant.current = self._parsed(path, text.encode("utf-8", "surrogateescape"))

    def update(self, path: str, file: TextFile) -> None:
        """Change a file after `read`.

        Raises:
            StagingError: The new content is too large.
        """
        self._account(path, len(file.to_bytes()))
        self._files[self._key(path)].current = file

    def delete(self, path: str) -> None:
        """Remove a file. Raises the errors of `read`."""
        self.read(path)
        self._files[self._key(path)].current = None

    def move(self, path: str, new_path: str) -> None:
        """Move a file after `read`.

        Raises:
            StagingError: The new path exists.
        """
        source, target = self._files[self._key(path)], self._vacant(new_path)
        target.moved_from = source.moved_from or source.shown_path
        target.moved, target.current = source.moved, source.current
        source.moved = source.current = source.moved_from = None
        self._moves.append((self._key(path), self._key(new_path)))

    def write(self) -> None:
        """Write all changes.

        Raises:
            StagingError: A file could not be written, or was changed meanwhile. Earlier changes were undone; the
                message names files where that failed.
            EnvironmentLostError: The target was lost; the written files are unknown.
        """
        try:
            for step in self._steps():
                raise_if_interrupted()
                self._started.append(step)
                self._run(step.path, lambda files, step=step: step.do(files, self._guard))  # type: ignore[misc]
        except EnvironmentLostError:
            raise
        except (StagingError, TerminalError, ToolInterruptedError) as error:
            if isinstance(error, StagingError):  # the target refused the step
                self._started.pop()
            raise StagingError(f"{error}; {self.undo_all()}") from error

    def changes(self) -> list[FileChange]:
        """Return the change of each file, in the order of the patch."""
        found = []
        for staged in self._files.values():
            old, new = staged.moved, staged.current
            if old == new and not staged.moved_from:
                continue
            diff = unified_diff(
                (staged.moved_from or staged.shown_path) if old else None,
                staged.shown_path if new else None,
                old.text if old else "",
                new.text if new else "",
            )
            found.append(FileChange("changed" if old and new else "added" if new else "deleted", diff))
        return found

    def _key(self, path: str) -> str:
        return posixpath.normpath(target_path(self._env, path))

    def _load(self, path: str, where: str, replacing: tuple[str, str] | None) -> TextFile:
        if self._several:
            self._check(path, where, WriteConditions(self._guard))
        data = self._replace(path, where, *replacing) if replacing else None
        try:
            if data is None:
                data = read_bytes(self._env, where, MAX_BYTES + 1)
        except EnvironmentLostError:
            raise
        except TerminalError as error:
            raise StagingError(unreadable(self._env, path, where, error)) from error
        if len(data) > MAX_BYTES:
            raise StagingError(f"{path} is larger than {MAX_BYTES:,} bytes, the limit of patch")
        return self._parsed(path, data)

    def _parsed(self, path: str, data: bytes) -> TextFile:
        self._account(path, len(data))
        try:
            return TextFile.from_bytes(data)
        except BinaryFileError:
            raise StagingError(f"{path} is a binary file (it holds NUL bytes)") from None
        except FileSizeError as error:
            raise StagingError(f"{path} has {error}") from None

    def _account(self, path: str, size: int) -> None:
        """Add the size of a file, before or after the change, to the total."""
        if size > MAX_BYTES:
            raise StagingError(f"{path} would have {size:,} bytes; the limit of patch is {MAX_BYTES:,}")
        self._bytes += size
        if self._bytes > _MAX_TOTAL_BYTES:
            raise StagingError(
                f"the files before and after the changes have more than {_MAX_TOTAL_BYTES:,} bytes together: "
                "change fewer at once"
            )

    def _vacant(self, path: str) -> _Staged:
        """Return the entry of a free path, after the changes so far."""
        where = self._key(path)
        if where not in self._files:
            raise_if_interrupted()
            if self._several:
                self._check(path, where, WriteConditions(self._guard, must_be_new=True))
            self._files[where] = _Staged(path, None, None)
        elif self._files[where].current is not None:
            raise StagingError(f"{path} exists already")
        return self._files[where]

    def _replace(self, path: str, where: str, old: str, new: str) -> bytes | None:
        """Let the target replace a text in a file, and return the old content; None if nothing was replaced."""
        if not (is_plain(old) and is_plain(new)):
            return None
        before: list[bytes | None] = []

        async def replace(files: TargetFiles) -> None:
            before.append(await files.replace(where, old, new, self._guard))

        try:
            self._run(path, replace)
        except EnvironmentLostError:
            raise
        except TerminalError as error:
            raise StagingError(str(error)) from error
        if (data := before[0]) is not None:
            self._started.append(_Change(path, where, data, data.replace(old.encode(), new.encode())))
        return before[0]

    def _check(self, path: str, where: str, conditions: WriteConditions) -> None:
        try:
            self._run(path, lambda files: files.check(where, conditions))
        except EnvironmentLostError:
            raise
        except TerminalError as error:
            raise StagingError(str(error)) from error

    def _run(self, path: str, work: Callable[[TargetFiles], Coroutine[Any, Any, object]]) -> None:
        """Run an operation on a file.

        Raises:
            StagingError: The file is protected, or was changed meanwhile.
            ToolInterruptedError: The script that called the tool has ended.
            TerminalError: The operation failed.
        """
        try:
            run_on_files(self._env, work)
        except CallCancelledError as error:
            raise ToolInterruptedError("the call was interrupted") from error
        except WriteConditionError as error:
            if error.kind == "refused":
                raise StagingError(f"{path} is not written: {error}") from error
            if error.kind == "exists":
                raise StagingError(f"{path} exists already") from error
            raise StagingError(f"{path} was changed by another program meanwhile: patch it again") from error

    def _steps(self) -> list[_Move | _Change]:
        """Return the changes in order: moves, contents, removals."""
        done = {step.where for step in self._started if isinstance(step, _Change)}
        steps: list[_Move | _Change] = []
        for source, target in self._moves:
            steps.append(_Move(self._files[target].shown_path, source, target))
        removals: list[_Change] = []
        for where, staged in self._files.items():
            if staged.current != staged.moved and where not in done:
                old, new = (file.to_bytes() if file else None for file in (staged.moved, staged.current))
                (steps if staged.current else removals).append(_Change(staged.shown_path, where, old, new))
        return [*steps, *removals]

    def undo_all(self) -> str:
        """Undo all started steps, even after an interruption, and return a sentence about the outcome."""
        failed = []
        with CancelScope().active():
            for step in reversed(self._started):
                try:
                    run_on_files(self._env, lambda files, step=step: step.undo(files, self._guard))  # type: ignore[misc]
                except TerminalError:
                    failed.append(step.path)
        if failed:
            return f"these files could not be put back as they were: {', '.join(failed)}"
        return NOTHING_CHANGED
