"""Redaction: replaces secrets in text by `[REDACTED:NAME]`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from environments.secrets import (
    AUTHORIZATION_HEAD,
    BOUNDARY,
    FORMS,
    PEM_HEAD,
    URL_PART,
    SecretValues,
    behind,
    compiled,
    find_forms,
    is_ordinary,
)

SHORTEST = 8
"""Minimum characters of a secret. Shorter values (`true`, `1234`) occur in ordinary text."""
CUT_SHORTEST = 4
"""Minimum characters of a secret's part next to a cut of the output."""
LINE_SHORTEST = 16
"""Minimum characters of a line that counts as a secret by itself, such as of a private key."""
LONGEST = 256
"""Maximum characters of a secret searched for at a time."""
MOST_HELD = 4
"""Maximum text held back, as a multiple of the longest piece."""
HELD = 16 * 1024
"""Maximum characters held back for a token or private key recognised by form."""


class _Span(NamedTuple):
    """The place of a secret in a text."""

    begin: int
    end: int
    name: str


class Redactor:
    """Replaces secrets by `[REDACTED:NAME]`.

    A given secret is recognised as it is, as written by Python, JSON, URLs and base64, and by each of its longer lines.
    Tokens, private keys and passwords in URLs are recognised by form, given or not.

    Args:
        secrets: Values by name. Values too short for a secret are ignored.
        is_off: True to recognise no forms.
    """

    def __init__(self, secrets: Mapping[str, str], is_off: bool = False) -> None:
        self._is_off = is_off
        self._names: dict[str, str] = {}
        for name, value in secrets.items():
            for form in _forms(value) if len(value) >= SHORTEST and not is_ordinary(value) else ():
                self._names.setdefault(form, name)
        self._forms = sorted(self._names)
        self._backwards = sorted(form[::-1] for form in self._forms)
        self._longest = max(map(len, self._forms), default=0)

    @classmethod
    def of(cls, secrets: Mapping[str, str]) -> Redactor:
        """Return a redactor, cached for the same secrets."""
        return _remembered(tuple(secrets.items()))

    def text(self, text: str, *, before: str = "", cut_before: bool = False, cut_behind: bool = False) -> str:
        """Return a text without secrets.

        Args:
            text: The text.
            before: The character before the text.
            cut_before: True if text before was omitted, which may have cut a secret.
            cut_behind: True if text after was omitted.
        """
        spans = self._spans(text, before)
        if cut_before and (piece := _cut(text[: self._longest][::-1], self._backwards)):
            spans.append(_Span(0, len(piece), self._names[_beginning_with(self._backwards, piece)[::-1]]))
        if cut_behind and (piece := _cut(text[-self._longest :], self._forms)):
            spans.append(_Span(len(text) - len(piece), len(text), self._names[_beginning_with(self._forms, piece)]))
        if cut_behind and not self._is_off and (begun := _cut_form(text)):
            spans.append(begun)
        return _without(text, sorted(spans)) if spans else text

    def safe_prefix(self, text: str, before: str = "") -> tuple[str, str]:
        """Return the beginning of a text without secrets, and the rest, where a secret may have begun.

        Prepend the rest to the next text.

        Args:
            text: The text.
            before: The character before the text.
        """
        edge = text[-self._longest :] if self._longest else ""
        held = next((len(edge) - n for n in range(len(edge)) if self._goes_on(edge[n:])), 0)
        place = len(text) - held
        if not self._is_off:
            place = min(place, max(0, len(text) - len(_last_match(_begun_forms()[1], behind(before, text)).lstrip())))
        spans = self._spans(text, before)
        for span in reversed(spans):
            if span.begin < place < span.end:
                # A secret that repeats itself without end would be held back forever.
                most = max(MOST_HELD * self._longest, HELD)
                place = span.begin if len(text) - span.begin < most else span.end
        return _without(text[:place], [span for span in spans if span.end <= place]), text[place:]

    def _goes_on(self, text: str) -> bool:
        """Return True if the text is a proper prefix of a secret."""
        place = bisect_left(self._forms, text)
        return any(form != text and form.startswith(text) for form in self._forms[place : place + 2])

    def _spans(self, text: str, before: str = "") -> list[_Span]:
        found = [_Span(*place, self._names[form]) for form in self._forms for place in _places(form, text)]
        known = [] if self._is_off else [_Span(*form) for form in find_forms(text, before)]
        return sorted(found + known)


