"""The contents of a report: the events of a record as JSON for the page's script."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes_env.report.record import JoinedRecord, Note, RecordedEvent, number
from hermes_env.report.texts import Pieces, Texts, entries_missing, gaps_of, missing_within, with_gaps

_TEXTS = ("command", "script", "output", "stderr", "result", "error", "note")
"""Keys shown as texts."""
_OBJECTS = ("arguments", "result")
"""Keys shown part by part if the value is an object."""
_OWN = {
    *("event", "run", "time", "id", "parent", "kind", "name", "seconds", "waited", "approval", "status"),
    *("cut", "omitted_at", "omitted_bytes"),
}
"""Keys not shown as facts: shown elsewhere, or marks of missing text."""
_DISTINCTIVE = ("command", "pattern", "query", "path", "url", "urls", "action", "process_id")
"""The arguments that distinguish calls of a tool, in the order shown after the name."""
_HINT = 160
"""Characters of these arguments."""
_LINE = 100
"""Characters of the longest list or object on a single line."""
_DAMAGES = 100
"""The number of listed damaged lines; all are counted."""


def contents_of(record: JoinedRecord) -> tuple[dict[str, object], list[Pieces]]:
    """Return the events of a record, ready for JSON, and their texts, referenced by number."""
    texts = Texts()
    base = min([run.time for run in record.runs] + [event.time for event in record.events])
    notes: dict[int | None, list[object]] = {}
    for note in record.notes:
        notes.setdefault(note.event, []).append(_note(note, base))
    contents: dict[str, object] = {
        "base": base,
        "runs": [
            {
                "id": run.id,
                "t": run.time - base,
                "last": record.last[number_] - base,
                **{key: run.about[key] for key in ("program", "pid", "host") if key in run.about},
            }
            for number_, run in enumerate(record.runs)
        ],
        "events": [_event(event, base, texts, notes.get(place)) for place, event in enumerate(record.events)],
        "notes": notes.get(None, []),
        "damages": [[damage.number, damage.what] for damage in record.damages[:_DAMAGES]],
        "damaged": len(record.damages),
    }
    return contents, texts.bounded()


def _note(note: Note, base: float) -> dict[str, object]:
    shown = {key: note.about[key] for key in ("text", "done", "total") if key in note.about}
    return {"run": note.run, "t": note.time - base, **shown}


def _event(event: RecordedEvent, base: float, texts: Texts, notes: list[object] | None) -> dict[str, object]:
    began, ended = event.began, event.ended or {}
    kind = str(began.get("kind") or "event")
    contents: dict[str, object] = {
        "run": event.run,
        "parent": event.parent,
        "kind": kind,
        "name": _name(began, kind),
        "t": event.time - base,
        "d": event.seconds,
        "status": "unfinished" if event.ended is None else str(ended.get("status") or "success"),
        "texts": {},
        "facts": {},
    }
    contents |= {
        key: seconds
        for key in ("waited", "approval")
        if (seconds := number(ended.get(key))) is not None and seconds > 0
    }
    if hint := _hint(began):
        contents["hint"] = hint
    for line in (began, ended):
        _sort_into(contents, line, texts)
    if notes:
        contents["notes"] = notes
    return contents


def _name(began: Mapping[str, object], kind: str) -> str:
    name = str(began.get("name") or kind)
    if kind != "script":
        return name
    # The name of a script is its first line, often its docstring.
    return (name.strip("\"' ") if name.startswith(('"', "'")) else name.lstrip("#! ")) or name


def _hint(began: Mapping[str, object]) -> str:
    """Return the distinctive arguments of a call without a name of its own."""
    arguments = began.get("arguments")
    if not isinstance(arguments, dict) or began.get("name") != began.get("tool"):
        return ""
    keys = [key for key in _DISTINCTIVE if key in arguments] or list(arguments)
    values = [arguments[key] for key in keys if arguments[key] not in (None, "", [], {})]
    shown = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
    return "  ".join(text.strip().partition("\n")[0] for text in shown)[:_HINT]


def _sort_into(contents: dict[str, object], line: Mapping[str, object], texts: Texts) -> None:
    """Add the values of a line: texts by number, all others as facts."""
    shown, facts = contents["texts"], contents["facts"]
    assert isinstance(shown, dict) and isinstance(facts, dict)
    for key, value in line.items():
        if key in _OBJECTS and isinstance(value, dict):
            parts = {name: part for name, part in value.items() if part is not None}
            contents[key] = {name: texts.add(_pieces(line, f"{key}.{name}", part)) for name, part in parts.items()}
        elif key in _TEXTS:
            if value not in (None, ""):
                shown[key] = texts.add(_pieces(line, key, value))
        elif key not in _OWN:
            facts[key] = value


def _pieces(line: Mapping[str, object], key: str, value: object) -> Pieces:
    if isinstance(value, str):
        return with_gaps(value, gaps_of(line, key))
    try:
        pieces: Pieces = [_laid_out(value)]
    except RecursionError:
        pieces = ["(nested too deep to be shown)"]
    if missing := missing_within(line, key):
        pieces.append(missing)
    if entries := entries_missing(line, key):
        pieces.append(f"\n({entries} more entries are not in the record)")
    return pieces


def _laid_out(value: object, indent: str = "") -> str:
    """Return a value as indented JSON, with short parts on a single line."""
    whole = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(whole) <= _LINE or not isinstance(value, dict | list) or not value:
        return whole
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {_laid_out(part, deeper)}" for key, part in value.items()]
    else:
        parts = [_laid_out(part, deeper) for part in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{closing}"
