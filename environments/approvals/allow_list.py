"""The allow list of config.yaml: patterns of allowed commands, and the words that a pattern must name literally."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase

from environments.approvals.command import Command, Redirect, Word
from environments.approvals.wrappers import is_wrapper
from environments.errors import SettingsError

_ANY = "*"
_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_ANY_FILE = ("*", "?", "[")
"""First characters of a glob from which the shell may make an option."""
_EVERY = 1_000_000
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[.*\])?[-+]?=", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Powers:
    """The words with which a program runs another program or writes a file, beside its options."""

    operands: int = 0
    """The number of leading operands that are program text, are evaluated, or name a variable or file to write."""
    valued: str = ""
    """Options followed by a harmless value, which is no operand."""
    texts: str = ""
    """Options followed by program text, in place of the first operand."""
    evaluating: str = ""
    """Options with which every operand is evaluated."""
    bundled: bool = False
    """True if the first word may be options without a dash."""
    assigns: bool = True
    """True if an operand such as `name=value` sets a variable."""
    dashes: bool = False
    """True if `--` ends the options."""
    input: str = ""
    """`alone` if standard input is program text without an operand, `always` if also with operands."""


_COMPARISONS = "-v -R -eq -ne -lt -le -gt -ge"
_POWERS: dict[str, _Powers] = {
    program: powers
    for programs, powers in {
        "sed gsed": _Powers(1, "-l --line-length", "-e --expression -f --file", dashes=True),
        "awk gawk mawk nawk": _Powers(
            1, "-F -v --field-separator --assign", "-f -e -i -l -E --file --source --include --load --exec"
        ),
        "python pypy": _Powers(texts="-c -m", input="alone"),
        "perl ruby": _Powers(texts="-e -E", input="alone"),
        "node nodejs deno bun": _Powers(texts="-e -p -r --eval --print --require", input="alone"),
        "php": _Powers(texts="-r -B -R -E -f", input="alone"),
        "lua luajit R Rscript julia octave osascript groovy scala elixir racket guile tclsh irb": _Powers(
            texts="-e -E -l -c --eval --execute", input="alone"
        ),
        "ed red ex vi vim nvim view gvim emacs gdb psql mysql mariadb": _Powers(
            texts="-c -S -s -e -ex -x --cmd --command --eval --execute", input="always"
        ),
        "sqlite sqlite3 dc m4": _Powers(_EVERY, input="always"),
        "tar ar": _Powers(bundled=True),
        "git": _Powers(valued="-C --git-dir --work-tree --namespace", texts="-c --config-env", dashes=True),
        "printf": _Powers(evaluating="-v", assigns=False),
        "test [ [[": _Powers(evaluating=_COMPARISONS, assigns=False),
        "read declare typeset local export readonly let unset mapfile readarray getopts": _Powers(_EVERY),
        "eval trap alias unalias hash enable complete compgen bind dd tee socat": _Powers(_EVERY),
        "sort find fd fdfind curl wget make gmake docker podman ssh scp sftp rsync zip less more man": _Powers(),
        "source . exec history fc openssl rg tree tcpdump nc ncat netcat yq": _Powers(),
        "wait": _Powers(texts="-p"),
    }.items()
    for program in programs.split()
}
"""Programs whose words run programs or write files. All wrappers belong to them too."""
_GIT_TEXTS = frozenset({"config", "bisect", "submodule", "filter-branch", "difftool", "mergetool", "hook"})
"""Subcommands of git whose operands are programs."""
_RUNS_OTHERS = _Powers()


class AllowPattern:
    """A pattern of the allow list.

    The pattern is compared with a command word by word, so a command cannot hide behind or within a word. More words
    may follow only after a final `*`.

    Args:
        pattern: The pattern.

    Raises:
        SettingsError: The pattern cannot be split into words.
    """

    def __init__(self, pattern: str) -> None:
        self._text = pattern.strip()
        try:
            words = shlex.split(pattern)
        except ValueError as error:
            raise SettingsError(f"approvals.allow: the pattern {pattern!r} cannot be read: {error}") from None
        self._more = bool(words) and words[-1] == _ANY
        self._words = words[:-1] if self._more else words

    def equals_text(self, text: str) -> bool:
        """Return True for the pattern's own text, to the letter."""
        return text.strip() == self._text

    def covers(self, command: Command) -> bool:
        """Return True if a command matches, has literal words, sets no variable and writes no file.

        The words with which a program runs another program or writes a file must be in the pattern to the letter.
        """
        words = command.words
        if command.assignments or any(map(_has_effect, command.redirects)):
            return False
        if not words or words[0].glob or not all(word.literal for word in words):
            return False
        if len(words) < len(self._words) or (len(words) > len(self._words) and not self._more):
            return False
        powers = _POWERS.get(command.name, _RUNS_OTHERS if is_wrapper(command.name) else None)
        if powers and _reads_program(command, powers):
            return False
        named = _fixed_words(command, powers) if powers else frozenset()
        return all(
            written == word.text or (at not in named and (written is None or _word_matches(word, written)))
            for at, word in enumerate(words)
            for written in (self._words[at] if at < len(self._words) else None,)
        )


def _has_effect(redirect: Redirect) -> bool:
    """Return True if a redirection writes to a file or opens a connection."""
    target = redirect.target.text
    return (redirect.is_output and target not in _HARMLESS) or target.startswith(("/dev/tcp/", "/dev/udp/"))


def _word_matches(word: Word, pattern: str) -> bool:
    parts = word.text.split("/")
    if word.glob and any(part.startswith(".") and fnmatchcase("..", part) for part in parts):
        return False
    climbs = ".." in parts and posixpath.normpath(word.text) != posixpath.normpath(pattern)
    return not climbs and fnmatchcase(word.text, pattern)


def _reads_program(command: Command, powers: _Powers) -> bool:
    """Return True if standard input is program text, which no pattern can name."""
    opened = any(one.operator.startswith("<") and one.target.text != "/dev/null" for one in command.redirects)
    if command.stdin_text is None and not command.producers and not opened:
        return False
    return powers.input == "always" or (powers.input == "alone" and all(map(_is_option, command.texts)))


def _fixed_words(command: Command, powers: _Powers) -> frozenset[int]:
    """Return the positions of the words with which a program runs another program or writes a file."""
    valued, texts = powers.valued.split(), powers.texts.split()
    left = _EVERY if set(powers.evaluating.split()) & set(command.texts) else powers.operands
    found = set()
    is_value = is_program = ended = False
    operands = 0
    for at, word in enumerate(command.args, 1):
        text = word.text
        if is_program:
            found.add(at)
            is_program = False
        elif is_value:
            is_value = False
        elif powers.dashes and text == "--" and not ended:
            ended = True
        elif not ended and (_is_option(text) or (word.glob and text[:1] in _ANY_FILE)):
            found.add(at)
            is_value = text in valued
            is_program = text in texts or (text[:2] != "--" and "-" + text[-1:] in texts)
            left = 0 if is_program and left != _EVERY else left
        else:
            operands += 1
            if operands == 1 and command.name == "git" and text in _GIT_TEXTS:
                left = _EVERY
            is_text = operands <= left or (powers.bundled and at == 1) or (powers.assigns and _ASSIGNMENT.match(text))
            if is_text or (command.name == "git" and "::" in text):
                found.add(at)
    return frozenset(found)


def _is_option(text: str) -> bool:
    return text == "-" or (len(text) > 1 and text[0] in "-+")
