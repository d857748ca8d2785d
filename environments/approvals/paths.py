"""Classes of paths: shared and precious directories, system files, devices, secrets, remote places."""

from __future__ import annotations

import posixpath
import re

from environments.approvals.command import UNKNOWN, UNSEEN, Command, Word, word_set
from environments.approvals.globs import matching_names

_HOME = "/home/user"
_SYSTEM = word_set("bin boot dev etc lib lib32 lib64 libx32 proc sbin sys usr var run")
_OWN = re.compile(
    r"/(?:tmp|var/tmp|var/cache|dev/shm|var/www|usr/src|var/folders)/[^/]+.*"
    r"|/var/lib/apt/lists(?:/.*)?|/(?:usr/local|run/user)/[^/]+/[^/]+/.+|/usr/local/(?:bin|src)/[^/]+|/usr/local/lib/.+/.+"
    r"|/usr/local/(?!bin$|sbin$|lib$|lib64$|libexec$|share$|etc$|include$|src$)[^/*?\[]+"
)
"""Files below system directories that users make and remove."""
_KEPT_DEPTH = {"home": 2, "Users": 2}
"""Depth of directories that are precious as a whole; 1 elsewhere."""
_PRECIOUS = word_set(
    ".ssh .gnupg .config .local .aws .kube .docker .password-store .mozilla Documents Desktop Pictures Downloads"
    " Music Videos Library"
)
_HISTORIES = re.compile(r"\.(?:bash|zsh|sh|python|mysql|psql|sqlite)_history|\.lesshst|\.viminfo")
_SHELL_FILES = re.compile(
    r"\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zprofile|zshenv|zlogin|kshrc|cshrc|tcshrc"
    r"|login|xprofile|xinitrc|xsession|pam_environment|netrc|pgpass)"
    r"|\.config/(?:fish/config\.fish|fish/conf\.d/.*|autostart/.*|systemd/user/.*|environment\.d/.*)"
    r"|\.(?:ssh/(?!known_hosts)|gnupg/|aws/).*|Library/LaunchAgents/.*"
)
_HARMLESS_DEVICES = re.compile(
    r"/dev/(?:null|zero|full|random|urandom|stdin|stdout|stderr|tty\d*|ptmx|fd/.*|shm/.*|pts/.*|tcp/.*|udp/.*)"
)
_PROTECTED_FILES = tuple(
    word_set("/usr/bin/ /usr/sbin/ /usr/lib/ /var/spool/cron /var/run/docker.sock /var/log/ /var/lib/dpkg/")
)
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - a path of the target
_WORKPLACES = frozenset(["tmp", "home", "Users", "root", "workspace", "workspaces", "app"])
_SECRETS = re.compile(
    r"(?:.*/)?(?:\.ssh/(?!known_hosts|config$|authorized_keys)(?!.*\.pub$).+|\.ssh|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|\.aws(?:/.*)?|\.gnupg(?:/.*)?|\.kube(?:/.*)?|\.azure(?:/.*)?|\.docker(?:/config\.json)?|\.password-store(?:/.*)?"
    r"|\.config/(?:gh|gcloud|op|doctl|hub|rclone)(?:/.*)?"
    r"|\.(?:netrc|pgpass|my\.cnf|git-credentials|npmrc|pypirc|vault-token)"
    r"|\.env(?:\.(?!example|sample|template|dist)[\w.-]+)?|\.envrc|\.(?:bash|zsh|psql|mysql)_history|credentials(?:\.\w+)?"
    r"|[^/]*\.(?:pem|key|p12|pfx|jks|kdbx|keystore|keytab|tfstate|ovpn)|Login Data|cookies\.sqlite|logins\.json"
    r"|key4\.db|service[-_]account[^/]*\.json|wallet\.dat|secrets?\.(?:ya?ml|json|toml|env|txt))"
    r"|/etc/(?:shadow|gshadow|passwd|sudoers|ssh/ssh_host_[a-z0-9]+_key|kubernetes/.*)-?|/proc/[^/]+/environ"
    r"|/(?:var/)?run/secrets/.*"
)
_SECRET_NAMES = re.compile(r"\w*(?:TOKEN|SECRET|API_?KEY|ACCESS_KEY|PRIVATE_KEY|PASSWORD|PASSWD|CREDENTIALS?)")
_GLOBS = re.compile(r"\[[^\]]*\]|[*?.]")
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.\[\]-]+:(?!//).*|\w+://.*", re.DOTALL)
_MAX_PATH = 4096


def wiped(word: Word, command: Command) -> str | None:
    """Return the place lost by removing everything below a path; None for a directory of the user's own.

    Args:
        word: The path.
        command: The command with this argument. Its directory resolves a relative path.
    """
    path = normalized_path(word, command)
    if path is None:
        return f"{UNSEEN}: the directory is made at run time"
    if path in _TEMPORARY and word.glob:
        return None  # temporary files are made to be removed
    lost = _wiped_absolute(path) if path.startswith("/") else _wiped_relative(path, command)
    if lost is None and path.startswith("/") and f"{command.start}/".startswith(f"{path}/"):
        return "the whole working directory or a directory above it"
    return lost


def _wiped_absolute(path: str) -> str | None:
    parts = path.split("/")[1:]
    if parts == [""]:
        return "the whole file system (/)"
    if matching_names(parts[0], _SYSTEM) and not _OWN.fullmatch(path):
        return f"a directory of the system ({path})"
    top = "home" if matching_names(parts[0], ("home",)) else parts[0]
    depth = _KEPT_DEPTH.get(top, 1)
    if len(parts) <= depth:
        return "a home directory" if top in _KEPT_DEPTH or top == "root" else f"a directory at the root ({path})"
    inside = parts[depth:]
    if top in (*_KEPT_DEPTH, "root") and len(inside) == 1 and matching_names(inside[0], _PRECIOUS):
        return f"the directory {inside[0]} of a home directory"
    return _git_directory(path)


def _wiped_relative(path: str, command: Command) -> str | None:
    if path == ".":
        return "the whole working directory"
    if set(path.split("/")) == {".."}:
        return "a directory above the working directory"
    if command.start.startswith("/"):
        return wiped(Word(posixpath.normpath(posixpath.join(command.start, path))), command)
    return _git_directory(path)


def _git_directory(path: str) -> str | None:
    name = posixpath.basename(path)
    return "the history of a repository (.git)" if name[:1] == "." and matching_names(name, (".git",)) else None


def wiped_beyond_here(word: Word, command: Command) -> str | None:
    """Return the result of `wiped`, but None for the working directory and for a directory at the root."""
    lost = wiped(word, command)
    return None if lost and lost.startswith(("the whole working", "a directory at the root")) else lost


def moved_away(word: Word, command: Command) -> str | None:
    """Return the result of `wiped`, but None for a path made at run time, mostly a single file."""
    return None if word.text.startswith(UNKNOWN) else wiped(word, command)


def swept(word: Word, command: Command) -> str | None:
    """Return the result of `wiped` for a glob that ends with a wildcard, such as `*`."""
    return wiped(word, command) if word.glob and word.text.endswith(("*", "?")) else None


def mirrored(word: Word, command: Command) -> str | None:
    """Return the place, local or remote, lost by making a path equal to another."""
    if is_remote(word):
        return f"files of another machine ({word.text})"
    if lost := wiped(word, command):
        return lost
    path = normalized_path(word, command) or ""
    own = not path.startswith("/") or path.split("/")[1] in _WORKPLACES or _OWN.fullmatch(path)
    within = bool(command.start) and path.startswith(command.start.rstrip("/") + "/")
    return None if own or within else f"a directory elsewhere ({path})"


def written(word: Word, command: Command) -> str | None:
    """Return the file lost by writing or removing a path; None for a file of the user's own."""
    path = normalized_path(word, command)
    if path is None or not path.startswith("/"):
        return None
    if path.startswith("/dev/"):
        return None if _HARMLESS_DEVICES.fullmatch(path) else f"a device ({path})"
    if path.startswith(("/home/", "/root/", "/Users/")):
        inside = path.split("/", 2 if path.startswith("/root/") else 3)[-1]
        if _HISTORIES.fullmatch(inside):
            return f"a history of commands ({inside})"
        return f"a configuration or key file of a home directory ({inside})" if _SHELL_FILES.fullmatch(inside) else None
    top = path.split("/", 2)[1]
    kept = top in _SYSTEM - {"var", "run", "usr"} or path.startswith(_PROTECTED_FILES)
    return f"a file of the system ({path})" if kept and not _OWN.fullmatch(path) else None


def overwritten(word: Word, command: Command) -> str | None:
    """Return the result of `written`. A path that begins with a part made at run time has a reason of its own."""
    if word.text.startswith(UNKNOWN):
        return f"{UNSEEN}: the file or device to write is made at run time"
    return written(word, command)


def device(word: Word, command: Command) -> str | None:
    """Return a device other than terminals, `/dev/null` and the like; also a path made at run time."""
    path = normalized_path(word, command) or UNKNOWN
    disk = path.startswith("/dev/") and not _HARMLESS_DEVICES.fullmatch(path)
    return path if disk or word.text.startswith(UNKNOWN) else None


def secret(word: Word, command: Command) -> str | None:
    """Return a file with keys or passwords, or a directory with such files; None for other paths."""
    path = normalized_path(word, command)
    if path is None:
        return None
    path = posixpath.normpath(posixpath.join(command.start, path)) if command.start else path
    lost = _wiped_absolute(path) if path.startswith("/") else None
    return path if _SECRETS.fullmatch(path) or lost == "a home directory" else None


def is_secret_name(variable: str) -> bool:
    """Return True for a variable named like a key or a password."""
    return bool(_SECRET_NAMES.fullmatch(variable))


def is_remote(word: Word) -> bool:
    """Return True for a place on another machine: `host:path`, `s3://bucket`."""
    return bool(_REMOTE.fullmatch(word.text))


def normalized_path(word: Word, command: Command) -> str | None:
    """Return a path without `..`, without wildcards at its end, and with a fixed home directory for `~`.

    A relative path is resolved against the start of the text. An unknown path is None.
    """
    text = word.text
    if command.directory and not text.startswith(("/", "~", UNKNOWN)):
        text = posixpath.join(command.directory, text)
    text = text[:_MAX_PATH]
    if text.startswith("~"):
        user, _, rest = text[1:].partition("/")
        text = "." if user == "+" else f"{_HOME if not user else '/home/' + user}/{rest}"
    if text.startswith(UNKNOWN):
        rest = text.lstrip(UNKNOWN)
        if not rest.strip("/*."):
            return None
        text = rest if rest.startswith("/") else text  # the path where the unknown part is empty
    text = text.replace(UNKNOWN, "unknown")
    parts = posixpath.normpath("/" + text.lstrip("/") if text.startswith("/") else text).split("/")
    while len(parts) > 1 and _is_wildcard(parts[-1], word):
        parts.pop()
    if len(parts) == 1 and _is_wildcard(parts[0], word):
        return "."
    return "/".join(parts) or "/"


def _is_wildcard(part: str, word: Word) -> bool:
    return word.glob and any(sign in part for sign in "*?[") and not _GLOBS.sub("", part).strip("!^")
