"""Change parts of text files: one replacement, or a patch over several files."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Literal, NotRequired, TypedDict
from weakref import WeakKeyDictionary

from environments.base import BaseEnvironment
from hermes_tools.interruption import ToolInterruptedError, held
from hermes_tools.patch.closest_place import closest_place
from hermes_tools.patch.hunks import HunkError, hunk_edits
from hermes_tools.patch.staged_files import NOTHING_CHANGED, FileChange, StagedFiles, StagingError
from hermes_tools.patch.text_file import MAX_BYTES, MAX_LINES, Edit, FileSizeError, TextFile, is_too_large, occurrences
from hermes_tools.patch.v4a import FileOperation, PatchFormatError, parse_v4a

_NAMED_LINES = 20
_MAX_DIFF = 4_000_000
"""Limit in characters for all returned diffs."""
_MAX_OPERATIONS = 1000

_locks: WeakKeyDictionary[BaseEnvironment, threading.Lock] = WeakKeyDictionary()
_locks_lock = threading.Lock()


class PatchResult(TypedDict):
    """The result of `patch`. After a failure only `error` is set, and no file was changed."""

    diff: NotRequired[str]
    replacements: NotRequired[int]
    files_changed: NotRequired[int]
    files_added: NotRequired[int]
    files_deleted: NotRequired[int]
    lines_added: NotRequired[int]
    lines_removed: NotRequired[int]
    error: NotRequired[str]


class _ReplacementError(Exception):
    """The old text is missing or occurs several times."""


def patch(
    env: BaseEnvironment,
    path: str = "",
    old_string: str = "",
    new_string: str = "",
    replace_all: bool = False,
    mode: Literal["replace", "patch"] = "replace",
    patch: str | None = None,
) -> PatchResult:
    """Replace text in a file, or apply a V4A patch to several files. Mode and line endings of a file are kept.

    Files of up to 10 MB and 500,000 lines are changed, and none that the settings `write_denylist` and
    `write_safe_root` leave as they are.

    Args:
        path: With mode="replace": the file; relative paths start at the session's working directory.
        old_string: With mode="replace": the exact text to replace, indentation included, with as many lines around it
            as make it unique.
        new_string: With mode="replace": the text to put there; empty to delete.
        replace_all: With mode="replace": replace every occurrence, instead of refusing when there are several.
        mode: "replace" takes path, old_string, new_string and replace_all, "patch" takes `patch` alone.
        patch: With mode="patch": "*** Begin Patch", then sections "*** Update File: p" (optionally "*** Move to: q")
            with hunks of " ", "-" and "+" lines below optional "@@ line above" hints and "*** End of File"; "*** Add
            File: p" with "+" lines; "*** Delete File: p"; "*** Move File: p -> q"; then "*** End Patch". All or
            nothing.

    Returns:
        A dict with diff (unified, cut with a note after 4,000,000 characters), files_changed, files_added,
        files_deleted, lines_added, lines_removed, and in replace mode replacements. If text is missing or ambiguous, or
        a file not as expected, a dict with error alone, which names the lines; no file is changed then.

    Raises:
        ValueError: Arguments are missing, or do not belong together.
    """
    _check_arguments(path, old_string, new_string, mode, patch)
    with _locks_lock:
        lock = _locks.setdefault(env, threading.Lock())
    # Without the lock, two threads changing a file would each write without the other's change.
    try:
        with held(lock):
            result = PatchResult()
            if patch is None:
                staged = StagedFiles(env, several=False)
                result["replacements"] = _replace(staged, path, old_string, new_string, replace_all)
            else:
                operations = parse_v4a(patch)
                staged = StagedFiles(env, several=len(operations) > 1 or operations[0].move_to is not None)
                _apply(staged, operations)
            try:
                changes = staged.changes()
                staged.write()
            except ToolInterruptedError as error:
                return {"error": f"{error}; {staged.undo_all()}"}
    except (_ReplacementError, PatchFormatError, StagingError) as error:
        return {"error": str(error)}
    except ToolInterruptedError as error:
        return {"error": f"{error}; {NOTHING_CHANGED}"}
    return _with_counts(result, changes)


def _check_arguments(path: str, old: str, new: str, mode: str, patch: str | None) -> None:
    if mode not in ("replace", "patch"):
        raise ValueError(f"mode must be 'replace' or 'patch', not {mode!r}")
    if mode == "patch":
        if not patch or path or old or new:
            raise ValueError("mode='patch' takes patch=..., and no path, old_string or new_string")
        return
    if patch is not None:
        raise ValueError("patch=... goes with mode='patch'")
    if not path or not old:
        raise ValueError("path and old_string must not be empty; to make a new file, use write_file")
    if old == new:
        raise ValueError("old_string and new_string are the same: nothing would change")


def _replace(staged: StagedFiles, path: str, old: str, new: str, replace_all: bool) -> int:
    for name, text in (("old_string", old), ("new_string", new)):
        if is_too_large(text):
            raise _ReplacementError(f"{name} has more than {MAX_BYTES:,} characters or {MAX_LINES:,} lines")
    file = staged.read(path, None if replace_all else (old, new))
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    # A step of 1, because overlapping occurrences are not unique either.
    places = list(islice(occurrences(file.text, old, 1), 1 if replace_all else _NAMED_LINES + 1))
    if not places:
        near = closest_place(file.text.split("\n"), old.strip("\n").split("\n"))
        raise _ReplacementError(f"old_string was not found in {path}; {near}")
    if len(places) > 1:
        numbers = [str(file.text.count("\n", 0, place) + 1) for place in places[:_NAMED_LINES]]
        more = len(places) > _NAMED_LINES
        raise _ReplacementError(
            f"old_string is in {path} {f'more than {_NAMED_LINES}' if more else len(places)} times, at lines "
            f"{', '.join(numbers)}{', ...' if more else ''}: give it more of the lines around it, or replace_all=True"
        )
    try:
        changed = file.replaced(old, new) if replace_all else file.edited([Edit(places[0], places[0] + len(old), new)])
    except FileSizeError as error:
        raise _ReplacementError(f"{path} would have {error}") from error
    staged.update(path, changed)
    return file.text.count(old) if replace_all else 1


def _apply(staged: StagedFiles, operations: list[FileOperation]) -> None:
    if len(operations) > _MAX_OPERATIONS:
        raise StagingError(
            f"the patch has {len(operations):,} sections; at most {_MAX_OPERATIONS:,} are applied at once"
        )
    for operation in operations:
        if operation.kind == "add":
            staged.add(operation.path, operation.content)
        elif operation.kind == "delete":
            staged.delete(operation.path)
        else:
            _update(staged, operation)


def _update(staged: StagedFiles, operation: FileOperation) -> None:
    file: TextFile = staged.read(operation.path)
    try:
        staged.update(operation.path, file.edited(hunk_edits(file, operation.hunks)))
    except HunkError as error:
        raise StagingError(f"{operation.path}: {error}") from error
    except FileSizeError as error:
        raise StagingError(f"{operation.path} would have {error}") from error
    if operation.move_to is not None:
        staged.move(operation.path, operation.move_to)


def _with_counts(result: PatchResult, changes: list[FileChange]) -> PatchResult:
    kinds = [change.kind for change in changes]
    result["diff"] = _shown("".join(change.diff.text for change in changes))
    result["files_changed"] = kinds.count("changed")
    result["files_added"] = kinds.count("added")
    result["files_deleted"] = kinds.count("deleted")
    result["lines_added"] = sum(change.diff.lines_added for change in changes)
    result["lines_removed"] = sum(change.diff.lines_removed for change in changes)
    return result


def _shown(diff: str) -> str:
    if len(diff) <= _MAX_DIFF:
        return diff
    end = diff.rindex("\n", 0, _MAX_DIFF)
    return f"{diff[:end]}\n[diff cut after {_MAX_DIFF:,} characters]\n"
