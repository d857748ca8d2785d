"""The HTML page of a report: a file without network requests, enforced by a content security policy."""

from __future__ import annotations

import hashlib
import html
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from hermes_env.report.contents import contents_of
from hermes_env.report.record import JoinedRecord

MARK = '<meta name="generator" content="hermes-env report">'
"""The marker of a report in the first lines of a file. A new report may replace such a file."""
_ASSETS = Path(__file__).parent / "assets"
_STYLES = ("tokens", "frame", "toolbar", "overview", "rows", "details")
_SCRIPTS = (
    *("format", "element", "text", "model", "sweep", "waiting", "axis", "filter", "theme", "summary", "overview"),
    *("bars", "rows", "text_block", "details", "toolbar", "page"),
)


def page_of(record: JoinedRecord, name: str) -> Iterator[str]:
    """Yield the pieces of a record's HTML page.

    Args:
        record: The record.
        name: The title, such as the file name of the record.
    """
    contents, texts = contents_of(record)
    style = "\n".join(_asset(f"{name}.css") for name in _STYLES)
    script = '"use strict";\n(() => {\n' + "\n".join(_asset(f"{name}.js") for name in _SCRIPTS) + "\n})();"
    parts = {
        "MARK": MARK,
        "POLICY": html.escape(_policy(style, script)),
        "NAME": html.escape(_printable(name)),
        "STYLE": style,
        "EVENTS": _embedded({"name": name, **contents}),
        "TEXTS": _embedded(texts),
        "SCRIPT": script,
    }
    for place, piece in enumerate(_asset("page.html").split("@@")):
        yield parts[piece] if place % 2 else piece


def is_report(path: Path) -> bool:
    """Return True if a file is a report, replaceable by a new one."""
    with path.open("rb") as file:
        return MARK.encode() in file.read(512)


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return a content security policy with this script and this style, and without requests."""
    allowed = {"script-src": script, "style-src": style}
    hashes = {
        kind: "'sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
        for kind, text in allowed.items()
    }
    directives = ["default-src 'none'", *(f"{kind} {hash_}" for kind, hash_ in hashes.items()), "img-src data:"]
    return "; ".join([*directives, "base-uri 'none'", "form-action 'none'"])


def _embedded(value: object) -> str:
    """Return a value as JSON with escapes, so that no text ends the surrounding element."""
    # Half of a surrogate pair cannot be written as UTF-8; a record may have it escaped.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _printable(text).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _printable(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode()
