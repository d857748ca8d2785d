"""Detection of secrets by name and by value, and the variables withheld from commands.

The one list for scrubbing environments, redacting text, passing variables through and writing records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache, lru_cache
from typing import NamedTuple
from weakref import WeakSet

from environments.owner import MARKER_VARIABLE
from environments.settings import BackendSettings, EnvironmentSettings
from environments.variables import Passthrough, own_variables, variables_named

# Names. `*` matches any text, as in the patterns of a shell's `case`, generated from these lists.

SECRET_PARTS = (
    "*KEY", "*KEYS", "*KEYID", "*KEYPAIR", "KEYSTORE", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*",
    "*CREDENTIAL*", "*CREDS", "CRED", "*PASS", "*PASSCODE", "*PWD", "*PW", "PAT", "PATS", "GHPAT", "AUTH*", "*AUTH",
    "*BEARER", "*COOKIE*", "*JWT", "JWTS", "*SESSID", "*SESSIONID", "SID", "*DSN", "*WEBHOOK*", "SIGNATURE", "HMAC",
    "PRIVATE", "SK", "OTP", "TOTP", "HOTP", "PIN", "SEED", "SEEDPHRASE", "*MNEMONIC*", "SALT", "PEPPER", "ENCRYPTION",
    "CONNECTIONSTRING", "DATABASEURL",
)  # fmt: skip
"""Name parts that mark a secret. A name is split at non-letters and at changes of case."""
HARMLESS_PARTS = (
    "AUTHOR", "AUTHORS", "AUTHORED", "AUTHORITY", "AUTHORITIES", "GOAUTH", "TOKENIZ*", "COOKIECUTTER*", "MONKEY",
    "DONKEY", "TURKEY", "HOTKEY", "HOTKEYS", "LESSKEY", "PUBKEY", "*ASKPASS", "BYPASS", "COMPASS", "OLDPWD",
    "SECURITYSESSIONID",
)  # fmt: skip
"""Name parts that match `SECRET_PARTS` but mark no secret."""
SECRET_NAMES = ("*_CONNECTION_STRING*", "*_DATABASE_URL*", "*_RECOVERY_PHRASE*", "*_SESSION")
"""Names of secrets that span several parts. A `_` precedes each name."""
HARMLESS_NAMES = (
    "PWD", "OLDPWD", "SSH_AUTH_SOCK", "*PASS_THROUGH", "*ALLOW_PRIVATE", "*PUBLIC_KEY", "*PUBLISHABLE_KEY",
    "*MAX_*TOKENS", "MAX_*TOKENS", "*GLOBAL_SEED", "*RANDOM_SEED", "*HASH_SEED", "*HOST_KEY_CHECKING", "I_MPI_PIN*",
    "ORACLE_SID", "STARSHIP_SESSION_KEY", "DESKTOP_SESSION", "KDE_FULL_SESSION", "*TMUX_SESSION", "ATUIN_SESSION",
)  # fmt: skip
"""Names that match the lists above but hold no secret. Sessions here belong to a desktop or a terminal."""
_OF_PATHS = ("_FILE", "_FILES", "_PATH", "_DIR", "_HOME", "_SOCK", "_SOCKET")
_CASE_CHANGES = re.compile(r"(?<=[a-z])(?=[A-Z])|(?=[A-Z][a-z])")


@cache
def _glob(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(pattern).replace(r"\*", ".*") for pattern in patterns), re.DOTALL)


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Return True if a variable, setting or field counts as secret by its name, in any case."""
    whole = re.sub(r"[^0-9A-Za-z]", "_", name)
    split = _CASE_CHANGES.sub("_", whole).upper()
    whole = whole.upper()
    if _glob(HARMLESS_NAMES).fullmatch(whole):
        return False
    both = f"_{whole}" if split == whole else f"_{whole}_{split}"
    if _glob(SECRET_NAMES).fullmatch(both):
        return True
    parts = re.split("[^A-Z]+", both)
    return any(_glob(SECRET_PARTS).fullmatch(part) and not _glob(HARMLESS_PARTS).fullmatch(part) for part in parts)


# Values.


class Form(NamedTuple):
    """A form of token, recognised anywhere in a text."""

    name: str
    prefixes: tuple[str, ...]
    """Prefixes of a token."""
    letters: str
    """Characters after the prefix, as a regular expression class."""
    least: int
    """Minimum number of characters after the prefix."""
    body: str = ""
    """Regular expression for the text after the prefix, if stricter than the class."""
    is_dense: bool = False
    """True if ordinary words may match too. The token must then hold a longer run of letters and digits than any
    word."""


