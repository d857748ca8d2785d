"""Programs in other languages that stand in a command: `python -c`, `perl -e`, `awk`.

They are not parsed. What their texts and a few well-known calls say is taken for what they run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from environments.approvals.command import RUNS_DOWNLOAD, UNKNOWN, UNSEEN, Command, Redirect, Word
from environments.approvals.options import Options
from environments.approvals.reading.carried import NOTHING, Carried, Text
from environments.approvals.reading.escapes import ansi_c
from environments.approvals.reading.expansion import printed_by


@dataclass(frozen=True, slots=True)
class _Language:
    """How an interpreter is given a program."""

    options: tuple[str, ...] = ("-e",)
    """Those that are followed by it."""
    valued: tuple[str, ...] = ()
    """Others that are followed by a value."""
    reads_input: bool = True
    """Whether it is read where no file is named."""


_JAVASCRIPT = _Language(("-e", "--eval", "-p", "--print", "-pe"), ("-r", "--require"))
_LANGUAGES: Mapping[str, _Language] = {
    "python": _Language(("-c",), ("-m", "-W", "-X")),
    "pypy": _Language(("-c",), ("-m", "-W", "-X")),
    "perl": _Language(("-e", "-E"), ("-I", "-M")),
    "ruby": _Language(("-e",), ("-r", "-I")),
    "node": _JAVASCRIPT,
    "nodejs": _JAVASCRIPT,
    "bun": _JAVASCRIPT,
    "deno": _Language((), reads_input=False),
    "php": _Language(("-r",), ("-d", "-f")),
    "lua": _Language(("-e",), ("-l",)),
    "Rscript": _Language(("-e",)),
    "osascript": _Language(("-e",)),
}
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
LANGUAGES: frozenset[str] = frozenset(_LANGUAGES) | _AWKS

_LITERAL = re.compile(
    r"""([fF]?)(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`)|qx?[{(]([^})]*)[})]"""
)
_CONCATENATES = re.compile(r"[\s+.]*")
_LISTS = re.compile(r"[\s,]*")
_RUNS = re.compile(
    r"system|popen|subprocess|exec|spawn|check_call|check_output|getoutput|"
    r"\brun\(|\bqx\b|`|%x|do shell script|\|\s*[\"']"
)
_RUNS_MADE = re.compile(
    r"(?:system|popen|exec|execSync|eval|check_call|check_output|\brun)\s*\(?\s*(?!\s|open\b|compile\()[^\s'\"(\[)f,;:=`]"
)
_DECODES = re.compile(
    r"b64decode|fromhex|unhexlify|decodebytes|\batob\b|Buffer\.from|\bpack\b|decode_base64|\bchr\(|\[::-1\]"
)
_FORKS = re.compile(r"\bfork\b")
_FOREVER = re.compile(r"\bwhile\b|\bfor\s*\(\s*;|\bloop\b|\buntil\b")
_REMOVES = re.compile(
    r"(?:rmtree|remove_tree|rm_rf|rm_r\b|rmSync|rmdirSync|rimraf|removeSync|remove_dir|remove_entry|fs\.rm\b|promises\.rm\b"
    r"|rmtree_safe)(?![\w])\s*\(?\s*"
)
_WRITES = re.compile(r"(?:open|writeFileSync|writeFile|file_put_contents|Path|File\.write)\s*\(\s*")
_FOR_WRITING = re.compile(r"\s*,\s*(?:mode\s*=\s*)?['\"][wa>]|\s*\)\s*\.write|\s*,\s*['\"]?>")
_KILLS_ALL = re.compile(r"\bkill(?:pg)?\s*\(?\s*(?:-1\s*,|['\"]?\w+['\"]?\s*,\s*-1\b)")
_MAKES_DIRECTORY = re.compile(r"mkdtemp|TemporaryDirectory|mktmpdir|tempdir")
_HOME = re.compile(r"[^)]{0,40}(?:expanduser|home\(\)|homedir|\bHOME\b)")


def run_by_program(command: Command, name: str) -> Carried:
    """Return what a program in another language runs, as commands and texts.

    Args:
        command: The interpreter with its arguments.
        name: Its name, which a pattern may stand for in the command itself.
    """
    if name in _AWKS:
        operands = Options.of(command.args, ("-F", "-v", "-f"), first_ends=True).operands
        return _judged(operands[0].text, command) if operands else NOTHING
    language = _LANGUAGES.get(name)
    if language is None:
        return NOTHING
    options = Options.of(command.args, (*language.options, *language.valued), first_ends=True)
    codes = [value for option, value in options.values if option in language.options or option[-1:] in "eE"]
    if name == "deno" and command.texts[:1] == ("eval",):
        codes = list(command.texts[1:])
    if codes:
        smells = {fed.smells for word in command.args for fed in word.fed_by if fed.prints is None}
        carried = _judged("\n".join(codes), command)
        return carried if not smells - {""} else Carried(carried.commands, carried.texts, _made(smells))
    if options.operands and options.operands[0].fed_by:
        return _read(replace(command, fed_by=options.operands[0].fed_by, given=printed_by(options.operands[0].fed_by)))
    if language.reads_input and (not options.operands or options.operands[0].text == "-") and not options.values:
        return _read(command)
    return NOTHING


def _read(command: Command) -> Carried:
    if command.given is not None:
        return _judged(command.given, command)
    smells = {feeding.smells for feeding in command.fed_by}
    return Carried(unseen=_made(smells)) if smells - {""} else NOTHING


def _made(smells: set[str]) -> str:
    if "downloaded" in smells:
        return RUNS_DOWNLOAD
    return f"{UNSEEN}: a program is made while it runs"


def _judged(code: str, command: Command) -> Carried:
    literals = list(_LITERAL.finditer(code))
    commands = [*_removals(code), *_writings(code)]
    if _KILLS_ALL.search(code):
        commands.append(("kill", "-9", "-1"))
    texts: list[Text] = []
    if _RUNS.search(code):
        for words in _sequences(code, literals):
            texts += [Text(word, is_guess=True) for word in words]
            commands += [tuple(words)] if len(words) > 1 else []
    return Carried(tuple(_as_command(words, command) for words in commands), tuple(texts), _unseen(code))


def _unseen(code: str) -> str:
    if _FORKS.search(code) and _FOREVER.search(code):
        return "it is a fork bomb: a program that starts itself over and over"
    if _RUNS_MADE.search(code) or (_DECODES.search(code) and re.search(r"exec|eval|system|popen|subprocess", code)):
        return f"{UNSEEN}: a program runs what it makes"
    if code.strip().startswith(UNKNOWN):
        return f"{UNSEEN}: a program is made while it runs"
    return ""


def _as_command(words: tuple[str, ...], command: Command) -> Command:
    if words[0] == ">":
        redirects = (Redirect(">", Word(words[1])),)
        return Command(redirects=redirects, directory=command.directory, carried=True)
    return Command(tuple(Word(word, glob="*" in word) for word in words), directory=command.directory, carried=True)


def _sequences(code: str, literals: list[re.Match[str]]) -> Iterator[list[str]]:
    """Return the literals, those together between which there are only commas, and as one what is concatenated."""
    words: list[str] = []
    end = -1
    for found in literals:
        between = code[end : found.start()] if end >= 0 else None
        if between is not None and between.strip() and _LISTS.fullmatch(between):
            words.append(_text_of(found))
        elif between is not None and words and _CONCATENATES.fullmatch(between):
            words[-1] += _text_of(found)
        else:
            if words:
                yield words
            words = [_text_of(found)]
        end = found.end()
    if words:
        yield words


def _text_of(found: re.Match[str]) -> str:
    text = ansi_c(next((group for group in found.groups()[1:] if group is not None), ""))
    return re.sub(r"\{[^{}]*\}", UNKNOWN, text) if found[1] else text


def _removals(code: str) -> Iterator[tuple[str, ...]]:
    unknown = () if _MAKES_DIRECTORY.search(code) else (("rm", "-rf", UNKNOWN),)
    for call in _REMOVES.finditer(code):
        if literal := _LITERAL.match(code, call.end()):
            yield ("rm", "-rf", _text_of(literal))
        elif "(" in call[0]:
            yield from (("rm", "-rf", "~"),) if _HOME.match(code, call.end()) else unknown


def _writings(code: str) -> Iterator[tuple[str, ...]]:
    for call in _WRITES.finditer(code):
        literal = _LITERAL.match(code, call.end())
        if literal and (call[0].startswith(("write", "file_put", "File")) or _FOR_WRITING.match(code, literal.end())):
            yield (">", _text_of(literal))
