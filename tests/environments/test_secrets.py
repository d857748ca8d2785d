"""Names and values of secrets: the same rules in Python and in the shells of targets."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import string
import subprocess
from collections import UserDict
from collections.abc import Iterator

import pytest

from environments import load_settings
from environments.clean_environment import IS_SECRET
from environments.redaction import HELD, RedactedPieces, Redactor
from environments.secrets import (
    FORMS,
    HARMLESS_NAMES,
    HARMLESS_PARTS,
    SECRET_NAMES,
    SECRET_PARTS,
    SecretValues,
    command_variables,
    find_forms,
    is_secret,
    names_secret,
    secret_among,
)

SHELLS = [shell for shell in ("bash", "dash", "busybox sh") if shutil.which(shell.split()[0])]
REDACTOR = Redactor({})

SECRET = (
    "ADMIN_PW", "API_KEYS", "APIKEY", "AUTH", "AUTH_HEADER", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
    "BACKUP_PASSPHRASE", "BASIC_AUTH", "BOT_TOKEN", "CERT_KEY", "CLIENT_SECRET", "CONDA_BEARER", "CONDA_JWT",
    "CONDA_PW", "CONDA_webhook", "COOKIE", "CREDENTIALS", "DATABASE_URL", "DB_PASS", "DB_PASSWD", "DJANGO_SECRET_KEY",
    "DOCKER_AUTH_CONFIG", "ENCRYPTION", "ENCRYPTION_KEY", "FERNET_KEYS", "GHPAT", "GH_PAT", "GH_TOKEN", "GITHUB_PAT",
    "GPG_PASSPHRASE", "GPG_SEED", "HMAC", "HMAC_SECRET", "HOTP", "JWT", "JWTS", "JWT_SECRET", "LC_AUTH",
    "LC_CONNECTION_STRING", "LC_DSN", "LC_PW", "LC_SSHPASS", "MNEMONIC", "MYSQL_PWD", "MY_DATABASE_URL",
    "NPM_AUTH_TOKEN", "OAUTH_TOKEN", "OPENAI_API_KEY", "OTP", "PASS", "PASSCODE", "PASSPHRASE", "PASSWORD",
    "PASSWORD_SALT", "PAT", "PEPPER", "PGPASSWORD", "PHPSESSID", "PIN", "PRIVATE_KEY", "RECOVERY_PHRASE_1",
    "RESTIC_PASSWORD", "SALT", "SECRET", "SECRET_KEY_BASE", "SEED", "SENTRY_DSN", "SESSION", "SESSION_COOKIE",
    "SESSION_SECRET", "SID", "SIGNATURE", "SIGNING_KEY", "SK", "SLACK_WEBHOOK", "SSHPASS", "SSH_PRIVATE_KEY",
    "STRIPE_SK", "TOTP", "TWILIO_AUTH_TOKEN", "TWILIO_SID", "WALLET_MNEMONIC", "XDG_COOKIE", "XDG_CREDS",
    "XDG_DB_PASS", "XDG_PAT", "XDG_SESSION", "accessToken", "apiKey", "clientSecret", "dbPassword", "github_token",
    "my-api.key", "npm_config__authToken", "private_key", "userPW", "x_api_key",
)  # fmt: skip
EVERYDAY = (
    "ANDROID_HOME", "ANSIBLE_HOST_KEY_CHECKING", "ANT_HOME", "ATUIN_SESSION", "AUTHOR", "AUTHORS", "AUTHOR_EMAIL",
    "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_REGION", "BASH_VERSION", "BROWSER", "BUILDKIT_PROGRESS", "BUILD_NUMBER",
    "BYPASS_CACHE", "CARGO_HOME", "CC", "CDPATH", "CFLAGS", "CI", "CI_COMMIT_SHA", "CI_JOB_ID", "CLICOLOR",
    "CMAKE_PREFIX_PATH", "COLORTERM", "COLUMNS", "COMPASS_DIRECTION", "COMPOSE_FILE", "CONDA_DEFAULT_ENV",
    "CONDA_EXE", "CONDA_PREFIX", "CONDA_PROMPT_MODIFIER", "CONDA_PYTHON_EXE", "CONDA_SHLVL", "COOKIECUTTER_CONFIG",
    "CPATH", "CPPFLAGS", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CXX", "CXXFLAGS", "DATA_DIR",
    "DBUS_SESSION_BUS_ADDRESS", "DEBIAN_FRONTEND", "DEBUG", "DESKTOP_SESSION", "DISPLAY", "DJANGO_SETTINGS_MODULE",
    "DOCKER_BUILDKIT", "DOCKER_CONFIG", "DOCKER_HOST", "DOTNET_ROOT", "EDITOR", "EMAIL", "ENV", "FLASK_APP", "FPATH",
    "FZF_DEFAULT_OPTS", "GDK_BACKEND", "GEM_HOME", "GIT_ASKPASS", "GIT_AUTHOR_DATE", "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME", "GIT_BRANCH", "GIT_COMMITTER_NAME", "GIT_DIR", "GIT_EDITOR", "GIT_PAGER", "GIT_SSH_COMMAND",
    "GOAUTH", "GOBIN", "GOCACHE", "GOFLAGS", "GOPATH", "GOPRIVATE", "GOPROXY", "GOROOT", "GPG_AGENT_INFO", "GPG_TTY",
    "GRADLE_HOME", "GREP_COLOR", "GTK_MODULES", "HF_HOME", "HISTCONTROL", "HISTFILE", "HISTSIZE", "HOME",
    "HOMEBREW_PREFIX", "HOST", "HOSTNAME", "HOSTTYPE", "HTTPS_PROXY", "HTTP_PROXY", "IFS", "INFOPATH", "INPUTRC",
    "INVOCATION_ID", "I_MPI_PIN", "I_MPI_PIN_DOMAIN", "JAVA_HOME", "JAVA_OPTS", "JOURNAL_STREAM", "JUPYTER_PATH",
    "KDE_FULL_SESSION", "KEYBOARD_LAYOUT", "KEYMAP", "KEYTIMEOUT", "KUBECONFIG", "LANG", "LANGUAGE", "LC_ALL",
    "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "LDFLAGS", "LD_LIBRARY_PATH", "LESS", "LESSKEY", "LESSOPEN",
    "LIBRARY_PATH", "LINES", "LOGNAME", "LS_COLORS", "MAIL", "MAKEFLAGS", "MAKELEVEL", "MANPATH", "MAX_TOKENS",
    "MKL_NUM_THREADS", "MODEL", "MONKEYPATCH", "MONKEY_ISLAND", "MPLBACKEND", "NIX_PATH", "NODE_ENV", "NODE_OPTIONS",
    "NODE_PATH", "NO_COLOR", "NO_PROXY", "NUMBER_OF_PROCESSORS", "NVM_DIR", "OLDPWD", "OMP_NUM_THREADS",
    "OPENAI_BASE_URL", "OPENAI_MAX_TOKENS", "ORACLE_SID", "OSTYPE", "PAGER", "PASSTHROUGH_MODE", "PATH", "PATHEXT",
    "PATTERN", "PERL5LIB", "PIP_CACHE_DIR", "PIP_INDEX", "PKG_CONFIG_PATH", "PL_GLOBAL_SEED", "PNPM_HOME",
    "POETRY_HOME", "PORT", "PROMPT", "PROMPT_COMMAND", "PS1", "PWD", "PYENV_ROOT", "PYTHONHASHSEED", "PYTHONPATH",
    "PYTHONUNBUFFERED", "PYTHON_VERSION", "QT_QPA_PLATFORM", "RANDOM_SEED", "REACT_APP_PUBLIC_KEY", "REPLY",
    "ROS_DISTRO", "RUBYLIB", "RUSTFLAGS", "RUSTUP_HOME", "SDKMAN_DIR", "SECONDS", "SHELL", "SHELLOPTS", "SHLVL",
    "SPARK_HOME", "SSH_AGENT_PID", "SSH_ASKPASS", "SSH_AUTH_SOCK", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY",
    "SSL_CERT_FILE", "STARSHIP_SHELL", "STRIPE_PUBLISHABLE_KEY", "SUDO_USER", "SYSTEMD_EXEC_PID", "TEMP", "TERM",
    "TERMINFO", "TERM_PROGRAM", "TERM_SESSION_ID", "TEST_TIMEOUT", "TEXINPUTS", "TMP", "TMPDIR", "TMUX", "TMUX_PANE",
    "TOKENIZERS_PARALLELISM", "TURKEY_SIZE", "TZ", "USER", "VCPKG_ROOT", "VIMRUNTIME", "VIRTUAL_ENV", "VISUAL",
    "WAYLAND_DISPLAY", "WEB_ALLOW_PRIVATE", "WINDOWID", "WORKSPACE", "XAUTHORITY", "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS", "XDG_CURRENT_DESKTOP", "XDG_DATA_DIRS", "XDG_RUNTIME_DIR", "XDG_SEAT", "XDG_SESSION_CLASS",
    "XDG_SESSION_DESKTOP", "XDG_SESSION_ID", "XDG_SESSION_TYPE", "XDG_VTNR", "ZDOTDIR", "ZSH", "http_proxy",
    "no_proxy", "npm_config_cache", "npm_config_user_agent", "npm_lifecycle_event", "npm_package_name",
)  # fmt: skip

ALNUM = "a1B2c3D4" * 16
TOKENS = {
    "github-token": f"ghp_{ALNUM[:36]}",
    "gitlab-token": f"glpat-{ALNUM[:20]}",
    "api-key": f"sk-proj-{ALNUM[:40]}",
    "aws-key": "AKIAIOSFODNN7EXAMPLE",
    "slack-token": f"xoxb-1234567890-{ALNUM[:24]}",
    "slack-webhook": f"hooks.slack.com/services/T00000000/B00000000/{ALNUM[:24]}",
    "google-key": f"AIza{ALNUM[:35]}",
    "huggingface-token": f"hf_{ALNUM[:34]}",
    "npm-token": f"npm_{ALNUM[:36]}",
    "pypi-token": f"pypi-{ALNUM[:90]}",
    "stripe-key": f"sk_live_{ALNUM[:24]}",
    "sendgrid-key": f"SG.{ALNUM[:22]}.{ALNUM[:43]}",
    "vault-token": f"hvs.{ALNUM[:90]}",
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{ALNUM[:43]}",
    "private-key": f"-----BEGIN RSA PRIVATE KEY-----\n{ALNUM[:64]}\n{ALNUM[:60]}==\n-----END RSA PRIVATE KEY-----",
}
"""An example of each form."""
IN_TEXT = {
    "url-password": ("postgres://app:", "s3cr3t-pw", "@db.example/app"),
    "url-key": ("https://", "0123456789abcdef0123456789abcdef", "@o1.ingest.example/4"),
    "authorization": ("curl -H 'Authorization: Bearer ", "abc.def-123456", "' https://api.example"),
}
"""The text before a secret, the secret, and the text behind it."""
HARMLESS_TEXTS = (
    "task-0123456789abcdefghijklmnop disk-usage-0123456789abcdef",
    "sk-ssh-ed25519@openssh.com sk-ecdsa-sha2-nistp256@openssh.com sk-learn-contrib-package",
    "postgres://postgres:postgres@h http://a:${PW}@h https://u:password@h http://user:<password>@h",
    "git@github.com:a/b.git http://localhost:8080/@x http://a:80,b@c ssh://git@host/x",
    'curl -H "Authorization: Bearer $TOKEN" and Authorization: Basic {token}',
    "the head -----BEGIN PRIVATE KEY----- of a file is this and nothing more",
    "-----BEGIN CERTIFICATE-----\nMIIEowIBAAKCAQEAqLq4x8Wb\n-----END CERTIFICATE-----",
    "550e8400-e29b-41d4-a716-446655440000 da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "ghp_ short, AKIA, sk-, xoxb-, eyJ and hf_hub_download, npm_config_registry, SG.1.2, hf_transformers_cache",
    "MASKIAABCDEFGHIJKLMNOPQ ASIAN_PACIFIC_MARKETS AKIABARA pypi-publish-action",
)


def test_names_of_secrets_are_recognized_by_their_parts() -> None:
    assert [name for name in SECRET if not names_secret(name)] == []


def test_everyday_names_are_no_secrets() -> None:
    assert len(EVERYDAY) > 200
    assert [name for name in EVERYDAY if names_secret(name)] == []


def test_paths_and_harmless_texts_are_no_secrets() -> None:
    assert not is_secret("GOOGLE_CREDENTIALS_FILE", "/home/user/key.json")
    assert not is_secret("SSH_AUTH_SOCK", "/tmp/agent")
    assert is_secret("AWS_SECRET_ACCESS_KEY", "/looks/like+a/path")
    for text in HARMLESS_TEXTS:
        assert not is_secret("TEXT", text), text


@pytest.mark.parametrize("name", TOKENS)
def test_a_value_is_recognized_by_its_form_whatever_its_name(name: str) -> None:
    token = TOKENS[name]
    assert [(found.begin, found.end, found.name) for found in find_forms(token)] == [(0, len(token), name)]
    assert REDACTOR.text(f"é日 {token}, and so on") == f"é日 [REDACTED:{name}], and so on"
    assert secret_among({"NOTE": token}) == {"NOTE": token}


def test_every_form_of_the_table_is_found() -> None:
    letters = "A1B2C3D4" * 16
    for form in FORMS:
        for prefix in form.prefixes:
            digits = "a1b2c3d4" * 16 if form.letters == "[0-9a-f]" else letters
            body = f"{letters[:20]}.{letters[:20]}.{letters[:20]}" if form.body else digits[: form.least]
            if form.name == "sendgrid-key":
                body = f"{letters[:20]}.{letters[:20]}"
            text = f"x={prefix}{body};"
            assert [found.name for found in find_forms(text)] == [form.name], text


@pytest.mark.parametrize("name", IN_TEXT)
def test_only_the_secret_within_a_text_is_replaced(name: str) -> None:
    before, value, behind = IN_TEXT[name]
    assert REDACTOR.text(before + value + behind) == f"{before}[REDACTED:{name}]{behind}"
    assert secret_among({"NOTE": before + value + behind}) == {"NOTE": value}


def test_harmless_text_stays_as_it_is() -> None:
    for text in HARMLESS_TEXTS:
        assert REDACTOR.text(text) == text
        assert _in_pieces(text, 1) == text


def _in_pieces(text: str, size: int) -> str:
    pieces = RedactedPieces(REDACTOR)
    shown = "".join(pieces.feed(text[place : place + size]) for place in range(0, len(text), size))
    return shown + pieces.feed("", final=True)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_pieces_show_the_same_text_as_the_whole(size: int) -> None:
    text = " then ".join([*TOKENS.values(), *map("".join, IN_TEXT.values()), *HARMLESS_TEXTS]) + " end"
    assert _in_pieces(text, size) == REDACTOR.text(text)


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_that_a_cap_cuts_shows_nothing_behind_its_head(name: str) -> None:
    token = TOKENS[name]
    shown = REDACTOR.text(f"text {token[: len(token) * 3 // 4]}", cut_behind=True)
    assert shown == f"text [REDACTED:{name}]"


def test_a_form_that_never_ends_is_not_held_back_for_ever() -> None:
    pieces = RedactedPieces(REDACTOR)
    shown = pieces.feed("ghp_")
    for _ in range(10):
        shown += pieces.feed("a1B2" * 2048)
        assert len(pieces._pending) <= 2 * HELD
    assert shown.startswith("[REDACTED:github-token]")


@pytest.mark.parametrize("value", [True, False], ids=["names", "both"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_decides_about_names_as_python_does(shell: str, value: bool) -> None:
    names = [name for name in _names() if name.isidentifier() and name.isascii()]
    text = "/some/path" if value else ""
    assert len(names) > 2000
    found = _answers_of(shell, [(name, text) for name in names])
    assert [name for name, answer in zip(names, found, strict=True) if answer != names_secret(name)] == []


def _names() -> list[str]:
    """Return names of all kinds: the tables above, each part at several places of a name, and random names."""
    chance = random.Random(29)
    parts = [*SECRET_PARTS, *HARMLESS_PARTS, *(word for name in EVERYDAY for word in name.split("_"))]
    names = [*SECRET, *EVERYDAY]
    for pattern in (*SECRET_PARTS, *HARMLESS_PARTS, *SECRET_NAMES, *HARMLESS_NAMES):
        word = pattern.replace("*", "X").strip("_")
        names += [word, pattern.replace("*", "").strip("_"), f"MY_{word}", f"{word}_2", f"X{word}Y", word.lower()]
        names += [word.title(), f"my{word.title()}Of", f"{word.lower()}X"]
    for _ in range(1500):
        words = [chance.choice(parts).replace("*", chance.choice(("", "X"))) for _ in range(chance.randint(1, 4))]
        words = [chance.choice((word, word, word.lower(), word.title())) for word in words]
        names.append(chance.choice(("_", "", "1", "__")).join(words))
    names += ["".join(chance.choices(string.ascii_letters + "_0_1", k=chance.randint(1, 12))) for _ in range(500)]
    return list(dict.fromkeys(names))


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_decides_about_values_as_python_does(shell: str) -> None:
    secret = [*TOKENS.values(), *map("".join, IN_TEXT.values())]
    secret += [f"export X={text}\nand more" for text in secret]
    secret += ["http://x http://y/ amqp://u:pass-word@h", "AUTHORIZATION = bearer abcdefgh1234", "a://b@c://:passw@d"]
    assert [text for text in secret if not find_forms(text)] == []
    harmless = [*HARMLESS_TEXTS[:2], *HARMLESS_TEXTS[7:], "/usr/bin:/bin", "a b", "", "*", "C.UTF-8", "it's $HOME `x`"]
    harmless += ["http://localhost:8080/@x", "git@github.com:a/b.git", "ssh://git@host/x", "Authorization"]
    harmless += [
        "sk-learn-model-version-two",
        "pypi-publish-action-of-many-short-words",
        "/" * 5000,
        "https://example.test/a?b=c:d",
    ]
    answers = _answers_of(shell, [("TEXT", text) for text in [*secret, *harmless]])
    assert answers == [True] * len(secret) + [False] * len(harmless)


def _answers_of(shell: str, asked_about: list[tuple[str, str]]) -> list[bool]:
    asked = "".join(
        f"if hermes_is_secret {name} {shlex.quote(value)}; then echo 1; else echo 0; fi\n"
        for name, value in asked_about
    )
    begin = "shopt -s nocasematch\nIFS=xyz\n" if shell == "bash" else ""
    variables_of_shell = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        shell.split(),
        input=begin + IS_SECRET + asked,
        capture_output=True,
        text=True,
        env=variables_of_shell,
        check=True,
    )
    assert done.stderr == ""
    return [line == "1" for line in done.stdout.splitlines()]


def test_a_variable_that_another_thread_removes_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Removed(UserDict[str, str]):
        """Variables that lose a member after their names were listed."""

        def __iter__(self) -> Iterator[str]:
            names = [*self.data]
            self.data.pop("GOING", None)
            return iter(names)

    for read in (command_variables, SecretValues.of_all):
        monkeypatch.setattr(os, "environ", Removed({"GOING": "gone", "API_TOKEN": "sesame-4711", "HOME": "/"}))
        assert "GOING" not in read()
    assert SecretValues.of_all()["API_TOKEN"] == "sesame-4711"
    monkeypatch.setattr(os, "environ", Removed({"GOING": "gone", "TERMINAL_TIMEOUT": "17"}))
    assert load_settings("local").timeout == 17
