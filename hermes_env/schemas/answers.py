"""The answer to a model's call: JSON text of a bounded length."""

from __future__ import annotations

import json

MAX_ANSWER_CHARACTERS = 100_000
"""Characters of text in an answer. A longer answer would fill the context of most models with a single call."""
_SMALLEST_SHARE = 100
"""Characters of a note, and of the smallest useful text."""
_FRAME = 4
"""Characters that JSON puts around a value: quotes, a comma, a space."""


def error_answer(message: str) -> str:
    """Return the answer for a failure."""
    return answer({"error": message})


def answer(value: object) -> str:
    """Return a result as JSON text with at most some 100,000 characters of text.

    In a longer result, texts lose their middle, lists their end and mappings their largest values. A note in place of
    them has the number.

    Raises:
        ValueError: JSON cannot express the value.
    """
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(value, inf_nan_mode="null")
    text = json.dumps(_bounded(plain, MAX_ANSWER_CHARACTERS), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode()  # a lone surrogate can't be sent


def _size(value: object) -> int:
    if isinstance(value, dict):
        return _FRAME + sum(_size(key) + _size(item) for key, item in value.items())
    if isinstance(value, list):
        return _FRAME + sum(map(_size, value))
    return len(str(value)) + _FRAME


def _bounded(value: object, room: int) -> object:
    """Return a value cut to some `room` characters."""
    if (size := _size(value)) <= room:
        return value
    room -= _SMALLEST_SHARE  # for the note
    if isinstance(value, str):
        kept, length = max(0, room) // 2, len(value)
        note = f"\n[... {length - 2 * kept:,} of {length:,} characters left out ...]\n"
        return value[:kept] + note + value[length - kept :]
    if isinstance(value, list):
        return _bounded_list(value, room)
    if isinstance(value, dict):
        return _bounded_mapping(value, room)
    return f"[a number of {size} digits left out]"


def _bounded_list(items: list[object], room: int) -> list[object]:
    kept: list[object] = []
    for item in items:
        size = _size(item)
        if size > room:
            if not kept and room > _SMALLEST_SHARE:
                kept.append(_bounded(item, room))
            break
        kept.append(item)
        room -= size
    return [*kept, f"[... {len(items) - len(kept):,} of {len(items):,} left out ...]"]


def _bounded_mapping(mapping: dict[str, object], room: int) -> dict[str, object]:
    """Keep small values whole, and share the rest of the room among the large ones."""
    kept: dict[str, object] = {}
    by_size = sorted(mapping, key=lambda key: _size(mapping[key]))
    for position, key in enumerate(by_size):
        share = room // (len(by_size) - position) - _size(key)
        if share < min(_SMALLEST_SHARE, _size(mapping[key])):
            break
        kept[key] = _bounded(mapping[key], share)
        room -= _size(key) + _size(kept[key])
    shown = {key: kept[key] for key in mapping if key in kept}
    if left_out := len(mapping) - len(kept):
        shown["..."] = f"[{left_out:,} of {len(mapping):,} entries left out]"
    return shown
