"""What a command prints, where its words tell it; and how it has come about, where they don't."""

from __future__ import annotations

import re
from collections.abc import Iterator

from environments.approvals.command import UNKNOWN, Command
from environments.approvals.reading.escapes import ansi_c
from environments.approvals.reading.names import names

_MAX_PRINTED = 20_000
DOWNLOADERS = frozenset(
    names(
        "curl wget fetch aria2c axel http https xh lynx w3m nc ncat netcat socat telnet ftp sftp scp rsync "
        "ssh s3cmd gsutil aws gh ipfs"
    )
)
DECODERS = frozenset(
    names(
        "base64 base32 basenc b64decode xxd openssl uudecode gunzip zcat gzip bzcat bunzip2 xzcat unxz xz "
        "zstd zstdcat gpg rev tr sed awk gawk mawk perl python ruby node php od hexdump tac cut fold paste"
    )
)
_PASS_ON = frozenset({"cat", "tee", "sponge", "pv"})
_NAME_A_PROGRAM = frozenset({"which", "command", "type", "whence"})
_PRINT = {
    "mktemp": "/tmp/tmp.made\n",  # noqa: S108 - a name of the kind that it makes
    "whoami": "user\n",
    "git rev-parse --show-toplevel": ".\n",
    "dirname sh": ".\n",
    "true": "",
    ":": "",
    "": "",
}
"""What some print, by the whole line or by the program."""
_ECHO_OPTION = re.compile(r"-[neE]+")
_DIRECTIVE = re.compile(r"%(?:%|[-+ #0-9.*]*[a-zA-Z])")


def smell_of(name: str, feeding: tuple[Command, ...]) -> str:
    """Say how the output of a command has come about: `downloaded`, `decoded`, or nothing to note.

    Args:
        name: The program.
        feeding: The commands whose output it reads or is given.
    """
    smells = {command.smells for command in feeding}
    if name in DOWNLOADERS or "downloaded" in smells:
        return "downloaded"
    return "decoded" if name in DECODERS or "decoded" in smells else ""


def printed(command: Command) -> str | None:
    """Return what a command prints, where its words tell it; else None."""
    if command.name in _PASS_ON:
        return None if _reads_files(command) else command.given
    if command.name in _NAME_A_PROGRAM:
        return command.texts[-1] + "\n" if command.texts else None
    match command.name:
        case "echo":
            return _echoed(command.texts)
        case "printf":
            return _formatted(command.texts)
        case "pwd":
            return (command.directory or ".") + "\n"
    return _PRINT.get(command.line, _PRINT.get(command.name))


def _reads_files(command: Command) -> bool:
    if command.name == "tee":
        return False
    return any(text == UNKNOWN or not text.startswith("-") for text in command.texts if text != "-")


def _echoed(words: tuple[str, ...]) -> str | None:
    options = ""
    while words and _ECHO_OPTION.fullmatch(words[0]):
        options, words = options + words[0], words[1:]
    text = " ".join(words)
    if UNKNOWN in text or len(text) > _MAX_PRINTED:
        return None
    text = ansi_c(text)  # sh does so without being told to
    return text if "n" in options else text + "\n"


def _formatted(words: tuple[str, ...]) -> str | None:
    if words and words[0] == "--":
        words = words[1:]
    if not words or words[0] == "-v" or any(UNKNOWN in word for word in words):
        return None
    form, values = ansi_c(words[0]), list(words[1:])
    directives = len([found for found in _DIRECTIVE.findall(form) if found != "%%"])
    rounds = -(-len(values) // directives) if directives and values else 1
    if (len(form) * rounds + sum(map(len, values))) > _MAX_PRINTED:
        return None
    left = iter(values)
    return "".join(_DIRECTIVE.sub(lambda found: _one(found[0], left), form) for _ in range(rounds))


def _one(directive: str, values: Iterator[str]) -> str:
    """Return the next value as a directive prints it. Widths and formats of numbers are left aside."""
    if directive == "%%":
        return "%"
    value = next(values, "")
    return ansi_c(value) if directive[-1] == "b" else value[: 1 if directive[-1] == "c" else None]
