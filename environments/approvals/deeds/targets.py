"""Which paths are more than a directory of one's own."""

from __future__ import annotations

import posixpath
import re

from environments.approvals.command import UNKNOWN, UNSEEN, Command, Word
from environments.approvals.reading.effects import joined
from environments.approvals.globs import may_be
from environments.approvals.reading.names import names

_HOME = "/home/user"
_SYSTEM = frozenset(names("bin boot dev etc lib lib32 lib64 libx32 proc sbin sys usr var run"))
_OWN = re.compile(
    r"/(?:tmp|var/tmp|var/cache|dev/shm|var/www|usr/src|var/folders)/[^/]+.*"
    r"|/var/lib/apt/lists(?:/.*)?|/(?:usr/local|run/user)/[^/]+/[^/]+/.+|/usr/local/(?:bin|src)/[^/]+|/usr/local/lib/.+/.+"
    r"|/usr/local/(?!bin$|sbin$|lib$|lib64$|libexec$|share$|etc$|include$|src$)[^/*?\[]+"
)
"""Below system directories, what people make and remove."""
_KEPT_DEPTH = {"home": 2, "Users": 2}
"""How many parts a path may have at most to be worth keeping; 1 elsewhere."""
_PRECIOUS = frozenset(
    names(
        ".ssh .gnupg .config .local .aws .kube .docker .password-store .mozilla Documents Desktop Pictures "
        "Downloads Music Videos Library"
    )
)
_HISTORIES = re.compile(r"\.(?:bash|zsh|sh|python|mysql|psql|sqlite)_history|\.lesshst|\.viminfo")
_SHELL_FILES = re.compile(
    r"\.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zprofile|zshenv|zlogin|kshrc|cshrc|tcshrc|login|xprofile"
    r"|xinitrc|pam_environment|netrc|pgpass)|\.config/fish/config\.fish|\.config/autostart/.*|\.ssh/.*|\.gnupg/.*|\.aws/.*"
)
_HARMLESS_DEVICES = re.compile(
    r"/dev/(?:null|zero|full|random|urandom|stdin|stdout|stderr|tty\d*|ptmx|fd/.*|shm/.*|pts/.*)"
)
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - a path of the target
_NETWORK = re.compile(r"/dev/(?:tcp|udp)/")
_GLOBS = re.compile(r"\[[^\]]*\]|[*?.]")
_MAX_PATH = 4096


def wiped(word: Word, command: Command) -> str | None:
    """Say what is lost when everything below a path goes; None where that is a directory of one's own.

    Args:
        word: The path.
        command: Whose argument it is, which says in what directory.
    """
    path = _absolute(word, command)
    if path is None:
        return f"{UNSEEN}: which directory it takes is made while it runs"
    if path in _TEMPORARY and word.glob:
        return None  # what is in there is made to be removed
    return _wiped_at(path) if path.startswith("/") else _wiped_here(path, command)


def _wiped_at(path: str) -> str | None:
    parts = path.split("/")[1:]
    if parts == [""]:
        return "the whole file system (/)"
    if _is_system(parts[0]) and not _OWN.fullmatch(path):
        return f"a directory of the system ({path})"
    top = "home" if _fits(parts[0], frozenset({"home"})) else parts[0]
    if len(parts) <= _KEPT_DEPTH.get(top, 1):
        return "a home directory" if top in _KEPT_DEPTH or top == "root" else f"a directory at the root ({path})"
    inside = parts[_KEPT_DEPTH.get(top, 1) :]
    if top in (*_KEPT_DEPTH, "root") and len(inside) == 1 and _fits(inside[0], _PRECIOUS):
        return f"what a home directory keeps in {inside[0]}"
    return _git_directory(path)


def _wiped_here(path: str, command: Command) -> str | None:
    if path == ".":
        return "the whole working directory"
    if set(path.split("/")) == {".."}:
        return "what is above the working directory"
    if command.start.startswith("/"):
        return wiped(Word(posixpath.normpath(posixpath.join(command.start, path))), command)
    return _git_directory(path)


def _git_directory(path: str) -> str | None:
    return "the history of a repository (.git)" if posixpath.basename(path) == ".git" else None


def written(word: Word, command: Command) -> str | None:
    """Say what is lost when a file is written or removed; None where that is a file of one's own."""
    path = _absolute(word, command)
    if path is None or not path.startswith("/"):
        return None
    if path.startswith("/dev/"):
        if _NETWORK.match(path):
            return "a connection that a shell may be given to (/dev/tcp)"
        return None if _HARMLESS_DEVICES.fullmatch(path) else f"a device ({path})"
    if path.startswith(("/home/", "/root/", "/Users/")):
        inside = path.split("/", 2 if path.startswith("/root/") else 3)[-1]
        if _HISTORIES.fullmatch(inside):
            return f"a history of commands ({inside})"
        return f"what a home directory is set up by ({inside})" if _SHELL_FILES.fullmatch(inside) else None
    top = path.split("/", 2)[1]
    kept = top in _SYSTEM - {"var", "run", "usr"} or path.startswith(_KEPT_FILES)
    return f"a file of the system ({path})" if kept and not _OWN.fullmatch(path) else None


_KEPT_FILES = (
    "/usr/bin/",
    "/usr/sbin/",
    "/usr/lib/",
    "/var/spool/cron",
    "/var/run/docker.sock",
    "/var/log/",
    "/var/lib/dpkg/",
)


def _absolute(word: Word, command: Command) -> str | None:
    """Return a path without `..`, without what ends it and stands for everything, and with a home that has a name.

    It is relative to where the text begins if it is not absolute; None if it cannot be known.
    """
    text = joined(command.directory, word.text)[:_MAX_PATH]
    if text.startswith("~"):
        user, _, rest = text[1:].partition("/")
        text = "." if user == "+" else f"{_HOME if not user else '/home/' + user}/{rest}"
    if text.startswith(UNKNOWN):
        rest = text.lstrip(UNKNOWN)
        if not rest.strip("/*."):
            return None
        text = rest if rest.startswith("/") else text  # which it is where the unknown part is empty
    text = text.replace(UNKNOWN, "unknown")
    parts = posixpath.normpath("/" + text.lstrip("/") if text.startswith("/") else text).split("/")
    while len(parts) > 1 and _is_everything(parts[-1], word):
        parts.pop()
    if len(parts) == 1 and _is_everything(parts[0], word):
        return "."
    return "/".join(parts) or "/"


def _is_everything(part: str, word: Word) -> bool:
    return word.glob and any(sign in part for sign in "*?[") and not _GLOBS.sub("", part).strip("!^")


def _is_system(part: str) -> bool:
    return _fits(part, _SYSTEM)


def _fits(part: str, names: frozenset[str]) -> bool:
    """Whether a part of a path is one of some names, or a pattern of one."""
    return bool(may_be(part, names))
