"""Secrets: which names and which values are secret, and of which variables commands are not given the values.

What scrubs an environment, redacts text, passes variables on or writes records asks here, and has no list of its own.
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

# Names. In all patterns `*` is any text, as in the patterns of a shell's `case`, which they become, too.

SECRET_PARTS = (
    "*KEY", "*KEYS", "*KEYID", "*KEYPAIR", "KEYSTORE", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*",
    "*CREDENTIAL*", "*CREDS", "CRED", "*PASS", "*PASSCODE", "*PWD", "*PW", "PAT", "PATS", "GHPAT", "AUTH*", "*AUTH",
    "*BEARER", "*COOKIE*", "*JWT", "JWTS", "*SESSID", "*SESSIONID", "SID", "*DSN", "*WEBHOOK*", "SIGNATURE", "HMAC",
    "PRIVATE", "SK", "OTP", "TOTP", "HOTP", "PIN", "SEED", "SEEDPHRASE", "*MNEMONIC*", "SALT", "PEPPER", "ENCRYPTION",
    "CONNECTIONSTRING", "DATABASEURL",
)  # fmt: skip
"""Parts of names of secrets. A name is split where it has no letter, and where its case changes."""
HARMLESS_PARTS = (
    "AUTHOR", "AUTHORS", "AUTHORED", "AUTHORITY", "AUTHORITIES", "GOAUTH", "TOKENIZ*", "COOKIECUTTER*", "MONKEY",
    "DONKEY", "TURKEY", "HOTKEY", "HOTKEYS", "LESSKEY", "PUBKEY", "*ASKPASS", "BYPASS", "COMPASS", "OLDPWD",
    "SECURITYSESSIONID",
)  # fmt: skip
"""Parts that one of the `SECRET_PARTS` would match, and that name no secret."""
SECRET_NAMES = ("*_CONNECTION_STRING*", "*_DATABASE_URL*", "*_RECOVERY_PHRASE*", "*_SESSION")
"""Names of secrets by more than one part. A `_` stands in front of each name."""
HARMLESS_NAMES = (
    "PWD", "OLDPWD", "SSH_AUTH_SOCK", "*PASS_THROUGH", "*ALLOW_PRIVATE", "*PUBLIC_KEY", "*PUBLISHABLE_KEY",
    "*MAX_*TOKENS", "MAX_*TOKENS", "*GLOBAL_SEED", "*RANDOM_SEED", "*HASH_SEED", "*HOST_KEY_CHECKING", "I_MPI_PIN*",
    "ORACLE_SID", "STARSHIP_SESSION_KEY", "DESKTOP_SESSION", "KDE_FULL_SESSION", "*TMUX_SESSION", "ATUIN_SESSION",
)  # fmt: skip
"""Names that the others would match, and that are no secret's. Sessions are those of a desktop or a terminal."""
_OF_PATHS = ("_FILE", "_FILES", "_PATH", "_DIR", "_HOME", "_SOCK", "_SOCKET")
_CASE_CHANGES = re.compile(r"(?<=[a-z])(?=[A-Z])|(?=[A-Z][a-z])")