_ALNUM, _WORD, _DASH, _DOT, _UPPER = "[0-9A-Za-z]", "[0-9A-Za-z_]", "[0-9A-Za-z_-]", "[0-9A-Za-z_.-]", "[0-9A-Z]"
FORMS = (
    Form("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _ALNUM, 20),
    Form("github-token", ("github_pat_",), _WORD, 20),
    Form("gitlab-token", ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glsoat-", "glagent-"), _DASH, 16),
    Form("api-key", ("sk-ant-", "sk-proj-", "sk-or-v1-", "sk-svcacct-"), _DASH, 16),
    Form("api-key", ("sk-", "pplx-", "nvapi-", "xai-", "tvly-"), _DASH, 16, is_dense=True),
    Form("aws-key", ("AKIA", "ASIA"), _UPPER, 16),
    Form("slack-token", ("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"), "[0-9A-Za-z-]", 16),
    Form("slack-webhook", ("hooks.slack.com/services/",), "[0-9A-Za-z/]", 20),
    Form("discord-webhook", ("discord.com/api/webhooks/",), "[0-9A-Za-z_/-]", 20),
    Form("google-key", ("AIza",), _DASH, 30),
    Form("google-token", ("ya29.",), _DASH, 20),
    Form("huggingface-token", ("hf_",), _ALNUM, 20),
    Form("npm-token", ("npm_",), _ALNUM, 30),
    Form("pypi-token", ("pypi-",), _DASH, 32, is_dense=True),
    Form("stripe-key", ("sk_live_", "rk_live_", "sk_test_", "rk_test_"), _ALNUM, 16),
    Form("stripe-webhook", ("whsec_",), "[0-9A-Za-z+/=]", 24),
    Form("sendgrid-key", ("SG.",), _DOT, 32, body=rf"{_DASH}{{16,}}\.{_DASH}{{16,}}"),
    Form("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), "[0-9a-f]", 32),
    Form("docker-token", ("dckr_pat_",), _DASH, 20),
    Form("groq-key", ("gsk_",), _ALNUM, 32),
    Form("replicate-token", ("r8_",), _ALNUM, 30),
    Form("langsmith-key", ("lsv2_pt_", "lsv2_sk_"), _WORD, 32),
    Form("shopify-token", ("shpat_", "shpss_", "shpca_"), "[0-9a-fA-F]", 32),
    Form("vault-token", ("hvs.", "hvb."), _DASH, 24),
    Form("age-key", ("AGE-SECRET-KEY-1",), _UPPER, 40),
    Form("jwt", ("eyJ",), _DOT, 24, body=rf"{_DASH}{{8,}}\.{_DASH}{{8,}}\.{_DASH}*"),
)  # fmt: skip
"""The forms of tokens; of two with a common prefix, the longer first."""

BOUNDARY = "(?:^|[^0-9A-Za-z_])"
"""Regular expression for the character before a token, so that `task-` and `disk-` do not match `sk-`."""
PEM_HEAD = r"-----BEGIN [0-9A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BETWEEN = r"""[\s\\nrt0-9|>:#*"',.+-]{1,40}"""
"""Separators between the lines of a key: line breaks, also as escaped in JSON, and line numbers."""
_PEM = (
    rf"{PEM_HEAD}(?:{_BETWEEN}[0-9A-Za-z-]{{1,20}}: [^\n\\]{{1,100}}){{0,4}}"
    rf"(?:{_BETWEEN}[0-9A-Za-z+/=]{{16,}})+(?:(?:{_BETWEEN}[0-9A-Za-z+/=]{{1,15}})?"
    rf"{_BETWEEN}-----END [0-9A-Z ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?"
)
URL_PART = r"""[^\s/@"'`<>\\]"""
"""Regular expression for a character of a user or password in a URL."""
_URL = rf"://(?:[^\s/:@\"'`<>\\]*:{URL_PART}{{4,}}|[0-9A-Za-z_-]{{20,}})@"
AUTHORIZATION_HEAD = r"""(?i:authorization)["']?\s{0,4}[:=]\s{0,4}["']?"""
SCHEMES = ("bearer", "basic", "token", "digest")
_AUTHORIZATION = rf"{AUTHORIZATION_HEAD}(?i:{'|'.join(SCHEMES)})\s{{1,4}}[0-9A-Za-z._~+/=-]{{8,}}"
DENSE, DENSE_WITH_DIGIT = 20, 12
"""Length of a run of letters and digits in a dense token; the second with a digit in the run."""
LONGEST_DENSE = 512
"""Characters of a token checked for density."""
_ORDINARY = frozenset({
    "anonymous", "changeme", "disabled", "example", "optional", "pass", "passwd", "password", "required", "secret",
    "token", "your-password", "your_password",
})  # fmt: skip
"""Placeholders for secrets."""


class Found(NamedTuple):
    """A secret recognised by its form."""

    begin: int
    end: int
    name: str


def find_forms(text: str, before: str = "") -> list[Found]:
    """Find secrets by form: tokens, passwords and keys in URLs, authorization headers, private keys. Linear time.

    Args:
        text: The text.
        before: The character before the text.
    """
    data = behind(before, text).encode("utf-8", "surrogatepass")
    found: list[Found] = []
    place, characters = 0, -len(behind(before, ""))
    for match in _forms().finditer(data):
        begin, end = match.span()
        if known := _known(data[begin:end].decode("utf-8", "surrogatepass")):
            begins = characters + len(data[place:begin].decode("utf-8", "surrogatepass")) + known.begin
            ends = begins + known.end - known.begin
            found.append(Found(max(0, begins), ends, known.name))
            place, characters = end, ends + known.rest
    return found


def behind(before: str, text: str) -> str:
    """Prepend the preceding character, protected from matching as a `BOUNDARY` at the beginning of the text."""
    return f"_{before}{text}" if before else text


@cache
def _forms() -> re.Pattern[bytes]:
    tokens = "|".join(
        f"(?:{'|'.join(map(re.escape, form.prefixes))}){form.body or f'{form.letters}{{{form.least},}}'}"
        for form in FORMS
    )
    return compiled(f"{BOUNDARY}(?:{tokens})|{_URL}|{_AUTHORIZATION}|{_PEM}")


def compiled(pattern: str) -> re.Pattern[bytes]:
    """Compile a regular expression for bytes with linear search time and without groups."""
    import re2  # not needed by commands

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    found: re.Pattern[bytes] = re2.compile(pattern.encode(), options)  # compatible in the methods used here
    return found


class _Known(NamedTuple):
    begin: int
    end: int
    rest: int
    name: str


def _known(text: str) -> _Known | None:
    """Return the secret in a match; None for ordinary text of the same form."""
    if text.startswith("://"):
        user, colon, password = text[3:-1].partition(":")
        is_secret = _is_password(user, password) if colon else any(map(str.isdigit, user))
        name, begin, rest = ("url-password", 4 + len(user), 1) if colon else ("url-key", 3, 1)
    elif text.startswith("-----"):
        name, begin, rest, is_secret = "private-key", 0, 0, True
    elif form := next((form for form in FORMS if text.startswith(form.prefixes, not _is_word(text[0]))), None):
        name, begin, rest = form.name, int(not _is_word(text[0])), 0
        is_secret = not form.is_dense or _is_dense(text[:LONGEST_DENSE])
    else:
        value = text.rsplit(maxsplit=1)[-1]
        name, begin, rest = "authorization", len(text) - len(value), 0
        is_secret = any(map(str.isdigit, value)) or len(set(value)) > 12
    return _Known(begin, len(text) - rest, rest, name) if is_secret else None


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


def _is_dense(text: str) -> bool:
    """Return True if a run of letters and digits is longer than in hyphenated words."""
    if re.search(f"[0-9A-Za-z]{{{DENSE}}}", text):
        return True
    return bool(re.search(f"[0-9A-Za-z]{{{DENSE_WITH_DIGIT}}}", text) and re.search("[0-9]", text))


def _is_password(user: str, text: str) -> bool:
    """Return True for a password; False for a user name, a template placeholder, or a port."""
    stands_for_one = text.lower() in _ORDINARY or text == user or text[0] in "$%{*[(" or set(text) <= set("xX*.")
    return not stands_for_one and not re.match(r"\d{1,5}(?:[,;]|$)", text)


@lru_cache(maxsize=4096)
def _secret_of(name: str, value: str) -> tuple[tuple[str, str], ...]:
    """Return the secrets of a variable: its value by name, and parts of the value by form."""
    found: dict[str, str] = {}
    if names_secret(name) and not (value.startswith(("/", "~/")) and name.upper().endswith(_OF_PATHS)):
        found[name] = value
    for form in find_forms(value):
        text = value[form.begin : form.end]
        if text not in found.values():
            found[name if name not in found else f"{name}_{form.name.replace('-', '_').upper()}"] = text
    return tuple(found.items())


def is_secret(name: str, value: str) -> bool:
    """Return True if a variable's value, or a part of it, is secret by name or by form.

    A path is no secret (SSH_AUTH_SOCK, GOOGLE_APPLICATION_CREDENTIALS_FILE).
    """
    return bool(_secret_of(name, value))


def secret_among(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of some variables: values by name, and parts of other values by form."""
    return {key: text for name, value in variables.items() for key, text in _secret_of(name, value)}


def is_ordinary(value: str) -> bool:
    """Return True for a placeholder of a secret."""
    return value.lower() in _ORDINARY


# Variables of this process for commands.

SERVICES = (
    "AI21", "ALIBABA", "ANTHROPIC", "ARCEE", "ARCEEAI", "AUXILIARY", "AZURE_FOUNDRY", "AZURE_OPENAI", "BLUEBUBBLES",
    "BRAVE", "BROWSERBASE", "BROWSER_USE", "BRV", "CAMOFOX", "CEREBRAS", "COHERE", "COPILOT", "DASHSCOPE", "DAYTONA",
    "DEEPINFRA", "DEEPSEEK", "DINGTALK", "DISCORD", "E2B", "ELEVENLABS", "EXA", "FAL", "FEISHU", "FIRECRAWL",
    "FIREWORKS", "GATEWAY", "GEMINI", "GLM", "GMI", "GROQ", "HASS", "HELICONE", "HERMES", "HF", "HINDSIGHT", "HONCHO",
    "HUGGINGFACE", "HUGGING_FACE", "JINA", "KILOCODE", "KIMI", "KREA", "LANGCHAIN", "LANGFUSE", "LANGSMITH", "MATRIX",
    "MATTERMOST", "MEM0", "MINIMAX", "MISTRAL", "MODAL", "MOONSHOT", "NOUS", "NOVITA", "NTFY", "NVIDIA", "OLLAMA",
    "OPENAI", "OPENCODE", "OPENROUTER", "OPENVIKING", "PARALLEL", "PERPLEXITY", "PHOTON", "PINECONE", "REPLICATE",
    "RETAINDB", "SENDGRID", "SLACK", "STEPFUN", "SUPERMEMORY", "TAVILY", "TEAMS", "TELEGRAM", "TERMINAL", "TOGETHER",
    "TOKENHUB", "TOOL_GATEWAY", "TWILIO", "UPSTAGE", "VERTEX", "VOICE_TOOLS", "VOYAGE", "WECOM", "XAI", "XIAOMI", "ZAI",
    "ZHIPU", "Z_AI",
)  # fmt: skip
"""Prefixes of variable names: model providers, agent services, and this package."""
PLATFORMS = (
    "AWS", "AZURE", "CLAUDE", "CLOUDFLARE", "DATABRICKS", "DIGITALOCEAN", "DOCKER", "GCP", "GH", "GITHUB", "GITLAB",
    "GOOGLE", "NPM", "PYPI", "STRIPE", "TWINE", "VAULT", "VERCEL", "WANDB",
)  # fmt: skip
"""Platforms whose command-line tools commands may use."""
_WITHHELD = frozenset({
    "API_SERVER_KEY", "AWS_BEARER_TOKEN_BEDROCK", "EMAIL_PASSWORD", "GH_TOKEN", "GITHUB_APP_PRIVATE_KEY",
    "GITHUB_APP_PRIVATE_KEY_PATH", "GITHUB_TOKEN", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "IRC_PASSWORD",
    "SUDO_PASSWORD", "WEBHOOK_SECRET",
})  # fmt: skip
"""Further keys in the environment of agents: hermes-agent's list without those of the services above."""
_OF_SERVICES = tuple(f"{service}_" for service in SERVICES)


def command_variables() -> dict[str, str]:
    """Return the variables of this process for commands on this machine: without service keys and own secrets.

    Variables of the passthrough list are added elsewhere.
    """
    return {name: value for name, value in own_variables().items() if not _is_withheld(name, value)}


def _is_withheld(name: str, value: str) -> bool:
    upper = name.upper()
    if upper in _WITHHELD:
        return True
    return upper.startswith(_OF_SERVICES) and (names_secret(name) or ("://" in value and is_secret(name, value)))


_RUNS_OTHERWISE = (
    "PATH", "HOME", "SHELL", "ENV", "IFS", "PS4", "PROMPT_COMMAND", "TMPDIR", "EDITOR", "VISUAL", "PAGER", "MANPAGER",
    "BROWSER", "LESSOPEN", "LESSCLOSE", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "CLASSPATH", "SHELLOPTS",
    "BASHOPTS", "VIRTUAL_ENV", "CONDA_PREFIX", "KUBECONFIG", "DATABASE_URL", "SSH_AUTH_SOCK",
)  # fmt: skip
_RUNS_OTHERWISE_PREFIXES = (
    "LD_", "DYLD_", "PYTHON", "BASH_", "PERL", "RUBY", "NODE_", "JAVA_", "JDK_", "_JAVA_", "GIT_", "PIP_", "UV_",
    "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
)  # fmt: skip


def is_protected(name: str) -> bool:
    """Return True for a variable of a known service or of this package, or one that changes the programs run.

    A skill may not choose such a name.
    """
    upper = name.upper()
    if upper in _RUNS_OTHERWISE or upper in _WITHHELD or upper.startswith(_RUNS_OTHERWISE_PREFIXES):
        return True
    return any(upper == service or upper.startswith(f"{service}_") for service in (*SERVICES, *PLATFORMS))


SAFE_NAMES = (
    "PATH", "HOME", "LANG", "LANGUAGE", "SHELL", "USER", "LOGNAME", "TERM", "COLORTERM", "TZ", "PWD", "OLDPWD", "SHLVL",
    "TMPDIR", "TMP", "TEMP", "HOSTNAME", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONIOENCODING", "PYTHONUTF8",
    "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "EDITOR",
    "PAGER", "NO_COLOR", "COLUMNS", "LINES", "HERMES_HOME", MARKER_VARIABLE,
)  # fmt: skip
"""Names of harmless variables."""
SAFE_PREFIXES = ("LC_", "CONDA_", "XDG_")
"""Prefixes of harmless variables, unless name or value is secret."""


def safe_variables() -> dict[str, str]:
    """Return the variables of this process with a name of `SAFE_NAMES`."""
    return variables_named(SAFE_NAMES)


class SecretValues:
    """The secrets of one environment.

    Args:
        settings: Settings, possibly with secrets.
        passthrough: Variables passed through, which count as secret.
    """

    def __init__(self, settings: EnvironmentSettings, passthrough: Passthrough) -> None:
        self._settings = settings
        self._passthrough = passthrough
        _of_environments.add(self)

    def known(self) -> dict[str, str]:
        """Return the secrets by name: of this process, of the settings, and of the passthrough list."""
        passed = {name: value for name, value in self._passthrough.values().items() if not _is_harmless(name, value)}
        held = _of_settings(self._settings.own) | _of_settings(self._settings.own_over or BackendSettings())
        return {**secret_among(own_variables()), **_of_program, **held, **passed}

    @staticmethod
    def of_all() -> dict[str, str]:
        """Return the secrets of all environments of this process, for redacting logs."""
        found = {**secret_among(own_variables()), **_of_program}
        for secrets in list(_of_environments):
            found |= secrets.known()
        return found


_of_environments: WeakSet[SecretValues] = WeakSet()
_of_program: dict[str, str] = {}


def register_secret(name: str, value: str) -> None:
    """Register a secret for all environments of this process.

    Args:
        name: Name in `[REDACTED:NAME]`.
        value: The secret, absent from the variables of this process.
    """
    _of_program[name] = value


def _is_harmless(name: str, value: str) -> bool:
    """Return True if a passed-through variable is not secret: HOME and the like, or a path under a harmless name."""
    return name in SAFE_NAMES or (value.startswith(("/", "~/")) and not is_secret(name, value))


def _of_settings(own: BackendSettings) -> dict[str, str]:
    """Return the secrets in a backend's settings."""
    found = secret_among(own.target_variables())
    for field in fields(own):
        if reveal := getattr(getattr(own, field.name), "get_secret_value", None):
            found[f"TERMINAL_{own.prefix}{field.name}".upper()] = reveal()
    return found
