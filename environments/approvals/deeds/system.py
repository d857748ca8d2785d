"""Files that the system or a login is set up by, users, firewalls, jobs, and the traces of what was done."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from environments.approvals.command import Command, Word
from environments.approvals.deeds.rule import Rule, Rules, always, with_word
from environments.approvals.deeds.targets import written
from environments.approvals.options import Options

_HIDES_HISTORY = re.compile(r"HISTFILE=(?:/dev/null)?|HISTSIZE=0|HISTFILESIZE=0|HISTIGNORE=\*?")
_DELETING = (("-X", "DELETE"), ("--request", "DELETE"))
_EVERYTHING = re.compile(r"(?:https?://)?[^/]+/(?:_all|\*)/?")
_ERASES = "it erases or hides the history of commands"
_FIREWALL = "it takes the firewall down"


def written_by_redirection(command: Command) -> str | None:
    """Say which file that must stay as it is a redirection writes to, of any command."""
    for redirect in command.redirects:
        if redirect.writes and (lost := written(redirect.target, command)):
            return f"it writes to {lost}"
        if redirect.target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            return "it gives a connection to a shell (/dev/tcp)"
    return None


def hides_history(command: Command) -> str | None:
    """Say whether an assignment keeps commands out of the history, as one of its own or with `export`."""
    texts = [f"{name}={value.text}" for name, value in command.assignments]
    if command.name in ("export", "declare", "typeset", "readonly"):
        texts += command.texts
    return _ERASES if any(_HIDES_HISTORY.fullmatch(text) for text in texts) else None


def _writing(words: Callable[[Command], tuple[Word, ...]]) -> Rule:
    """Return a rule for a program that writes to some of its arguments."""

    def rule(command: Command) -> str | None:
        return next((f"it writes to {lost}" for word in words(command) if (lost := written(word, command))), None)

    return rule


def _last(command: Command) -> tuple[Word, ...]:
    options = Options.of(
        command.args, ("-t", "-S", "-m", "-o", "-g", "--target-directory", "--mode", "--owner", "--group")
    )
    if target := options.value("-t", "--target-directory"):
        return (Word(f"{target}/file"),)
    if len(options.operands) < 2:
        return ()
    last = options.operands[-1]
    # Into a directory, it is the name of the source that counts.
    names = (f"{last.text.rstrip('/')}/{word.text.rpartition('/')[2]}" for word in options.operands[:-1])
    return (last, *map(Word, names))


def _all(command: Command) -> tuple[Word, ...]:
    return Options.of(command.args, ("-s", "--size", "-r", "--reference")).operands


def _edited_in_place(command: Command) -> tuple[Word, ...]:
    options = Options.of(command.args, ("-e", "-f", "--expression"))
    in_place = any(text.startswith(("-i", "--in-place")) for text in command.texts) or options.has("i")
    return options.operands if in_place else ()


def _downloaded(command: Command) -> tuple[Word, ...]:
    options = Options.of(command.args, ("-o", "-O", "--output", "--output-document"))
    return tuple(
        Word(value) for option, value in options.values if option in ("-o", "-O", "--output", "--output-document")
    )


def _jobs(command: Command) -> str | None:
    words = [text for text in command.texts if text != "-"]
    kept = any(fed.name == "crontab" for fed in command.fed_by)
    if not words and (command.fed_by or command.given is not None or command.redirects) and not kept:
        return "it replaces all timed jobs of a user"
    return "it removes all timed jobs of a user" if Options.of(command.args, ("-u",)).has("r") else None


def _history(command: Command) -> str | None:
    return _ERASES if Options.of(command.args).has("c") or "/dev/null" in command.texts else None


def _set(command: Command) -> str | None:
    return _ERASES if command.texts[:2] == ("+o", "history") else None


def _filtered(command: Command) -> str | None:
    options = Options.of(command.args, ("-t", "-A", "-I", "-p", "-s", "-d", "-j"))
    if options.has("FX", "flush", "delete-chain"):
        return _FIREWALL
    closes = options.has("P", "policy") and not {"DROP", "REJECT"}.isdisjoint(command.texts)
    return "it may cut every connection to the machine" if closes else None


def _tables(command: Command) -> str | None:
    return _FIREWALL if "flush" in command.texts or {"delete", "table"} <= set(command.texts) else None


def _links(command: Command) -> str | None:
    texts = command.texts
    down = "down" in texts and (command.name == "ifconfig" or "set" in texts)
    flushed = "flush" in texts and command.name == "ip"
    return "it may cut the machine off" if down or flushed else None


def _password(command: Command) -> str | None:
    options = Options.of(command.args)
    return "it takes a user's password away or locks it" if options.has("dl", "delete", "lock") else None


def _modified(command: Command) -> str | None:
    return "it locks a user" if Options.of(command.args).has("L", "lock") else None


def _connected(command: Command) -> str | None:
    options = Options.of(command.args)
    given = options.has("e", "exec", "sh-exec") or any(
        text.upper().startswith(("EXEC:", "SYSTEM:")) for text in command.texts
    )
    return "it gives a shell to a connection" if given else None


def _requested(command: Command) -> str | None:
    """`curl -X DELETE`, where it is everything that is deleted."""
    texts = command.texts
    deletes = "-XDELETE" in texts or any(pair in _DELETING for pair in pairwise(texts))
    return "it deletes all that a service holds" if deletes and any(map(_EVERYTHING.fullmatch, texts)) else None


def _journal(command: Command) -> str | None:
    vacuums = any(text.startswith("--vacuum") for text in command.texts)
    return "it removes the log of the system" if vacuums else None


RULES: Rules = {
    **dict.fromkeys(("cp", "install", "mv", "ln", "link", "scp"), _writing(_last)),
    **dict.fromkeys(("tee", "truncate", "sponge", "fallocate"), _writing(_all)),
    **dict.fromkeys(("sed", "perl", "ruby"), _writing(_edited_in_place)),
    "wget": _writing(_downloaded),
    "curl": lambda command: _writing(_downloaded)(command) or _requested(command),
    "crontab": _jobs,
    "atrm": always("it removes timed jobs"),
    "history": _history,
    "unset": with_word(_ERASES, "HISTFILE"),
    "set": _set,
    **dict.fromkeys(("iptables", "ip6tables"), _filtered),
    "nft": _tables,
    "ufw": with_word(_FIREWALL, "disable", "reset"),
    **dict.fromkeys(("ip", "ifconfig"), _links),
    "userdel": always("it removes a user"),
    "deluser": always("it removes a user"),
    "groupdel": always("it removes a group"),
    "delgroup": always("it removes a group"),
    "visudo": always("it changes who may do everything", but=("-c",)),
    "passwd": _password,
    "usermod": _modified,
    "journalctl": _journal,
    **dict.fromkeys(("nc", "ncat", "netcat", "socat"), _connected),
}