@cache
def _glob(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(pattern).replace(r"\*", ".*") for pattern in patterns), re.DOTALL)


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Whether a variable, setting or field is taken for that of a secret by its name, in whatever case it is."""
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
    """A form of tokens, which are known wherever they stand."""

    name: str
    prefixes: tuple[str, ...]
    """Texts that a token of this form begins with."""
    letters: str
    """The characters that may follow: a class of a regular expression."""
    least: int
    """The number of characters that follow at least."""
    body: str = ""
    """A regular expression for what follows, where the class is not all."""
    is_dense: bool = False
    """True if words may look so, too: then as many letters and digits have to stand together as in no word."""


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
"""The forms of tokens, the longer one of two that begin alike first."""

BOUNDARY = "(?:^|[^0-9A-Za-z_])"
"""Regular expression for what stands in front of a token: `task-` and `disk-` hold no `sk-`."""
PEM_HEAD = r"-----BEGIN [0-9A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BETWEEN = r"""[\s\\nrt0-9|>:#*"',.+-]{1,40}"""
"""What may stand between the lines of a key: line breaks, as JSON writes them too, and numbers of lines."""
_PEM = (
    rf"{PEM_HEAD}(?:{_BETWEEN}[0-9A-Za-z-]{{1,20}}: [^\n\\]{{1,100}}){{0,4}}"
    rf"(?:{_BETWEEN}[0-9A-Za-z+/=]{{16,}})+(?:(?:{_BETWEEN}[0-9A-Za-z+/=]{{1,15}})?"
    rf"{_BETWEEN}-----END [0-9A-Z ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?"
)
URL_PART = r"""[^\s/@"'`<>\\]"""
"""Regular expression for a character of a user or a password in a URL."""
_URL = rf"://(?:[^\s/:@\"'`<>\\]*:{URL_PART}{{4,}}|[0-9A-Za-z_-]{{20,}})@"
AUTHORIZATION_HEAD = r"""(?i:authorization)["']?\s{0,4}[:=]\s{0,4}["']?"""
SCHEMES = ("bearer", "basic", "token", "digest")
_AUTHORIZATION = rf"{AUTHORIZATION_HEAD}(?i:{'|'.join(SCHEMES)})\s{{1,4}}[0-9A-Za-z._~+/=-]{{8,}}"
DENSE, DENSE_WITH_DIGIT = 20, 12
"""Letters and digits side by side in a token that words may look like; the second where a digit is in it."""
LONGEST_DENSE = 512
"""Characters of a token that are looked at for the density of its letters."""
_ORDINARY = frozenset({
    "anonymous", "changeme", "disabled", "example", "optional", "pass", "passwd", "password", "required", "secret",
    "token", "your-password", "your_password",
})  # fmt: skip
"""What stands in the place of a secret and is none."""


class Found(NamedTuple):
    """A secret that was known by its form."""

    begin: int
    end: int
    name: str


def find_forms(text: str, before: str = "") -> list[Found]:
    """Find what is secret by its form: tokens, passwords and keys in URLs, what authorizes a request, private keys.

    The time is linear in the length of the text.

    Args:
        text: The text.
        before: The character in front of it.
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
    """Return a text with the character in front of it, which no `BOUNDARY` matches as the beginning of a text."""
    return f"_{before}{text}" if before else text


@cache
def _forms() -> re.Pattern[bytes]:
    tokens = "|".join(
        f"(?:{'|'.join(map(re.escape, form.prefixes))}){form.body or f'{form.letters}{{{form.least},}}'}"
        for form in FORMS
    )
    return compiled(f"{BOUNDARY}(?:{tokens})|{_URL}|{_AUTHORIZATION}|{_PEM}")


def compiled(pattern: str) -> re.Pattern[bytes]:
    """Return a regular expression for bytes, with which all searches take linear time, and which has no groups."""
    import re2  # which commands have no need of

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    found: re.Pattern[bytes] = re2.compile(pattern.encode(), options)  # the same, but for what is not used here
    return found


class _Known(NamedTuple):
    begin: int
    end: int
    rest: int
    name: str


def _known(text: str) -> _Known | None:
    """Return the secret in what the forms have matched; None if it is ordinary text that looks like one."""
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
    """Whether letters and digits stand together as in no words that are joined by hyphens."""
    if re.search(f"[0-9A-Za-z]{{{DENSE}}}", text):
        return True
    return bool(re.search(f"[0-9A-Za-z]{{{DENSE_WITH_DIGIT}}}", text) and re.search("[0-9]", text))


def _is_password(user: str, text: str) -> bool:
    """Whether it is a password, and not the name of one, a part of a template, or a port with something behind."""
    stands_for_one = text.lower() in _ORDINARY or text == user or text[0] in "$%{*[(" or set(text) <= set("xX*.")
    return not stands_for_one and not re.match(r"\d{1,5}(?:[,;]|$)", text)


@lru_cache(maxsize=4096)
def _secret_of(name: str, value: str) -> tuple[tuple[str, str], ...]:
    """Return what is secret in one variable: its value, and in the value what is so by its form."""
    found: dict[str, str] = {}
    if names_secret(name) and not (value.startswith(("/", "~/")) and name.upper().endswith(_OF_PATHS)):
        found[name] = value
    for form in find_forms(value):
        text = value[form.begin : form.end]
        if text not in found.values():
            found[name if name not in found else f"{name}_{form.name.replace('-', '_').upper()}"] = text
    return tuple(found.items())


def is_secret(name: str, value: str) -> bool:
    """Whether a variable's value, or a part of it, is not to be shown: by the name, or by the form of the value.

    A path is no secret (SSH_AUTH_SOCK, GOOGLE_APPLICATION_CREDENTIALS_FILE).
    """
    return bool(_secret_of(name, value))


def secret_among(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are secret by their names, and what is so by its form in the values of others."""
    return {key: text for name, value in variables.items() for key, text in _secret_of(name, value)}


def is_ordinary(value: str) -> bool:
    """Whether a value is a word that stands in the place of secrets and is none."""
    return value.lower() in _ORDINARY


# Variables of this process that commands get.

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
"""Providers of models and services of agents, and this package: names of their variables begin with these."""
PLATFORMS = (
    "AWS", "AZURE", "CLAUDE", "CLOUDFLARE", "DATABRICKS", "DIGITALOCEAN", "DOCKER", "GCP", "GH", "GITHUB", "GITLAB",
    "GOOGLE", "NPM", "PYPI", "STRIPE", "TWINE", "VAULT", "VERCEL", "WANDB",
)  # fmt: skip
"""Platforms with command-line tools of their own, which commands may be there to run."""
_WITHHELD = frozenset({
    "API_SERVER_KEY", "AWS_BEARER_TOKEN_BEDROCK", "EMAIL_PASSWORD", "GH_TOKEN", "GITHUB_APP_PRIVATE_KEY",
    "GITHUB_APP_PRIVATE_KEY_PATH", "GITHUB_TOKEN", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "IRC_PASSWORD",
    "SUDO_PASSWORD", "WEBHOOK_SECRET",
})  # fmt: skip
"""Other keys that agents have in their environment: those of the older system's list that no service above has."""
_OF_SERVICES = tuple(f"{service}_" for service in SERVICES)


def command_variables() -> dict[str, str]:
    """Return the variables of this process, but for keys of services and this package's own secrets.

    It is what commands on this machine are started with. What is allowed by name they are given in another way.
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
    """Whether a variable is a well-known service's or our own, or changes what runs.

    Such a name is not for a skill to choose.
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
"""Variables that are known to be harmless."""
SAFE_PREFIXES = ("LC_", "CONDA_", "XDG_")
"""What other names of such variables begin with, unless they or their values are those of secrets."""


def safe_variables() -> dict[str, str]:
    """Return the variables of this process that are known to be harmless by their whole names."""
    return variables_named(SAFE_NAMES)


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
        return {**secret_among(own_variables()), **_of_program, **held, **passed}

    @staticmethod
    def of_all() -> dict[str, str]:
        """Return those of all environments of this process, for its logs."""
        found = {**secret_among(own_variables()), **_of_program}
        for secrets in list(_of_environments):
            found |= secrets.known()
        return found


_of_environments: WeakSet[SecretValues] = WeakSet()
_of_program: dict[str, str] = {}


def register_secret(name: str, value: str) -> None:
    """Have a value taken for a secret by all environments of this process, which is in none of its variables.

    Args:
        name: What stands in its place.
        value: The secret.
    """
    _of_program[name] = value


def _is_harmless(name: str, value: str) -> bool:
    """Whether what is passed through is no secret: HOME and the like, or a path in a variable that sounds like none."""
    return name in SAFE_NAMES or (value.startswith(("/", "~/")) and not is_secret(name, value))


def _of_settings(own: BackendSettings) -> dict[str, str]:
    """Return the secrets that the settings of a backend hold."""
    found = secret_among(own.target_variables())
    for field in fields(own):
        if reveal := getattr(getattr(own, field.name), "get_secret_value", None):
            found[f"TERMINAL_{own.prefix}{field.name}".upper()] = reveal()
    return found
