"""Changes to several files, made ready first and then written all together or not at all."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Literal

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import EnvironmentLostError, TerminalError
from hermes_tools.files.sizes import MAX_BYTES, FileSizeError
from hermes_tools.files.target_paths import failed_command_error, shell_word, target_path
from hermes_tools.files.whole_file import UnreadableFileError, read_whole
from hermes_tools.files.write_guard import REFUSED, WriteGuard
from hermes_tools.interruption import ToolInterruptedError, raise_if_interrupted
from hermes_tools.patch.text_file import BinaryFileError, TextFile
from hermes_tools.patch.unified_diff import FileDiff, unified_diff

_MOST_BYTES = 100_000_000
"""Of all files that a patch reads and makes; they are all here before the first is written."""


class StagingError(Exception):
    """A file is not as the change needs it, or could not be written. The message names it."""


@dataclass(slots=True)
class _Staged:
    """One path of the target. None stands for no file."""

    shown_path: str
    original: TextFile | None
    """What is there before anything is written."""
    moved: TextFile | None
    """What is there once files have been moved, and nothing else was done."""
    current: TextFile | None
    """What is to be there in the end."""
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class FileChange:
    """What is to happen to one file."""

    kind: Literal["changed", "added", "deleted"]
    diff: FileDiff


class StagedFiles:
    """Files read from the target once, changed here, and written back by `write`."""

    def __init__(self, env: BaseEnvironment) -> None:
        self._env = env
        self._guard = WriteGuard.of(env)
        self._bytes = 0
        self._files: dict[str, _Staged] = {}
        self._moves: list[tuple[str, str]] = []

    def read(self, path: str) -> TextFile:
        """Return a file as it stands after the changes so far.

        Raises:
            StagingError: There is no such file, or it is binary, unreadable, too large or not to be written.
            ToolInterruptedError: The script that called the tool has ended.
        """
        raise_if_interrupted()
        where = self._key(path)
        staged = self._files.get(where)
        if staged is None:
            file = self._load(path, where)
            self._files[where] = _Staged(path, file, file, file)
            return file
        if staged.current is None:
            raise StagingError(f"{path} was deleted or moved earlier in the patch")
        return staged.current

    def add(self, path: str, text: str) -> None:
        """Make a new file.

        Raises:
            StagingError: The file exists, is too large or not to be written.
        """
        vacant = self._vacant(path)
        vacant.current = self._taken_apart(path, text.encode("utf-8", "surrogateescape"))

    def update(self, path: str, file: TextFile) -> None:
        """Change a file that was read.

        Raises:
            StagingError: It became too large.
        """
        self._account(path, len(file.to_bytes()))
        self._files[self._key(path)].current = file

    def delete(self, path: str) -> None:
        """Remove a file. Raises what `read` raises."""
        self.read(path)
        self._files[self._key(path)].current = None

    def move(self, path: str, new_path: str) -> None:
        """Give a file that was read a new path.

        Raises:
            StagingError: Something is at the new path already.
        """
        source, target = self._files[self._key(path)], self._vacant(new_path)
        target.moved_from = source.moved_from or source.shown_path
        target.moved, target.current = source.moved, source.current
        source.moved = source.current = source.moved_from = None
        self._moves.append((self._key(path), self._key(new_path)))

    def write(self) -> None:
        """Write all changes.

        Raises:
            StagingError: One could not be written. Those before it were taken back, or the message says which
                could not be.
            EnvironmentLostError: The target went away; which files were written is not known.
        """
        try:
            for source, target in self._moves:
                raise_if_interrupted()
                directory = shell_word(posixpath.dirname(target) or ".")
                self._run(f"mkdir -p {directory} && mv -f {shell_word(source)} {shell_word(target)}")
            for where, staged in self._files.items():
                raise_if_interrupted()
                if staged.current is not None and staged.current != staged.moved:
                    self._env.write_bytes(where, staged.current.to_bytes())
            for where, staged in self._files.items():
                if staged.current is None and staged.moved is not None:
                    self._run(f"rm -f {shell_word(where)}")
        except EnvironmentLostError:
            raise
        except (TerminalError, ToolInterruptedError) as error:
            with CancelScope().active():  # what was begun is also taken back when nobody waits for it any more
                raise StagingError(f"{error}; {self._take_back()}") from error

    def changes(self) -> list[FileChange]:
        """Return what is to happen to each file, in the order the files were named."""
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

    def _load(self, path: str, where: str) -> TextFile:
        try:
            return self._taken_apart(path, read_whole(self._env, where, path, self._guard))
        except UnreadableFileError as error:
            raise StagingError(str(error)) from error
        except EnvironmentLostError:
            raise
        except TerminalError as error:
            raise StagingError(f"{path} cannot be read: {error}") from error

    def _taken_apart(self, path: str, data: bytes) -> TextFile:
        self._account(path, len(data))
        try:
            return TextFile.from_bytes(data)
        except BinaryFileError:
            raise StagingError(f"{path} is a binary file (it holds NUL bytes)") from None
        except FileSizeError as error:
            raise StagingError(f"{path} has {error}") from None

    def _account(self, path: str, size: int) -> None:
        """Count what a file has, or is to have."""
        if size > MAX_BYTES:
            raise StagingError(f"{path} would have {size:,} bytes; {MAX_BYTES:,} are the most that patch changes")
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            raise StagingError(
                f"the files before and after the changes have more than {_MOST_BYTES:,} bytes together: change fewer "
                "at once"
            )

    def _vacant(self, path: str) -> _Staged:
        """Return the entry of a path that is free, after the changes so far."""
        where = self._key(path)
        if where not in self._files:
            raise_if_interrupted()
            word = shell_word(where)
            test = self._env.internal.execute(
                f"{self._guard.shell_text()}\n"
                f"if [ -e {word} ] || [ -L {word} ]; then echo there; elif refused {word}; then :; fi"
            )
            if error := failed_command_error(test, f"looking for {path}"):
                raise StagingError(error)
            if test.output.startswith(REFUSED):
                raise StagingError(self._guard.refusal(path, test.output))
            if test.output:
                raise StagingError(f"{path} exists already")
            self._files[where] = _Staged(path, None, None, None)
        elif self._files[where].current is not None:
            raise StagingError(f"{path} exists already")
        return self._files[where]

    def _run(self, command: str) -> None:
        if error := failed_command_error(self._env.internal.execute(command), "a file operation"):
            raise TerminalError(error)

    def _take_back(self) -> str:
        """Put every file back as it was, and say how that went."""
        for source, target in reversed(self._moves):
            # Moves that were not reached have nothing to take back.
            self._env.internal.execute(f"[ -e {shell_word(source)} ] || mv {shell_word(target)} {shell_word(source)}")
        failed = []
        for where, staged in self._files.items():
            try:
                if staged.original is None:
                    self._run(f"rm -f {shell_word(where)}")
                elif self._changed(where, data := staged.original.to_bytes()):
                    self._env.write_bytes(where, data)
            except TerminalError:
                failed.append(staged.shown_path)
        if failed:
            return f"these files could not be put back as they were: {', '.join(failed)}"
        return "no file was changed"

    def _changed(self, where: str, data: bytes) -> bool:
        try:
            return read_whole(self._env, where, where, self._guard) != data
        except UnreadableFileError:
            return True
