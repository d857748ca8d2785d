"""Secrets: which names and values are secret, and taking the values out of text."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakSet

from environments.owner import MARKER_VARIABLE
from environments.settings import BackendSettings, EnvironmentSettings
from environments.variables import Passthrough

SECRET_WORDS = (
    "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDS", "AUTH", "BEARER", "COOKIE",
    "DSN", "WEBHOOK", "SIGNATURE", "PRIVATE", "CONNECTION_STRING", "DATABASE_URL", "_PWD", "_PASS",
)  # fmt: skip
"""A name that holds one of these, in any case, is taken for that of a secret. PWD and OLDPWD hold none."""
_HARMLESS = (
    r"AUTHOR(?!I[SZ]|ITY)|TOKENIZERS?|KEYBOARD|KEYCLOAK|KEYMAP|KEYSPACE|MONKEY|SSH_AUTH_SOCK|WEB_ALLOW_PRIVATE|"
    r"_PASS_?THROUGH"
)
"""What holds a secret word in other names, such as GIT_AUTHOR_NAME, whose values are in ordinary output."""
_OF_PATHS = ("_FILE", "_FILES", "_PATH", "_DIR", "_HOME", "_SOCK", "_SOCKET", "_ASKPASS")

PROVIDERS = (
    "AI21", "ALIBABA", "ANTHROPIC", "AWS", "AZURE", "BRAVE", "CEREBRAS", "CLAUDE", "CLOUDFLARE", "COHERE", "DASHSCOPE",
    "DATABRICKS", "DAYTONA", "DEEPSEEK", "DIGITALOCEAN", "DISCORD", "DOCKER", "E2B", "EXA", "FAL", "FIRECRAWL",
    "FIREWORKS", "GCP", "GEMINI", "GH", "GITHUB", "GITLAB", "GLM", "GOOGLE", "GROQ", "HERMES", "HF", "HUGGINGFACE",
    "HUGGING_FACE", "KIMI", "LANGCHAIN", "LANGSMITH", "MINIMAX", "MISTRAL", "MODAL", "MOONSHOT", "NOUS", "NPM",
    "NVIDIA", "OPENAI", "OPENROUTER", "PERPLEXITY", "PINECONE", "PYPI", "REPLICATE", "SENDGRID", "SLACK", "STRIPE",
    "TAVILY", "TELEGRAM", "TERMINAL", "TOGETHER", "TWILIO", "TWINE", "VAULT", "VERCEL", "WANDB", "XAI", "ZAI", "ZHIPU",
)  # fmt: skip
"""Services whose keys people have in their environment, and this package itself: their variables begin with these."""
_RUNS_OTHERWISE = (
    "PATH", "HOME", "SHELL", "ENV", "IFS", "PS4", "PROMPT_COMMAND", "TMPDIR", "EDITOR", "VISUAL", "PAGER", "MANPAGER",
    "BROWSER", "LESSOPEN", "LESSCLOSE", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "CLASSPATH", "SHELLOPTS",
    "BASHOPTS", "VIRTUAL_ENV", "CONDA_PREFIX", "KUBECONFIG", "DATABASE_URL", "SSH_AUTH_SOCK",
)  # fmt: skip
_RUNS_OTHERWISE_PREFIXES = (
    "LD_", "DYLD_", "PYTHON", "BASH_", "PERL", "RUBY", "NODE_", "JAVA_", "JDK_", "_JAVA_", "GIT_", "PIP_", "UV_",
    "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
)  # fmt: skip


def holds_secret_word(name: str) -> bool:
    """Whether a name holds one of the `SECRET_WORDS`."""
    upper = name.upper()
    return any(word in upper for word in SECRET_WORDS)


def names_secret(name: str, value: str) -> bool:
    """Whether a variable is taken for a secret whose value is not to be shown.

    A path is none (SSH_AUTH_SOCK, GOOGLE_APPLICATION_CREDENTIALS_FILE), and neither is what only looks like one by its
    name (GIT_AUTHOR_NAME).
    """
    if not _sounds_secret(name):
        return False
    return not (value.startswith(("/", "~/")) and name.upper().endswith(_OF_PATHS))


@lru_cache(maxsize=4096)
def _sounds_secret(name: str) -> bool:
    return holds_secret_word(re.sub(_HARMLESS, "", name.upper()))


def is_protected(name: str) -> bool:
    """Whether a variable is a well-known service's or our own, or changes what runs.

    Such a name is not for a skill to choose.
    """
    upper = name.upper()
    if upper in _RUNS_OTHERWISE or upper.startswith(_RUNS_OTHERWISE_PREFIXES):
        return True
    return any(upper == provider or upper.startswith(f"{provider}_") for provider in PROVIDERS)


SAFE_NAMES = (
    "PATH", "HOME", "LANG", "LANGUAGE", "SHELL", "USER", "LOGNAME", "TERM", "COLORTERM", "TZ", "PWD", "OLDPWD", "SHLVL",
    "TMPDIR", "TMP", "TEMP", "HOSTNAME", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONIOENCODING", "PYTHONUTF8",
    "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "EDITOR",
    "PAGER", "NO_COLOR", "COLUMNS", "LINES", "HERMES_HOME", MARKER_VARIABLE,
)  # fmt: skip
"""Variables that are known to be harmless."""
SAFE_PREFIXES = ("LC_", "CONDA_", "XDG_")
"""What other names of such variables begin with, unless they hold one of the `SECRET_WORDS`."""

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
_ORDINARY = frozenset({"disabled", "required", "optional", "password", "anonymous"})
"""What stands in such variables and is no secret."""


class _Span(NamedTuple):
    """A stretch of text that is a secret."""

    begin: int
    end: int
    name: str


class Redactor:
    """Replaces what stands for a secret by `[REDACTED:NAME]`.

    A secret is known as it is, as Python, JSON, URLs and base64 write it, and each longer line of it.

    Args:
        secrets: Names with their values. What is too short to be a secret is passed over.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        for name, value in secrets.items():
            for form in _forms(value) if len(value) >= SHORTEST and value not in _ORDINARY else ():
                self._names.setdefault(form, name)
        self._forms = sorted(self._names)
        self._backwards = sorted(form[::-1] for form in self._forms)
        self._longest = max(map(len, self._forms), default=0)

    @classmethod
    def of(cls, secrets: Mapping[str, str]) -> Redactor:
        """Return a redactor, the one of before if the secrets are the same."""
        return _remembered(tuple(secrets.items()))

    def text(self, text: str, *, cut_before: bool = False, cut_behind: bool = False) -> str:
        """Return a text without secrets.

        Args:
            text: The text.
            cut_before: Whether something in front of it was left out, which may be a part of a secret.
            cut_behind: The same of its end.
        """
        spans = self._spans(text)
        if cut_before and (piece := _cut(text[: self._longest][::-1], self._backwards)):
            spans.append(_Span(0, len(piece), self._names[_beginning_with(self._backwards, piece)[::-1]]))
        if cut_behind and (piece := _cut(text[-self._longest :], self._forms)):
            spans.append(_Span(len(text) - len(piece), len(text), self._names[_beginning_with(self._forms, piece)]))
        return _without(text, sorted(spans)) if spans else text

    def begun(self, text: str) -> tuple[str, str]:
        """Return the beginning of a text without secrets, and the rest, in which one may have begun.

        The rest is to come back in front of what follows.
        """
        edge = text[-self._longest :] if self._longest else ""
        held = next((len(edge) - n for n in range(len(edge)) if self._goes_on(edge[n:])), 0)
        place = len(text) - held
        spans = self._spans(text)
        for span in reversed(spans):
            if span.begin < place < span.end:
                # One that goes on and on, as it repeats itself, would be held back for ever.
                place = span.begin if len(text) - span.begin < MOST_HELD * self._longest else span.end
        return _without(text[:place], [span for span in spans if span.end <= place]), text[place:]

    def _goes_on(self, text: str) -> bool:
        """Whether a text is the beginning of a secret, and not all of it."""
        place = bisect_left(self._forms, text)
        return any(form != text and form.startswith(text) for form in self._forms[place : place + 2])

    def _spans(self, text: str) -> list[_Span]:
        found = [_Span(*place, self._names[form]) for form in self._forms for place in _places(form, text)]
        return sorted(found)


