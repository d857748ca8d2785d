"""Standard output and written files of commands, as far as their words show them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from environments.approvals.budget import MAX_VALUE
from environments.approvals.command import UNKNOWN, Command, Options
from environments.approvals.quoting import ansi_c
from environments.approvals.wrappers import COPYING

Flow = tuple[Command, ...]
"""Commands whose standard output flows into a pipe, a word or a file."""
_PRINTS = {
    "mktemp": "/tmp/tmp.made\n",  # noqa: S108 - a name of the kind that it makes
    "whoami": "user\n",
    "git rev-parse --show-toplevel": ".\n",
    "basename .": "project\n",
    **dict.fromkeys(("true", ":", "false", "cd", "test", "[", "[[", ""), ""),
}
"""Output of commands, by the whole line or by the program."""
_DIRECTIVE = re.compile(r"%(.)", re.DOTALL)
_WRITING = frozenset({"tee", "curl", "wget", "dd", *COPYING})


def known_stdout(command: Command) -> str | None:
    """Return the standard output of a command before redirections; None if not known."""
    name, texts = command.name, command.texts
    if name in _STDOUT_OF:
        return _STDOUT_OF[name](texts)
    if name in ("cat", "tee"):
        reads_files = name == "cat" and any(not text.startswith("-") for text in texts if text != "-")
        return None if reads_files else command.stdin_text
    if name == "pwd":
        return (command.directory or ".") + "\n"
    if not name and command.redirects:  # `$(<file)`
        return command.stdin_text
    return _PRINTS.get(command.line, _PRINTS.get(name))


def _echoed(texts: Sequence[str]) -> str:
    options = ""
    while texts and re.fullmatch(r"-[neE]+", texts[0]):
        options, texts = options + texts[0], texts[1:]
    text = ansi_c(" ".join(texts))  # sh interprets escapes without an option
    return text if "n" in options else text + "\n"


def _formatted(texts: Sequence[str]) -> str | None:
    """Return the output of `printf`; None with other directives than `%s`."""
    texts = texts[texts[:1] == ("--",) :]
    if not texts or texts[0] == "-v":
        return ""
    form, values = ansi_c(texts[0]), texts[1:]
    signs = _DIRECTIVE.findall(form)
    rounds = -(-len(values) // signs.count("s")) if "s" in signs and values else 1
    if not {*signs} <= {"s", "%"} or len(form) * rounds > MAX_VALUE:
        return None
    left = iter(values)
    return "".join(
        _DIRECTIVE.sub(lambda found: next(left, "") if found[1] == "s" else "%", form) for _ in range(rounds)
    )


def _located(texts: Sequence[str]) -> str | None:
    return texts[-1] + "\n" if texts and texts[0] in ("-v", "-V") else None


def _parent(texts: Sequence[str]) -> str | None:
    return (posixpath.dirname(texts[0]) or ".") + "\n" if len(texts) == 1 and UNKNOWN not in texts[0] else None


_STDOUT_OF: Mapping[str, Callable[[Sequence[str]], str | None]] = {
    "echo": _echoed,
    "printf": _formatted,
    "command": _located,
    "which": lambda texts: _located(("-v", *texts)),
    "dirname": _parent,
}


def concatenated(flows: Sequence[Flow]) -> Flow:
    """Return the commands of several flows in order."""
    return tuple(command for flow in flows for command in flow)


def either(flows: Sequence[Flow]) -> Flow:
    """Return the commands of alternative flows. Their text counts as unknown if two or more flows print.

    Duplicate commands are dropped, or nested loops would double a flow at each level.
    """
    printing = [flow for flow in flows if known_output(flow) != ""]
    both = tuple({id(command): command for command in concatenated(flows)}.values())
    return both if len(printing) < 2 else tuple(replace(command, stdout_text=None) for command in both)


def known_output(flow: Flow) -> str | None:
    """Return the joined standard output of commands; None if not known."""
    texts = [command.stdout_text for command in flow]
    return None if None in texts else "".join(text for text in texts if text)


def files_written(command: Command) -> Iterator[str]:
    """Return the files that a command writes by redirections, options or operands."""
    paths = [redirect.target.text for redirect in command.redirects if redirect.is_output]
    if command.name in COPYING:
        *sources, target = [word.text for word in Options.of(command.args).operands] or [""]
        paths += [target, *(f"{target.rstrip('/')}/{source.rpartition('/')[2]}" for source in sources)]
        paths += [source.rpartition("/")[2] for source in sources] if target == "." else []
    elif command.name in _WRITING:
        options = Options.of(command.args, ("-o", "-O", "--output", "--output-document"))
        paths += [value for _, value in options.values]
        paths += [text.partition("of=")[2] or text for text in command.texts if command.name in ("tee", "dd")]
        paths += [text.rpartition("/")[2] for text in command.texts if "/" in text]  # the end of an address
    for path in paths:
        yield path.removeprefix("./")
