"""What stands in front of a command: `sudo -u root nice -n 5 rm`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from environments.approvals.command import UNKNOWN, Command, Word
from environments.approvals.options import Options
from environments.approvals.reading.carried import NOTHING, Carried, Text, inner
from environments.approvals.reading.names import names

_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})
_XARGS_VALUED = names("-I -n -P -d -L -s -a -E --max-args --max-procs --delimiter --replace --arg-file")
_MOST_NAMES = 20
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True, slots=True)
class _Front:
    """A program that runs the command behind it."""

    valued: tuple[str, ...] = ()
    """Its options that are followed by a value."""
    operands: int = 0
    """How many words of its own come before the command."""
    subcommands: tuple[str, ...] = ()
    """Which first word makes it one, if not all do."""


_CONTAINERS = _Front(
    names("-e -u -w -v -p -m -l -h --env --user --workdir --volume --name --network --mount --entrypoint"),
    operands=1,
    subcommands=("exec", "run"),
)
_FRONTS: Mapping[str, _Front] = {
    "sudo": _Front(names("-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir")),
    "doas": _Front(("-u", "-C")),
    "env": _Front(("-u", "-C", "--unset", "--chdir")),
    "nice": _Front(("-n", "--adjustment")),
    "ionice": _Front(("-c", "-n", "-p", "--class", "--classdata")),
    "nohup": _Front(),
    "setsid": _Front(),
    "builtin": _Front(),
    "command": _Front(),
    "exec": _Front(("-a",)),
    "time": _Front(("-o", "-f", "--output", "--format")),
    "timeout": _Front(("-s", "-k", "--signal", "--kill-after"), operands=1),
    "stdbuf": _Front(("-i", "-o", "-e", "--input", "--output", "--error")),
    "chroot": _Front((), operands=1),
    "flock": _Front(("-w", "-E", "--timeout"), operands=1),
    "taskset": _Front((), operands=1),
    "chrt": _Front((), operands=1),
    "gosu": _Front((), operands=1),
    "su-exec": _Front((), operands=1),
    "runuser": _Front(("-u", "-g", "-G", "--user")),
    "setpriv": _Front(("--reuid", "--regid", "--groups")),
    "unshare": _Front(("-S", "-G", "-R", "-w")),
    "nsenter": _Front(("-t", "--target", "-S", "-G")),
    "strace": _Front(("-o", "-e", "-p", "-s", "-u", "-P")),
    "ltrace": _Front(("-o", "-e", "-p", "-s", "-u")),
    "fakeroot": _Front(),
    "unbuffer": _Front(),
    "caffeinate": _Front(("-t", "-w")),
    "dbus-run-session": _Front(),
    "xvfb-run": _Front(("-n", "-s", "-e")),
    "systemd-run": _Front(("-p", "-u", "-M", "--unit", "--property")),
    "systemd-inhibit": _Front(),
    "busybox": _Front(),
    "toybox": _Front(),
    "coproc": _Front(),
    "screen": _Front(("-S", "-t", "-c", "-h", "-T", "-p", "-e")),
    "noglob": _Front(),
    "not": _Front(),
    "{": _Front(),
    "!": _Front(),
    "npx": _Front(("-p", "--package")),
    "uv": _Front(("--with", "-p", "--python"), subcommands=("run",)),
    "poetry": _Front((), subcommands=("run",)),
    "pipenv": _Front((), subcommands=("run",)),
    "bundle": _Front((), subcommands=("exec",)),
    "conda": _Front(("-n", "--name", "-p", "--prefix"), subcommands=("run",)),
    "docker": _CONTAINERS,
    "podman": _CONTAINERS,
    "kubectl": _Front(("-n", "--namespace", "-c", "--container", "--context"), operands=1, subcommands=("exec",)),
}


def behind(command: Command, name: str) -> Carried:
    """Return what a command runs that stands behind it.

    Args:
        command: The command.
        name: Its program, which a pattern may stand for in the command itself.
    """
    if special := _SPECIAL.get(name):
        return special(command)
    if name.startswith("ld-linux") or name.startswith("ld-musl"):
        return inner(command, Options.of(command.args, ("--library-path", "--preload"), first_ends=True).operands)
    front = _FRONTS.get(name)
    if front is None:
        return NOTHING
    words = command.args
    if front.subcommands:
        if command.texts[:1] == () or command.texts[0] not in front.subcommands:
            return NOTHING
        words = words[1:]
    if name == "command" and command.texts[:1] in (("-v",), ("-V",)):
        return NOTHING
    return _behind_options(command, words, front, name)


def _behind_options(command: Command, words: tuple[Word, ...], front: _Front, name: str) -> Carried:
    options = Options.of(words, front.valued, first_ends=True)
    if name == "env" and (options.has("S", "split-string")):
        return _split_by_env(options, words)
    left = options.operands
    if name == "env" and left and left[0].text == "-":
        left = left[1:]
    while left and _ASSIGNMENT.match(left[0].text):
        left = left[1:]
    left = left[front.operands :]
    return inner(command, left[1:] if left and left[0].text == "--" else left)


def _split_by_env(options: Options, words: tuple[Word, ...]) -> Carried:
    """Take apart what `env -S` takes apart, however its text is attached."""
    first = next(at for at, word in enumerate(words) if word.text.startswith(("-S", "--s", "-i", "-v")))
    text = " ".join(word.text for word in words[first:])
    return Carried(texts=(Text(re.sub(r"^(-\w*S|--s[a-z-]*=?)\s*", "", text)),))


def _found(command: Command) -> Carried:
    """`find ... -exec rm {} +`: of what it finds, the name is made up."""
    words = command.args
    commands: list[Command] = []
    run: list[Word] | None = None
    for word in words:
        if run is not None and word.text not in (";", "+"):
            run.append(word)
            continue
        commands += _run_on_each(command, run or [], "{}", command.lists)
        run = [] if word.text in _EXECUTING else None
    return Carried((*commands, *_run_on_each(command, run or [], "{}", command.lists)))


def _run_on_each(command: Command, words: Sequence[Word], mark: str, names: Sequence[str]) -> Iterator[Command]:
    """Return a command for each name, which is put in where the mark is."""
    for name in names:
        replaced = (replace(word, text=word.text.replace(mark, name)) for word in words)
        yield from inner(command, tuple(replaced)).commands


def _each_read(command: Command) -> Carried:
    """`xargs rm`: what it reads becomes arguments."""
    options = Options.of(command.args, _XARGS_VALUED, first_ends=True)
    words = options.operands or (Word("echo"),)
    mark = options.value("-I", "--replace") or ("{}" if options.has("iI", "replace") else "")
    if mark:
        read = _words_read(command)
        read = read if len(read) <= _MOST_NAMES else (UNKNOWN,)
        return Carried(tuple(_run_on_each(command, words, mark, read)))
    read_words = tuple(Word(text, glob="*" in text, fed_by=command.fed_by) for text in _words_read(command))
    return inner(replace(command, fed_by=(), given=None), (*words, *read_words))


def _words_read(command: Command) -> tuple[str, ...]:
    if command.given is not None:
        return tuple(re.split(r"[\s\0]+", command.given.strip()))
    return (command.fed_by[-1].lists if command.fed_by else ()) or (UNKNOWN,)


def _each_given(command: Command) -> Carried:
    """`parallel rm ::: a b`."""
    texts = command.texts
    cut = next((at for at, text in enumerate(texts) if text.startswith(":::")), len(texts))
    words = Options.of(command.args[:cut], ("-j", "--jobs"), first_ends=True).operands
    given = command.args[cut + 1 :] or tuple(Word(text, glob="*" in text) for text in _words_read(command))
    if len(words) == 1:
        text = " ".join([words[0].text, *(word.text for word in given)])
        return Carried(texts=(Text(text),))
    return inner(command, (*words, *given))


_SPECIAL: Mapping[str, Callable[[Command], Carried]] = {
    "find": _found,
    "fd": _found,
    "xargs": _each_read,
    "parallel": _each_given,
}
FRONTS: frozenset[str] = frozenset({*_FRONTS, *_SPECIAL})
"""All programs that run the command behind them."""
