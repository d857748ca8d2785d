"""Output of the target's ripgrep, grep or find, parsed as it arrives, and kept up to a limit."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, NoReturn

from environments.base import BaseEnvironment
from environments.result import CommandResult
from hermes_tools.files.lines import MAX_DIGITS, MAX_LINE_BYTES, quoted
from hermes_tools.files.target_paths import failed_command_error, missing_file_error
from hermes_tools.interruption import raise_if_interrupted
from hermes_tools.search.engines import NEEDS_RIPGREP, Engine

MAX_FILES = 250_000
"""Limit of files in the result of a search by name; with paths of 40 characters, they fill the usual output cap."""
Form = Literal["names", "files", "counts", "lines", "groups"]
"""Names of all files; names of files with matches; counts of matches by file; lines; or lines with context."""

_LINE_OVERHEAD = 30
"""Bytes counted for a line beyond its text, as an empty line takes memory too."""
_LONGEST_PATH = 8192
_LONGEST_MESSAGE = 4096
_NUMBER = rb"(\d{1,%d})" % MAX_DIGITS
# The groups are path, number, mark and text.
_NAMES = re.compile(rb"([^\0]*)\0()()()")
_COUNTS = re.compile(rb"([^\0]*)\0" + _NUMBER + rb"()()\n")
_LINES = re.compile(rb"([^\0]*)\0" + _NUMBER + rb"([:-])([^\n]*)\n")
_BUSYBOX_COUNTS = re.compile(rb"([^\n]*):" + _NUMBER + rb"()()\n")
_BUSYBOX_LINES = re.compile(rb"([^\n]*?):" + _NUMBER + rb"(:)([^\n]*)\n")
_BUSYBOX_PLACE = re.compile(rb"([:-])" + _NUMBER + rb"(?=\1)")
_BETWEEN_GROUPS = b"--"
# ripgrep prints this note behind the matches in front of a NUL byte.
_BINARY_NOTE = re.compile(
    rb"(?:--\n)?(.*?): (?:WARNING: stopped searching binary file|binary file matches)[^\n]*\n", re.DOTALL
)


class SearchError(Exception):
    """The search failed. The message is for the caller."""


class SearchRecord(NamedTuple):
    """A file, or a line of a file, in the result of a search."""

    path: str
    """The path, relative to the searched directory."""
    number: int
    """The line's number, or the number of the file's matching lines."""
    is_match: bool
    """False for a line around a match."""
    text: bytes


class _LimitReachedError(Exception):
    """The result exceeds the limit. Raised to end the search program."""


class SearchOutput:
    """Output of a search.

    Args:
        env: The environment.
        where: The place as the target sees it.
        shown: The place as the caller gave it.
        form: Form of the output.
        is_wanted: True for the paths to keep.
    """

    def __init__(
        self, env: BaseEnvironment, where: str, shown: str, form: Form, is_wanted: Callable[[str], bool]
    ) -> None:
        self.records: list[SearchRecord] = []
        self.skipped: set[str] = set()
        """Paths beyond UTF-8, with replacement characters: no tool can open them by name."""
        self.is_complete = True
        """False if the result exceeds the limit."""
        self._env, self._where, self._shown = env, where, shown
        self._form: Form = form
        self._is_wanted = is_wanted
        self._header = ""
        self._pending = bytearray()
        self._message = b""
        self._room = env.settings.max_output_bytes
        self._binary: set[str] = set()
        self._latest = (b"", "", False)
        """Path of the latest record, the same as text, and whether it is wanted."""

    @property
    def is_file(self) -> bool:
        """True if the place is a file and no directory."""
        return self._header.startswith("file")

    @property
    def engine(self) -> Engine:
        """The search program."""
        return "ripgrep" if self._header.endswith("ripgrep") else "grep"

    def read(self, command: str) -> None:
        """Run a command of `engines` and read its output.

        Raises:
            SearchError: The place cannot be searched, or the search program failed.
            ToolInterruptedError: The current scope was cancelled.
        """
        with contextlib.suppress(_LimitReachedError):
            self._check(
                self._env.internal.execute(
                    command, stderr="separate", binary=True, max_output_bytes=1, on_output=self._receive
                )
            )
        if self._is_in_groups:
            with contextlib.suppress(_LimitReachedError):
                self._parse_groups()
        elif self.is_complete and self._without_notes(bytes(self._pending)):
            raise self._unexpected_output()
        self.records = [record for record in self.records if record.path not in self._binary]

    @property
    def _is_busybox(self) -> bool:
        return self._header.endswith("busybox")

    @property
    def _is_in_groups(self) -> bool:
        return self._is_busybox and self._form == "groups"

    def _receive(self, data: bytes, channel: str) -> None:
        raise_if_interrupted()
        if channel == "stderr":
            self._message = (self._message + data)[:_LONGEST_MESSAGE]
            return
        self._pending += data
        if not self._header and (end := self._pending.find(b"\n")) >= 0:
            self._header = self._pending[:end].decode("utf-8", "replace")
            del self._pending[: end + 1]
        if self._header and not self._is_in_groups:
            self._parse_records()
        if len(self._pending) > self._env.settings.max_output_bytes:
            self._stop()

    def _check(self, result: CommandResult) -> None:
        failure = failed_command_error(result, f"searching {self._shown}")
        if failure and (result.timed_out or result.interrupted):
            raise SearchError(failure)
        if self._header == "missing":
            raise SearchError(missing_file_error(self._env, self._where))
        if self._header in ("special", "unreadable"):
            raise SearchError(f"{self._shown} cannot be searched: it is {self._header}")
        if self._header.startswith(NEEDS_RIPGREP):
            raise SearchError(
                f"the target has no ripgrep, and its grep -E takes {self._header.removeprefix(NEEDS_RIPGREP)} of the "
                "regex for something else; write [0-9] for \\d, [[:alnum:]_] for \\w and [[:space:]] for \\s in a "
                "set, the character itself for other escapes, ( for (?:, + for +?, and no look-around"
            )
        if self._header.partition(" ")[0] not in ("directory", "file"):
            raise SearchError(f"searching {self._shown} printed unexpected output: {quoted(self._header)}")
        # find runs BusyBox's grep, and reports unreadable directories.
        lines = self._message.decode("utf-8", "replace").splitlines()
        message = "\n".join(line for line in lines if not line.startswith("find: ")).strip()
        message = message.removeprefix("rg: ").removeprefix("grep: ")
        if result.exit_code and message and not self.records:
            raise SearchError(f"{self.engine} refused the search: {message}")
        # Exit code 2 means that some files could not be read.
        if failure and result.exit_code > 2:
            raise SearchError(failure)

    def _parse_records(self) -> None:
        if self._form in ("lines", "groups"):
            pattern = _BUSYBOX_LINES if self._is_busybox else _LINES
        elif self._form == "names" or (self._form == "files" and self._header.endswith(" grep")):
            pattern = _NAMES
        else:
            pattern = _BUSYBOX_COUNTS if self._is_busybox else _COUNTS
        at = 0
        while found := pattern.match(self._pending, at):
            at = found.end()
            path, number, mark, text = found.groups()
            if number != b"0":  # grep counts in files without matches, too
                self._add(self._without_notes(path), int(number or 0), mark != b"-", text[:MAX_LINE_BYTES])
        del self._pending[:at]
        if not self._is_busybox and len(self._pending) > _LONGEST_PATH and b"\0" not in self._pending[:_LONGEST_PATH]:
            raise self._unexpected_output()

    def _without_notes(self, path: bytes) -> bytes:
        """Return a path without the text in front: notes on binary files, and the line between groups."""
        while b"\n" in path and (note := _BINARY_NOTE.match(path)):
            self._binary.add(self._name(note[1]))
            path = path[note.end() :]
        return path.removeprefix(_BETWEEN_GROUPS + b"\n")

    def _parse_groups(self) -> None:
        group: list[bytes] = []
        for line in [*self._pending.split(b"\n"), _BETWEEN_GROUPS]:
            if line == _BETWEEN_GROUPS:
                self._parse_group(group)
                group = []
            elif line:
                group.append(bytes(line))

    def _parse_group(self, lines: list[bytes]) -> None:
        """Parse adjacent lines: each is a path, `:` or for context `-`, a number, the same sign, and text."""
        while lines:
            path, first, size = _place(lines)
            if not size and self.is_complete:
                raise self._unexpected_output()
            for number, line in enumerate(lines[:size], first):
                rest = line[len(path) :]
                self._add(path, number, rest.startswith(b":"), rest[len(str(number)) + 2 :][:MAX_LINE_BYTES])
            lines = lines[size:] if size else []

    def _add(self, path: bytes, number: int, is_match: bool, text: bytes) -> None:
        is_line = self._form in ("lines", "groups")
        cost = len(text) + _LINE_OVERHEAD if is_line else 1
        if path != self._latest[0]:
            raise_if_interrupted()
            name = self._name(path)
            self._latest = (path, name, self._is_wanted(name))
            cost += len(path)
        _, name, is_wanted = self._latest
        if not is_wanted:
            return
        if b"\0" in text:
            self._binary.add(name)
        elif "\ufffd" in name:
            self.skipped.add(name)
        self._room -= cost
        if self._room < 0 or (not is_line and len(self.records) >= MAX_FILES):
            self._stop()
        self.records.append(SearchRecord(name, number, is_match, text))

    def _name(self, path: bytes) -> str:
        if self.is_file:
            return posixpath.basename(self._where)
        return path.removeprefix(b"./").decode("utf-8", "replace")

    def _stop(self) -> NoReturn:
        self.is_complete = False
        raise _LimitReachedError

    def _unexpected_output(self) -> SearchError:
        printed = quoted(self._pending[:_LONGEST_PATH].decode("utf-8", "replace"))
        return SearchError(f"the search program of the target printed {printed} in place of matches")


def too_many_files(env: BaseEnvironment, shown: str) -> SearchError:
    """Return the error of a search for names with too many files in its result."""
    return SearchError(
        f"too many files match below {shown}: a search takes at most {MAX_FILES:,}, and their list must fit into "
        f"max_output_bytes ({env.settings.max_output_bytes:,}); narrow the path or file_glob"
    )


def _place(lines: Sequence[bytes]) -> tuple[bytes, int, int]:
    """Return the path and number at the beginning of lines, and the number of adjacent lines in the same file.

    A path may have `-2-` in it. The end of the path is the position behind which the numbers of the most lines rise by
    1, with a match among them.
    """
    best = (b"", 0, 0)
    for found in _BUSYBOX_PLACE.finditer(lines[0]):
        path, first = lines[0][: found.start()], int(found[2])
        size, has_match = 0, False
        for number, line in enumerate(lines, first):
            if line.startswith(b"%b:%d:" % (path, number)):
                has_match = True
            elif not line.startswith(b"%b-%d-" % (path, number)):
                break
            size += 1
        if has_match and size > best[2]:
            best = (path, first, size)
    return best
