"""Takes secrets out of text."""

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
"""Characters from which on a value is a secret. Shorter ones (`true`, `1234`) are parts of ordinary text."""
CUT_SHORTEST = 4
"""Characters of a secret that are taken for it where an output was cut."""
LINE_SHORTEST = 16
"""Characters of a line of a secret, such as a private key, that is taken for a secret by itself."""
LONGEST = 256
"""Characters of a secret that are looked for at a time."""
MOST_HELD = 4
"""How many times the longest of these pieces is held back at most."""
HELD = 16 * 1024
"""Characters of a token or private key, known by its form, that are waited for."""


class _Span(NamedTuple):
    """A stretch of text that is a secret."""

    begin: int
    end: int
    name: str


class Redactor:
    """Replaces what stands for a secret by `[REDACTED:NAME]`.

    A given secret is known as it is, as Python, JSON, URLs and base64 write it, and by each longer line of it. Tokens,
    private keys and passwords in URLs are known by their form, whether they were given or not.

    Args:
        secrets: Names with their values. What is too short to be a secret is passed over.
        is_off: True if text is to stay as it is.
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
        """Return a redactor, the one of before if the secrets are the same."""
        return _remembered(tuple(secrets.items()))

    def text(self, text: str, *, before: str = "", cut_before: bool = False, cut_behind: bool = False) -> str:
        """Return a text without secrets.

        Args:
            text: The text.
            before: The character in front of it.
            cut_before: Whether something in front of it was left out, which may be a part of a secret.
            cut_behind: The same of its end.
        """
        spans = self._spans(text, before)
        if cut_before and (piece := _cut(text[: self._longest][::-1], self._backwards)):
            spans.append(_Span(0, len(piece), self._names[_beginning_with(self._backwards, piece)[::-1]]))
        if cut_behind and (piece := _cut(text[-self._longest :], self._forms)):
            spans.append(_Span(len(text) - len(piece), len(text), self._names[_beginning_with(self._forms, piece)]))
        if cut_behind and not self._is_off and (begun := _cut_form(text)):
            spans.append(begun)
        return _without(text, sorted(spans)) if spans else text

    def begun(self, text: str, before: str = "") -> tuple[str, str]:
        """Return the beginning of a text without secrets, and the rest, in which one may have begun.

        The rest is to come back in front of what follows.

        Args:
            text: The text.
            before: The character in front of it.
        """
        edge = text[-self._longest :] if self._longest else ""
        held = next((len(edge) - n for n in range(len(edge)) if self._goes_on(edge[n:])), 0)
        place = len(text) - held
        if not self._is_off:
            place = min(place, max(0, len(text) - len(_last_match(_begun_forms()[1], behind(before, text)).lstrip())))
        spans = self._spans(text, before)
        for span in reversed(spans):
            if span.begin < place < span.end:
                # One that goes on and on, as it repeats itself, would be held back for ever.
                most = max(MOST_HELD * self._longest, HELD)
                place = span.begin if len(text) - span.begin < most else span.end
        return _without(text[:place], [span for span in spans if span.end <= place]), text[place:]

    def _goes_on(self, text: str) -> bool:
        """Whether a text is the beginning of a secret, and not all of it."""
        place = bisect_left(self._forms, text)
        return any(form != text and form.startswith(text) for form in self._forms[place : place + 2])

    def _spans(self, text: str, before: str = "") -> list[_Span]:
        found = [_Span(*place, self._names[form]) for form in self._forms for place in _places(form, text)]
        known = [] if self._is_off else [_Span(*form) for form in find_forms(text, before)]
        return sorted(found + known)


class RedactedPieces:
    """Redacts text that comes in pieces; what may be the beginning of a secret is held back until that is known."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._pending = self._before = ""

    def feed(self, text: str, final: bool = False) -> str:
        """Return what can be shown of all that has come.

        Args:
            text: The next piece.
            final: Whether it is the last one.
        """
        text = self._pending + text
        if final:
            self._pending = ""
            return self._redactor.text(text, before=self._before)
        shown, self._pending = self._redactor.begun(text, self._before)
        self._before = text[: len(text) - len(self._pending)][-1:] or self._before
        return shown


def without_secrets(text: str) -> str:
    """Return text without the secrets of this process and of all its environments."""
    return Redactor.of(SecretValues.of_all()).text(text)


@lru_cache(maxsize=16)
def _remembered(secrets: tuple[tuple[str, str], ...]) -> Redactor:
    return Redactor(dict(secrets))


def _forms(value: str) -> set[str]:
    """Return all that a secret is known by."""
    import base64
    import json
    from urllib.parse import quote, quote_plus

    data = value.encode("utf-8", "surrogateescape")
    text = data.decode("utf-8", "replace")  # as output is decoded
    whole = data[: len(data) // 3 * 3]  # the last characters of base64 depend on what comes behind
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
    """Cut a long form, so that never more than one piece of it need be held back."""
    for begin in range(0, max(1, len(form) - SHORTEST), LONGEST):
        yield form[begin : begin + LONGEST] if begin + LONGEST + SHORTEST < len(form) else form[begin:]


def _places(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Find a word in a text. Places that overlap, as it may repeat itself, are one."""
    begin = place = text.find(form)
    while place >= 0:
        end = place + len(form)
        place = text.find(form, place + 1)
        if not 0 <= place <= end:
            yield begin, end
            begin = place


@cache
def _begun_forms() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return what matches a form that the end of a text cuts: one whose prefix is whole, and any."""
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
    """Return the token or private key whose prefix is whole, and that the end of a text cuts."""
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
    """Return the end of a text that a pattern matches, of what stands in no more than `HELD` characters."""
    data = text[-HELD:].encode("utf-8", "surrogatepass")
    match = pattern.search(data)
    return data[match.start() :].decode("utf-8", "surrogatepass") if match else ""


def _cut(edge: str, forms: list[str]) -> str:
    """Return the longest end of a text that one of some sorted words begins with."""
    last = len(edge) - CUT_SHORTEST
    return next((edge[n:] for n in range(last + 1) if _beginning_with(forms, edge[n:])), "")


def _beginning_with(forms: list[str], text: str) -> str:
    """Return the first of some sorted words that begins with a text, or nothing."""
    place = bisect_left(forms, text)
    return forms[place] if place < len(forms) and forms[place].startswith(text) else ""


def _without(text: str, spans: list[_Span]) -> str:
    """Replace stretches of a text, sorted by where they begin; those that touch or overlap are one."""
    parts: list[str] = []
    shown, begun = 0, False
    for span in spans:
        if span.begin > shown or not begun:
            parts += [text[shown : span.begin], f"[REDACTED:{span.name}]"]
        shown, begun = max(shown, span.end), True
    return "".join([*parts, text[shown:]])
