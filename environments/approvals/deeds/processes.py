"""Ending processes that are not one's own, and ending the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from environments.approvals.command import Command
from environments.approvals.deeds.rule import Rules, always, with_word
from environments.approvals.options import Options
from environments.approvals.reading.names import names

_EVERYTHING = re.compile(r"[.^$*+?\w]?[.*+^$]*|\[.*\][*+]?")
_CRITICAL = frozenset(names("init systemd sshd ssh bash sh zsh dockerd docker containerd dbus-daemon launchd kthreadd"))
_OFF = "it ends the machine"
_STATES = frozenset(names("poweroff reboot halt kexec rescue emergency suspend hibernate soft-reboot exit"))
_CRITICAL_UNITS = re.compile(
    r"(?:sshd?|docker|containerd|network(?:ing|-manager)?|NetworkManager|systemd-.*|dbus|firewalld|ufw|nftables|iptables)"
    r"(?:\.service|\.socket)?"
)
_CHOOSING = frozenset({"grep", "egrep", "rg", "pgrep", "head", "tail"})
_STOPS = frozenset({"stop", "disable", "mask", "kill"})


def _killed(command: Command) -> str | None:
    feeding = {fed.name for word in command.args for fed in _chain(word.fed_by)}
    if "ps" in feeding and feeding.isdisjoint(_CHOOSING):
        return "it ends all processes that are listed"
    texts = list(command.texts)
    if "-l" in texts or "-L" in texts or "-0" in texts:
        return None
    if texts[:1] in (["-s"], ["-n"], ["--signal"]):
        texts = texts[2:]
    elif len(texts) > 1 and texts[0].startswith("-") and texts[0] != "--":
        texts = texts[1:]
    if "-1" in texts or "0" in texts:
        return "it ends all processes that it may"
    return "it ends the first process of the machine" if "1" in texts else None


def _chain(commands: tuple[Command, ...]) -> Iterator[Command]:
    """Go through commands and, for a few steps, those that feed the last of them."""
    for _ in range(8):
        yield from commands[-8:]
        commands = commands[-1].fed_by if commands else ()


def _killed_by_pattern(command: Command) -> str | None:
    valued = ("-u", "-U", "-g", "-G", "-P", "-s", "-t", "--signal", "--euid", "--uid", "--parent", "--terminal")
    options = Options.of(command.args, valued)
    if "-0" in command.texts or options.has("", "list-name", "help", "version"):
        return None
    by_user = options.value("-u", "-U", "--euid", "--uid")
    by_family = options.value("-P", "-g", "-G", "-t", "--parent", "--terminal")
    if options.has("v", "inverse"):
        return "it ends all processes but those that it names"
    for word in options.operands:
        if _EVERYTHING.fullmatch(word.text):
            return "it ends all processes that it may"
        if word.text.strip("^$") in _CRITICAL:
            return f"it ends what others depend on ({word.text})"
    return "it ends all processes of a user" if by_user and not options.operands and not by_family else None


def _controlled(command: Command) -> str | None:
    operands = [word.text for word in Options.of(command.args, ("-H", "-M", "-t", "-p")).operands]
    if operands and operands[0] in _STATES:
        return _OFF
    if operands[:1] == ["isolate"]:
        return "it ends all services that another state does not want"
    if operands and operands[0] in _STOPS and any(_CRITICAL_UNITS.fullmatch(unit) for unit in operands[1:]):
        return "it ends a service that others depend on"
    return None


def _serviced(command: Command) -> str | None:
    texts = command.texts
    stops = len(texts) > 1 and texts[1] == "stop"
    return "it ends a service that others depend on" if stops and _CRITICAL_UNITS.fullmatch(texts[0]) else None


RULES: Rules = {
    "kill": _killed,
    "killall": always("it ends all processes of a name, whoever has started them", but=("-l", "--list", "-V", "-0")),
    "killall5": always("it ends all processes that it may"),
    "pkill": _killed_by_pattern,
    "skill": _killed_by_pattern,
    "fuser": lambda command: (
        "it ends all processes that use a file" if Options.of(command.args).has("k", "kill") else None
    ),
    "shutdown": always(_OFF, but=("-c", "--show")),
    "reboot": always(_OFF),
    "poweroff": always(_OFF),
    "halt": always(_OFF),
    **dict.fromkeys(("init", "telinit"), with_word(_OFF, "0", "1", "6", "s", "S")),
    "systemctl": _controlled,
    "loginctl": lambda command: (
        _OFF
        if command.texts[:1] and command.texts[0].startswith(("terminate-", "kill-", "poweroff", "reboot"))
        else None
    ),
    "service": _serviced,
    "kexec": always(_OFF),
}