class RedactedPieces:
    """Redacts text that arrives in pieces. A possible beginning of a secret is held back until decided."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._pending = self._before = ""

    def feed(self, text: str, final: bool = False) -> str:
        """Return the text that is complete so far, without secrets.

        Args:
            text: The next piece.
            final: True for the last piece.
        """
        text = self._pending + text
        if final:
            self._pending = ""
            return self._redactor.text(text, before=self._before)
        shown, self._pending = self._redactor.safe_prefix(text, self._before)
        self._before = text[: len(text) - len(self._pending)][-1:] or self._before
        return shown


def without_secrets(text: str) -> str:
    """Return text without the secrets of this process and all its environments."""
    return Redactor.of(SecretValues.of_all()).text(text)


@lru_cache(maxsize=16)
def _remembered(secrets: tuple[tuple[str, str], ...]) -> Redactor:
    return Redactor(dict(secrets))


def _forms(value: str) -> set[str]:
    """Return all spellings of a secret to search for."""
    import base64
    import json
    from urllib.parse import quote, quote_plus

    data = value.encode("utf-8", "surrogateescape")
    text = data.decode("utf-8", "replace")  # like output
    whole = data[: len(data) // 3 * 3]  # the last characters of base64 depend on the next bytes
    forms = {
        text,
        text.replace("\n", "\r\n"),
        repr(value)[1:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(data, safe=""),
        quote(data),
        quote_plus(data),
        base64.b64encode(whole).decode(),
        base64.urlsafe_b64encode(whole).decode(),
    }
    forms |= {line for line in text.split("\n") if len(line) >= LINE_SHORTEST and not line.startswith("-----")}
    return {piece for form in forms if len(form.strip()) >= SHORTEST for piece in _pieces(form.strip())}


def _pieces(form: str) -> Iterator[str]:
    """Split a long form, so that at most one piece is held back."""
    for begin in range(0, max(1, len(form) - SHORTEST), LONGEST):
        yield form[begin : begin + LONGEST] if begin + LONGEST + SHORTEST < len(form) else form[begin:]


def _places(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Return the places of a word in a text. Overlapping places, of a repetitive word, are merged."""
    begin = place = text.find(form)
    while place >= 0:
        end = place + len(form)
        place = text.find(form, place + 1)
        if not 0 <= place <= end:
            yield begin, end
            begin = place


@cache
def _begun_forms() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return two patterns for a form cut by the end of a text: with a complete prefix, and with any part."""
    tokens = "|".join(f"(?:{'|'.join(map(re.escape, form.prefixes))}){form.letters}*" for form in FORMS)
    key = rf"""{PEM_HEAD}[0-9A-Za-z\s\\|>:#*"',.+/=-]*"""
    whole = f"(?:{BOUNDARY}(?:{tokens})|{key})$"
    words = {word[:size] for form in FORMS for word in form.prefixes for size in range(1, len(word))}
    words |= {"-----BEGIN "[:size] for size in range(1, 11)}
    begun = "|".join(map(re.escape, sorted(words)))
    header = "|".join("authorization"[:size] for size in range(1, 14))
    asked = (
        rf"(?i:{header})|{AUTHORIZATION_HEAD}[A-Za-z]*(?:\s{{1,4}}[0-9A-Za-z._~+/=-]*)?"
        rf"|(?i:authorization)[\"'\s]{{0,5}}"
    )
    url = rf"[A-Za-z](?:://(?:{URL_PART})*|:/?)"
    any_ = f"(?:{BOUNDARY}(?:{tokens}|{begun}|{asked})|{key}|-----BEGIN [0-9A-Z -]*|-{{1,5}}|{url})$"
    return compiled(whole), compiled(any_)


def _cut_form(text: str) -> _Span | None:
    """Return the token or private key cut by the end of a text, if its prefix is complete."""
    begun = _last_match(_begun_forms()[0], text)
    for form in FORMS:
        for prefix in form.prefixes:
            place = begun.find(prefix, 0, len(prefix) + 1)
            if place >= 0:
                rest = begun[place + len(prefix) :]
                is_cut = re.search("[0-9A-Za-z]{8}", rest) if form.is_dense else len(rest) >= CUT_SHORTEST
                return _Span(len(text) - len(begun) + place, len(text), form.name) if is_cut else None
    return _Span(len(text) - len(begun), len(text), "private-key") if begun else None


def _last_match(pattern: re.Pattern[bytes], text: str) -> str:
    """Return the end of a text matched by a pattern, within the last `HELD` characters."""
    data = text[-HELD:].encode("utf-8", "surrogatepass")
    match = pattern.search(data)
    return data[match.start() :].decode("utf-8", "surrogatepass") if match else ""


def _cut(edge: str, forms: list[str]) -> str:
    """Return the longest end of a text that is the prefix of a word in a sorted list."""
    last = len(edge) - CUT_SHORTEST
    return next((edge[n:] for n in range(last + 1) if _beginning_with(forms, edge[n:])), "")


def _beginning_with(forms: list[str], text: str) -> str:
    """Return the first word in a sorted list with a prefix, or empty text."""
    place = bisect_left(forms, text)
    return forms[place] if place < len(forms) and forms[place].startswith(text) else ""


def _without(text: str, spans: list[_Span]) -> str:
    """Replace spans sorted by begin. Adjacent and overlapping spans are merged."""
    parts: list[str] = []
    shown, begun = 0, False
    for span in spans:
        if span.begin > shown or not begun:
            parts += [text[shown : span.begin], f"[REDACTED:{span.name}]"]
        shown, begun = max(shown, span.end), True
    return "".join([*parts, text[shown:]])
