"""What the name of a variable says about its value: that it may be a secret, or that others must not choose it."""

from __future__ import annotations

import re
from functools import lru_cache

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