class RedactedPieces:
    """Redacts text that comes in pieces; what may be the beginning of a secret is held back until that is known."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._pending = ""

    def feed(self, text: str, final: bool = False) -> str:
        """Return what can be shown of all that has come.

        Args:
            text: The next piece.
            final: Whether it is the last one.
        """
        text = self._pending + text
        if final:
            self._pending = ""
            return self._redactor.text(text)
        shown, self._pending = self._redactor.begun(text)
        return shown


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


_URL_WITH_USER = r"(?i)[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@"


class SecretValues:
    """What is secret in one environment.

    Args:
        settings: May hold some.
        passthrough: What is passed through is secret too.
    """

    def __init__(self, settings: EnvironmentSettings, passthrough: Passthrough) -> None:
        self._settings = settings
        self._passthrough = passthrough
        _of_environments.add(self)

    def known(self) -> dict[str, str]:
        """Return the secrets by name: of this process, of the settings, and what is passed through."""
        passed = {name: value for name, value in self._passthrough.values().items() if not _is_harmless(name, value)}
        held = _of_settings(self._settings.own) | _of_settings(self._settings.own_over or BackendSettings())
        return {**secret_among(os.environ), **_of_program, **held, **passed}

    @staticmethod
    def of_all() -> dict[str, str]:
        """Return those of all environments of this process, for its logs."""
        found = {**secret_among(os.environ), **_of_program}
        for secrets in list(_of_environments):
            found |= secrets.known()
        return found


_of_environments: WeakSet[SecretValues] = WeakSet()
_of_program: dict[str, str] = {}


def keep_secret(name: str, value: str) -> None:
    """Have a value taken for a secret by all environments of this process, which is in none of its variables.

    Args:
        name: What stands in its place.
        value: The secret.
    """
    _of_program[name] = value


def _is_harmless(name: str, value: str) -> bool:
    """Whether what is passed through is no secret: HOME and the like, or a path in a variable that sounds like none."""
    return name in SAFE_NAMES or (value.startswith(("/", "~/")) and not names_secret(name, value))


def secret_among(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are secret by their name, and the passwords in URLs of others."""
    found = {}
    for name, value in variables.items():
        if names_secret(name, value):
            found[name] = value
        if "://" in value and (password := re.search(_URL_WITH_USER, value)):
            found[f"{name}_PASSWORD" if name in found else name] = password[1]
    return found


def _of_settings(own: BackendSettings) -> dict[str, str]:
    """Return the secrets that the settings of a backend hold."""
    found = secret_among(own.target_variables())
    for field in fields(own):
        if reveal := getattr(getattr(own, field.name), "get_secret_value", None):
            found[f"TERMINAL_{own.prefix}{field.name}".upper()] = reveal()
    return found
