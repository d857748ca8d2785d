"""Which files the tools leave as they are, looked at in the target, where links can be followed.

A guard-rail and no wall: it holds the file tools alone, and between the look and the write somebody may move a link.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from environments.base import BaseEnvironment
from environments.settings import CONFIG_FILE, hermes_home
from hermes_tools.files.numbers import number
from hermes_tools.files.target_paths import shell_word

REFUSED = "refused"
"""What a line begins with that says that a file is not to be written."""

# `cd -P` finds where a directory is without starting a process. `-ef` knows a file by whatever name; where the shell
# lacks it, the names are compared. Errors are hushed once, as each redirection costs more than a look. What is missing
# has no links in it, but a `..` would lead out of it again. `readlink -f` of BusyBox takes what a link points to
# from where it runs, if it is not there yet.
_TEXT = """
place() {
    case $1 in /*) ;; *) return 1 ;; esac
    dir=${1%/*}
    rest=
    until cd -P "${dir:-/}"; do
        [ ! -L "$dir" ] || return 1
        rest=/${dir##*/}$rest
        dir=${dir%/*}
    done
    case $rest/${1##*/}/ in */../*) return 1 ;; esac
    place=$PWD$rest/${1##*/}
    place=/${place#"${place%%[!/]*}"}
}
held() {
    number=0
    for denied in DENIED; do
        number=$((number + 1))
        place "$denied" || continue
        case $1/ in "${place%/}/"*) return 0 ;; esac
        [ -e "$denied" ] || continue
        at=$1
        while [ -n "$at" ]; do
            if [ "$at" -ef "$denied" ]; then return 0; fi
            at=${at%/*}
        done
    done
    return 1
}
judged() {
    place "$1" || { echo REFUSED lost; return 0; }
    entry=$place
    if held "$entry"; then echo REFUSED denied "$number"; return 0; fi
    real=$entry
    if [ -L "$1" ]; then
        real=$1 links=0
        while [ -L "$real" ]; do
            links=$((links + 1))
            to=$([ "$links" -le 40 ] && readlink -- "$real" && echo .) || { echo REFUSED lost; return 0; }
            case $to in /*) real=${to%??} ;; *) real=${real%/*}/${to%??} ;; esac
        done
        place "$real" || { echo REFUSED lost; return 0; }
        real=$place
        if held "$real"; then echo REFUSED denied "$number"; return 0; fi
    fi
    ROOTED
    return 1
}
refused() {
    judged "$1" 2>/dev/null
}
"""
_ROOTED = """
    cd -P ROOT || { echo REFUSED rootless; return 0; }
    for spot in "$entry" "$real"; do
        case $spot in "${PWD%/}/"*) ;; *) echo REFUSED outside; return 0 ;; esac
    done
"""


@dataclass(frozen=True, slots=True)
class WriteGuard:
    """What is not to be written, as paths of the target."""

    denied: tuple[str, ...]
    safe_root: str | None

    @classmethod
    def of(cls, env: BaseEnvironment) -> WriteGuard:
        """Return what the settings of an environment say."""
        ours = str((hermes_home() / CONFIG_FILE).absolute())
        return cls((*map(_tidy, env.settings.write_denylist), ours), env.settings.write_safe_root)

    def shell_text(self) -> str:
        """Define `refused PATH`: it prints a line that begins with `REFUSED`, or fails if the file may be written."""
        rooted = _ROOTED.replace("ROOT", shell_word(_tidy(self.safe_root))) if self.safe_root else ""
        text = _TEXT.replace("ROOTED", rooted).replace("REFUSED", REFUSED)
        return text.replace("DENIED", " ".join(map(shell_word, self.denied)))

    def refusal(self, path: str, words: str) -> str:
        """Say why a file is not written.

        Args:
            path: The file, as the caller named it.
            words: The line that `refused` printed.
        """
        kind, _, place = words.removeprefix(REFUSED).strip().partition(" ")
        if kind == "denied":
            which = self.denied[found - 1] if (found := number(place)) and found <= len(self.denied) else "it"
            reason = f"{which} is in the setting write_denylist"
        elif kind == "outside":
            reason = f"it is not below {self.safe_root}, which the setting write_safe_root allows alone"
        elif kind == "rootless":
            reason = f"the setting write_safe_root names {self.safe_root}, which is not a directory of the target"
        else:
            reason = "a link on its way leads nowhere, or '..' stands behind a directory that is not there"
        return f"{path} is not written: {reason}"


def _tidy(path: str) -> str:
    return posixpath.normpath(path)
