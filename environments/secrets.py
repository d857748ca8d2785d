"""Secrets: which names and values are secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
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
