"""Meanings of exit codes: codes that are no error, and known errors.

The last command of the last pipeline decides the exit code of a shell text. No meaning is returned if another command
may have decided (an `if`, a loop, `set -e`, `exit`), or if the text cannot be parsed for sure.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from environments.result import TIMEOUT_EXIT_CODE

_NO_LINE = {1: "no line matched, which is no error"}
_DIFFERENT = {1: "the two differ, which is no error"}
_FALSE = {1: "the condition is false, which is no error"}
_NO_PROCESS = {1: "no process matched, which is no error"}
_NOT_FOUND = {1: "some of the names were not found, which is no error"}
_PYTEST = {
    1: "some tests failed",
    2: "it was interrupted, or tests could not be collected",
    4: "the command line was not valid",
    5: "no tests were collected, which is no failure of a test",
}
_CURL = {
    6: "the host's name could not be resolved",
    7: "no connection could be made to the host",
    22: "the server answered with an HTTP status of 400 or above",
    28: "curl's own time-out was reached",
    35: "the TLS handshake failed",
    47: "there were too many redirects",
    52: "the server sent no answer",
    56: "the connection broke while data was received",
    60: "the server's certificate could not be verified",
}
_OF_PROGRAM: Mapping[str, Mapping[int, str]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep"), _NO_LINE),
    **dict.fromkeys(("diff", "cmp", "colordiff", "zdiff", "zcmp", "sdiff"), _DIFFERENT),
    **dict.fromkeys(("test", "[", "[["), _FALSE),
    **dict.fromkeys(("pgrep", "pidof", "pkill", "killall"), _NO_PROCESS),
    **dict.fromkeys(("which", "type", "command"), _NOT_FOUND),
    **dict.fromkeys(("pytest", "py.test"), _PYTEST),
    "find": {1: "some directories could not be read; the results from all others are complete"},
    "curl": _CURL,
    "expr": {1: "the value is 0 or empty, which is no error"},
    "read": {1: "the end of the input was reached"},
    "xargs": {123: "the command failed for some of its arguments"},
    "rsync": {23: "some files could not be copied", 24: "some files vanished before they were copied"},
    "ssh": {255: "the connection to the host failed, or the command there ended with 255"},
    "systemctl": {3: "a unit is not active"},
    "unittest": {5: "no tests were run, which is no failure of a test"},
}
_OF_GIT: Mapping[str, Mapping[int, str]] = {
    "grep": _NO_LINE,
    "diff": _DIFFERENT,
    "merge-base": {1: "the first is no ancestor of the second, or there is no common one, which is no error"},
    "config": {1: "the key is not set, which is no error"},
    "show-ref": _NOT_FOUND,
    "check-ignore": {1: "none of the paths is ignored, which is no error"},
    "ls-remote": {2: "no reference matched, which is no error"},
}
_OF_ANY: Mapping[int, str] = {
    126: "the program was found, but could not be executed: it is no program, or there is no permission",
    127: "the program was not found",
}
_LONGEST_TEXT = 100_000
_DEEPEST = 3
"""Limit of nested shells and wrappers."""

_SUBSTITUTED = r"""\$\([^()"'`\\\#]*\) | \$\{[^{}"'`\\\$()]*\} | `[^`"'\\]*` | \$(?![({'])"""
_WORD = rf"""
    (?: [^\s;&|()<>'"\\`$]
    | '[^']*' | \$'(?:[^'\\]|\\.)*'
    | "(?: [^"\\`$] | \\. | {_SUBSTITUTED} )*"
    | \\. | {_SUBSTITUTED} | [<>]\([^()"'`\\\#]*\)
    )++"""
_TOKEN = re.compile(
    rf"""
    (?P<blank>(?:[ \t]|\\\n)+ | \#[^\n]*)
    | (?P<redirection>(?: &>>? | [0-9]*(?: <<<|<<-?|<[>&]?|>[>|&]? ))(?!\())
    | (?P<operator>&&|;;|[|][|&]?|[;&\n()])
    | (?P<word>{_WORD})
    """,
    re.VERBOSE | re.DOTALL,
)
_EXPANSION = re.compile(r"""'[^']*'|"(?:[^"\\`$]|\\.)*"|\\.|("|[$`]|[<>]\()""", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")

_ELSEWHERE = frozenset({"alias", "coproc", "exit", "function", "logout", "return", "select", "set", "trap"})
"""First words of commands after which another command than the last may decide."""
_RESERVED = frozenset({"!", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac"})
_WRAPPERS: Mapping[str, str] = {
    "sudo": "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir",
    "doas": "-u -C",
    "env": "-u -C --unset --chdir",
    "nice": "-n --adjustment",
    "ionice": "-c -n --class --classdata",
    "nohup": "",
    "command": "",
    "builtin": "",
    "exec": "-a",
    "time": "-o -f --output --format",
    "timeout": "-s -k --signal --kill-after",
    "stdbuf": "-i -o -e --input --output --error",
    "busybox": "",
    "uv": "--with --group --extra --package --project --directory -p --python",
    "poetry": "",
    "pipenv": "",
}
"""Wrappers that end with the exit code of their command, and their options with a value."""
_RUN_WRAPPERS = frozenset({"uv", "poetry", "pipenv"})
"""The wrappers with the subcommand `run`."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})


@dataclass(frozen=True, slots=True)
class _Command:
    """The last command to run, if all commands before it ran as written."""

    words: tuple[str | None, ...]
    """The program and its arguments. None is a word with a value made at run time."""
    is_conditional: bool = False
    """True if the command before a `&&` may have decided instead."""
    front: str = ""
    """The outermost wrapper, such as `timeout`."""

    @property
    def name(self) -> str:
        """The program without its directory, or an empty text."""
        return posixpath.basename(self.words[0] or "")


class _UnreadableError(Exception):
    """The text cannot be parsed for sure."""


def meaning_of(command: str, exit_code: int, workdir: str | None = None) -> str | None:
    """Return the meaning of an exit code; None for a plain error or an unknown code.

    Args:
        command: The shell text. The last command of its last pipeline decides.
        exit_code: The exit code of the text.
        workdir: A directory that had to be entered before. A failure to enter has exit code 1 too.
    """
    if exit_code == 0:
        return None
    last = _last_command(command)
    if last and (meaning := _of_command(last, exit_code)):
        unless = "; unless a command before its && has failed" if last.is_conditional else ""
        if workdir is not None and exit_code == 1:
            unless += f"; unless {workdir} could not be entered"
        return f"exit code {exit_code} of {_module(last.words) or last.name}: {meaning}{unless}"
    if general := _OF_ANY.get(exit_code) or _of_signal(exit_code):
        return f"exit code {exit_code}: {general}"
    return None


def _of_command(last: _Command, exit_code: int) -> str | None:
    if exit_code == TIMEOUT_EXIT_CODE and last.front == "timeout":
        return "timeout has ended it, as its time was up"
    if last.name == "git":
        return _OF_GIT.get(_subcommand(last.words), {}).get(exit_code)
    return _OF_PROGRAM.get(_module(last.words) or last.name, {}).get(exit_code)


def _subcommand(words: Sequence[str | None]) -> str:
    """Return git's first argument behind its options."""
    rest = _without_options(words[1:], ("-C", "-c", "--git-dir", "--work-tree"))
    return (rest[0] or "") if rest else ""


def _module(words: Sequence[str | None]) -> str:
    """Return the module of `python -m`, or an empty text."""
    if not posixpath.basename(words[0] or "").startswith(("python", "pypy")) or "-m" not in words[1:-1]:
        return ""
    return words[words.index("-m") + 1] or ""


def _of_signal(exit_code: int) -> str | None:
    number = exit_code - 128
    if number not in {known.value for known in signal.valid_signals() if isinstance(known, signal.Signals)}:
        return None
    name = signal.Signals(number).name
    more = {
        "SIGKILL": ", as happens when memory runs out",
        "SIGPIPE": ": the reader of its output has ended, as `head` does",
        "SIGSEGV": ": it has crashed",
        "SIGABRT": ": it has crashed",
    }
    return f"it was ended by signal {number} ({name}){more.get(name, '')}"


def _last_command(text: str, depth: int = 0) -> _Command | None:
    """Return the last command of the last pipeline without its wrappers; None if another command may decide."""
    if len(text) > _LONGEST_TEXT or depth > _DEEPEST:
        return None
    try:
        found = _last_of(_tokens(text))
    except _UnreadableError:
        return None
    return _unwrap(found, depth) if found else None


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield the operators and words of a text, without redirections, comments and here-documents."""
    place = 0
    redirection = ""
    delimiters: list[tuple[bool, str]] = []
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None or token.lastgroup is None:
            raise _UnreadableError
        place, kind, value = token.end(), token.lastgroup, token[0]
        if kind == "blank":
            continue
        if redirection:
            if kind != "word":
                raise _UnreadableError
            if redirection.lstrip("0123456789") in ("<<", "<<-"):
                delimiters.append((redirection.endswith("-"), _literal(value) or ""))
            redirection = ""
        elif kind == "redirection":
            redirection = value
        else:
            yield kind, value
        if value == "\n":
            for has_tabs, delimiter in delimiters:
                place = _behind_document(text, place, delimiter, has_tabs)
            delimiters = []
    if redirection or delimiters:
        raise _UnreadableError


def _behind_document(text: str, place: int, delimiter: str, has_tabs: bool) -> int:
    tabs = r"\t*" if has_tabs else ""
    end = re.compile(rf"^{tabs}{re.escape(delimiter)}(\n|\Z)", re.MULTILINE).search(text, place)
    if not delimiter or end is None:
        raise _UnreadableError
    return end.end()


def _last_of(tokens: Iterator[tuple[str, str]]) -> _Command | None:
    words: list[str] = []
    last: _Command | None = None
    conditional = [False]  # for each open group
    for kind, value in tokens:
        in_test = words[:1] == ["[["] and words[-1] != "]]"  # its && and its parentheses are its own
        if in_test or (kind == "word" and (words or value not in ("{", "}"))):
            words.append(value)
        elif value == "(" and words:  # a function, or an array
            raise _UnreadableError
        else:
            if words:
                last, words = _command(words, any(conditional)), []
            if value in ("(", "{"):
                conditional.append(False)
            elif value in (")", "}"):
                if len(conditional) == 1:
                    raise _UnreadableError
                conditional.pop()
            elif value not in ("|", "|&"):
                conditional[-1] = value == "&&"
            if value == "&":
                last = None
    return _command(words, any(conditional)) if words else last


def _command(written: Sequence[str], is_conditional: bool) -> _Command | None:
    if written[0] in _ELSEWHERE:
        raise _UnreadableError
    if written[0] in _RESERVED:
        return None
    first = next((at for at, word in enumerate(written) if not _ASSIGNMENT.match(word)), len(written))
    words = tuple(map(_literal, written[first:]))
    return _Command(words, is_conditional) if words else None


def _literal(word: str) -> str | None:
    """Return a word without quotes; None if its value is made at run time."""
    if any(found[1] for found in _EXPANSION.finditer(word)):
        return None
    return "".join(shlex.split(word))


def _unwrap(last: _Command, depth: int) -> _Command | None:
    """Return the command of wrappers such as sudo, or of a shell with `-c`."""
    for _ in range(_DEEPEST):
        if last.name in _SHELLS and len(last.words) > 1:
            text = _text_of_shell(last.words)
            inner = _last_command(text, depth + 1) if text else None
            if inner is None:
                return None
            return _Command(inner.words, last.is_conditional or inner.is_conditional, last.front or inner.front)
        if last.name not in _WRAPPERS:
            return last
        words = _wrapped_words(last)
        if words is None:
            return None
        if not words:
            return last
        last = replace(last, words=words, front=last.front or last.name)
    return None


def _text_of_shell(words: Sequence[str | None]) -> str | None:
    """Return the text of a shell's `-c`."""
    for place, word in enumerate(words[1:-1], 1):
        if re.fullmatch("-[ilux]*c", word or ""):
            return words[place + 1]
        if not re.fullmatch("-[ilux]+|--[a-z]+", word or ""):
            return None
    return None


def _wrapped_words(command: _Command) -> tuple[str | None, ...] | None:
    """Return the words of the command behind a wrapper; empty without a command, None if not known."""
    name, words = command.name, command.words[1:]
    if name == "command" and words[:1] in (("-v",), ("-V",)):
        return ()
    if name in _RUN_WRAPPERS:
        if words[:1] != ("run",):
            return ()
        words = words[1:]
    if name == "env" and any(word and word.startswith(("-S", "--split-string")) for word in words):
        return None
    words = _without_options(words, _WRAPPERS[name].split())
    if name == "timeout":
        words = words[1:]
    while name in ("env", "sudo") and words and _ASSIGNMENT.match(words[0] or ""):
        words = words[1:]
    return words


def _without_options(words: Sequence[str | None], valued: Sequence[str]) -> tuple[str | None, ...]:
    """Return the words behind the options.

    Args:
        words: Arguments of a program.
        valued: Options of the program with a value.
    """
    rest = list(words)
    while rest and (word := rest[0]) and word.startswith("-"):
        del rest[: 2 if word in valued else 1]
        if word == "--":
            break
    return tuple(rest)
