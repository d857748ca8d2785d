"""Changes to several files, made ready first and then written all together or not at all."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from environments.base import BaseEnvironment, EnvironmentLostError, TerminalError
from hermes_tools.target_paths import failed_command_error, missing_file_error, shell_word, target_path
from hermes_tools.text_file import BinaryFileError, TextFile
from hermes_tools.unified_diff import FileDiff, unified_diff


class StagingError(Exception):
    """A file is not as the change needs it, or could not be written. The message names it."""


@dataclass(slots=True)
class _Staged:
    """A file of the target as it was, and as it is to be. None is no file."""

    shown_path: str
    original: TextFile | None
    current: TextFile | None
    moved_from: str | None = None
    moved_to: str | None = None


class StagedFiles:
    """Files read from the target once, changed here, and written back by `write`."""

    def __init__(self, env: BaseEnvironment) -> None:
        self._env = env
        self._files: dict[str, _Staged] = {}
        self._moves: list[tuple[str, str]] = []

    def read(self, path: str) -> TextFile:
        """Return a file as it stands after the changes so far.

        Raises:
            StagingError: There is no such file, or it is binary or unreadable.
        """
        where = self._key(path)
        staged = self._files.get(where)
        if staged is None:
            file = self._load(path, where)
            self._files[where] = _Staged(path, file, file)
            return file
        if staged.current is None:
            raise StagingError(f"{path} was deleted or moved earlier in the patch")
        return staged.current

    def add(self, path: str, text: str) -> None:
        """Make a new file.

        Raises:
            StagingError: The file exists.
        """
        self._vacant(path).current = TextFile.from_bytes(text.encode("utf-8", "surrogateescape"))

    def update(self, path: str, file: TextFile) -> None:
        """Change a file that was read."""
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
        target.current, source.current = source.current, None
        target.moved_from, source.moved_to = path, new_path
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
                directory = shell_word(posixpath.dirname(target) or ".")
                self._run(f"mkdir -p {directory} && mv -f {shell_word(source)} {shell_word(target)}")
            for where, staged in self._files.items():
                on_disk = self._original_of(staged)
                if staged.current is not None and staged.current != on_disk:
                    self._env.write_bytes(where, staged.current.to_bytes())
            moved = {source for source, _ in self._moves}
            for where, staged in self._files.items():
                if staged.current is None and staged.original is not None and where not in moved:
                    self._run(f"rm -f {shell_word(where)}")
        except EnvironmentLostError:
            raise
        except TerminalError as error:
            raise StagingError(f"{error}; {self._take_back()}") from error

    def diffs(self) -> list[FileDiff]:
        """Return what changed in each file, in the order the files were named."""
        found = []
        for staged in self._files.values():
            if staged.moved_to is not None and staged.current is None:
                continue
            old_path = staged.moved_from or (staged.shown_path if staged.original else None)
            new_path = staged.shown_path if staged.current else None
            old, new = self._original_of(staged), staged.current
            if old != new or staged.moved_from:
                found.append(unified_diff(old_path, new_path, old.text if old else "", new.text if new else ""))
        return found
