"""Commands that run text: shells, `eval`, and programs that hand a text to a shell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from environments.approvals.command import RUNS_DOWNLOAD, UNKNOWN, UNSEEN, Command, Word
from environments.approvals.options import Options
from environments.approvals.reading.carried import NOTHING, Carried, Text
from environments.approvals.reading.expansion import printed_by
from environments.approvals.reading.names import names

_SHELL_NAMES = frozenset(names("sh bash dash zsh ksh ksh93 mksh ash fish pwsh rbash yash tcsh csh"))
_READS_FILES = frozenset({"cat", "grep", "head", "tail", "sort", "uniq"})
_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_SSH_VALUED = names("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w")
_ESCAPE = re.compile(r"[:+]*(?:!|shell |\\!)(.*)", re.DOTALL)
"""`vim -c '!rm'`, `gdb -ex '!rm'`: programs with commands of their own, of which some run a shell."""
_RUN_BY_TAR = re.compile(r"(?:--checkpoint-action=exec=|--to-command=|--use-compress-program=)(.*)", re.DOTALL)
"""`tar --checkpoint-action=exec=TEXT` and its kin."""
_PRINTS_SETTINGS = frozenset(
    names(
        "ssh-agent direnv conda mamba micromamba pyenv rbenv nodenv goenv fnm starship brew dircolors opam "
        "keychain zoxide register-python-argcomplete minikube docker-machine mise rtx thefuck luarocks "
        "kubectl helm gh resize tset"
    )
)
"""Programs whose output is made to be evaluated."""


def run_as_text(command: Command, name: str) -> Carried:
    """Return the text that a command runs, or has a shell run.

    Args:
        command: The command.
        name: Its program, which a pattern may stand for in the command itself.
    """
    run = _RUNS_TEXT.get(name)
    return run(command) if run else NOTHING


def _shell(command: Command) -> Carried:
    options = Options.of(command.args, ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"), first_ends=True)
    operands = tuple(word for word in options.operands if not word.text.startswith("+"))
    if options.has("c"):
        return _text(operands[:1], "a shell is given a text")
    if not operands or options.has("s") or operands[0].text in _INPUT:
        return _input(command)
    if operands[0].fed_by:
        return output_as_text(operands[0].fed_by)
    return NOTHING


def _sourced(command: Command) -> Carried:
    operand = command.args[:1]
    if operand and operand[0].text in _INPUT:
        return _input(command)
    if operand and operand[0].fed_by and not _prints_settings(operand[0].fed_by):
        return output_as_text(operand[0].fed_by)
    return NOTHING


def _evaluated(command: Command) -> Carried:
    words = command.args[1:] if command.texts[:1] == ("--",) else command.args
    feeding = tuple(fed for word in words for fed in word.fed_by)
    if feeding and _prints_settings(feeding):
        return NOTHING
    return _text(words, "eval is given a text", stays=True)


def _prints_settings(commands: tuple[Command, ...]) -> bool:
    return all(command.name in _PRINTS_SETTINGS for command in commands)


def _text(words: tuple[Word, ...], what: str, *, stays: bool = False) -> Carried:
    """Run words as a text, unless they are made of what cannot be known."""
    text = " ".join(word.text for word in words)
    feeding = tuple(fed for word in words for fed in word.fed_by)
    smells = {fed.smells for fed in feeding if fed.prints is None}
    unseen = ""
    if "downloaded" in smells:
        unseen = RUNS_DOWNLOAD
    elif text.strip() == UNKNOWN and feeding and _is_of_files(feeding):
        return NOTHING  # as if the shell were given the file
    elif text.strip().startswith(UNKNOWN) or (smells - {""}):
        unseen = f"{UNSEEN}: {what} that is made while it runs"
    return Carried(texts=(Text(text, stays=stays),) if text else (), unseen=unseen)


def _input(command: Command) -> Carried:
    """Run what is read."""
    if command.given is not None:
        unseen = f"{UNSEEN}: a shell reads what is made while it runs" if UNKNOWN in command.given.split() else ""
        return Carried(texts=(Text(command.given, is_input=True),), unseen=unseen)
    return output_as_text(command.fed_by)


def output_as_text(feeding: tuple[Command, ...]) -> Carried:
    """Return what is run where a shell reads what other commands print."""
    if not feeding:
        return NOTHING
    prints = printed_by(feeding)
    if prints is not None:
        return Carried(texts=(Text(prints, is_input=True),))
    smells = {command.smells for command in feeding}
    if "downloaded" in smells:
        return Carried(unseen=RUNS_DOWNLOAD)
    if _is_of_files(feeding):
        return NOTHING  # as if the shell were given the file
    return Carried(unseen=f"{UNSEEN}: a shell reads what is made while it runs")


def _is_of_files(commands: tuple[Command, ...]) -> bool:
    """Whether commands print what stands in files, so that it is as if those were run."""
    return all(command.name in _READS_FILES and not command.fed_by for command in commands if command.prints is None)


def _option_text(*options: str) -> Callable[[Command], Carried]:
    """Run the value of an option, as of `su -c`."""

    def run(command: Command) -> Carried:
        value = Options.of(command.args, options).value(*options)
        return Carried(texts=(Text(value),)) if value else NOTHING

    return run


def _words_as_text(
    valued: tuple[str, ...], operands: int = 0, *, first_ends: bool = True
) -> Callable[[Command], Carried]:
    """Run the operands as a text, as of `watch` and, behind the host, of `ssh`."""

    def run(command: Command) -> Carried:
        words = Options.of(command.args, valued, first_ends=first_ends).operands[operands:]
        return Carried(texts=(Text(" ".join(word.text for word in words)),)) if words else NOTHING

    return run


def _over_ssh(command: Command) -> Carried:
    options = Options.of(command.args, _SSH_VALUED, first_ends=True)
    words = options.operands[1:]
    return Carried(texts=(Text(" ".join(word.text for word in words)),)) if words else _input(command)


def _matched(pattern: re.Pattern[str]) -> Callable[[Command], Carried]:
    """Run what arguments hold as the first group of a pattern that fits their beginning."""

    def run(command: Command) -> Carried:
        found = (pattern.match(text) for text in command.texts)
        return Carried(texts=tuple(Text(match[1]) for match in found if match))

    return run


def _trap(command: Command) -> Carried:
    words = command.args[1:] if command.texts[:1] == ("--",) else command.args
    return Carried(texts=(Text(words[0].text, stays=True),)) if len(words) > 1 else NOTHING


def _alias(command: Command) -> Carried:
    values = [text.partition("=")[2] for text in command.texts]
    return Carried(texts=tuple(Text(value) for value in values if value))


def _read_later(command: Command) -> Carried:
    """`at now`, which reads what it runs; `crontab -` is only read, as its lines begin with times."""
    return Carried(texts=(Text(command.given, is_input=True),)) if command.given else NOTHING


def _git(command: Command) -> Carried:
    """`git submodule foreach TEXT`, and `git -c alias.x=!TEXT`."""
    texts = [text.partition("=!")[2] for text in command.texts if text.startswith("alias.")]
    if "foreach" in command.texts:
        words = command.texts[command.texts.index("foreach") + 1 :]
        texts.append(" ".join(word for word in words if word != "--recursive"))
    if command.texts[:2] == ("bisect", "run"):
        texts.append(" ".join(command.texts[2:]))
    texts.append(Options.of(command.args, ("--exec", "-x")).value("--exec", "-x"))
    return Carried(texts=tuple(Text(text) for text in texts if text))


_RUNS_TEXT: Mapping[str, Callable[[Command], Carried]] = {
    **dict.fromkeys(_SHELL_NAMES, _shell),
    ".": _sourced,
    "source": _sourced,
    "eval": _evaluated,
    "trap": _trap,
    "alias": _alias,
    "at": _read_later,
    "batch": _read_later,
    "git": _git,
    "su": _option_text("-c", "--command"),
    "runuser": _option_text("-c", "--command"),
    "script": _option_text("-c", "--command"),
    "sg": _option_text("-c"),
    "watch": _words_as_text(("-n", "--interval")),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "ex", "gdb", "less", "ftp", "psql"), _matched(_ESCAPE)),
    "tar": _matched(_RUN_BY_TAR),
    "ssh": _over_ssh,
    "tmux": _words_as_text(names("-t -s -n -c -L -S -x -y"), operands=1, first_ends=False),
}
RUNNERS: frozenset[str] = frozenset(_RUNS_TEXT)
"""All programs that run a text."""
