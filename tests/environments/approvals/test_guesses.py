"""Programs in no table: words that may be a command are judged, and have no other effect."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from environments.approvals import Allow, Ask, CommandRequest, Deny, destructive
from environments.approvals.rules import Rules
from environments.approvals.settings import ApprovalSettings

RUNNING = """
zapp rm -rf /
zapp -x 3 --why=b rm -rf /
zapp -- /bin/rm -rf /
zapp -- reboot
zapp /sbin/reboot
zapp a | zapp -n 3 dd if=/dev/zero of=/dev/sda
sudo zapp -q rm -rf /
zapp sudo -u me rm -rf /
zapp fdisk /dev/sda
zapp lvremove -f vg/lv
zapp mkfs.btrfs -f /dev/sda1
zapp sh -c "$x"
zapp xargs rm -rf
zapp --exec /bin/rm -- -rf /
zapp --command=rm x -rf /
zapp 'rm -rf /'
zapp --run 'rm -rf ~'
zapp --run='cd x; rm -rf "$HOME"'
zapp run:rm,-rf,/
zapp 'rm;-rf;/'
zapp sh,-c,'rm -rf /'
zapp 'x:; rm -rf /'
zapp '!rm -rf /'
zapp '|rm -rf /'
zapp "exec:'rm -rf ~'"
zapp 'key=rm -rf /'
zapp 'commands=["rm -rf /"]'
zapp '(system* "rm" "-rf" "/")'
zapp '$(rm -rf /)'
zapp '--x=$(shell\\ rm\\ -rf\\ /)'
zapp 'sh -c "rm -rf /"'
zapp 'shutdown -h now'
zapp 'mkfs.ext4 /dev/sda1'
ZAPP_RUN='rm -rf /' zapp
ZAPP_RUN='x; shutdown now' git log
"""

HARMLESS = """
zapp rm build
zapp rm -rf build
zapp reboot
zapp kill 1234
zapp shutdown server
zapp logs ngrok -f
zapp install a b
zapp 'rm -rf build'
zapp 'the reboot of a machine'
zapp -m 'do not rm -rf /'
zapp --message='do not rm -rf /'
zapp 'echo rm -rf /'
zapp 'format /'
zapp remove/rm -rf
zapp rm.py -rf /
zapp --no-rm -rf /
ZAPP_MESSAGE='rm -rf / is bad' zapp
grep 'rm -rf /' x
git commit -m 'rm -rf /'
apt install rm mkfs.ext4
"""


@pytest.mark.parametrize("command", RUNNING.strip().splitlines())
def test_a_deed_in_the_words_of_an_unknown_program_is_asked_about(command: str) -> None:
    assert destructive(command) is not None


@pytest.mark.parametrize("form", ["zapp -x 3 {}", "zapp {quoted}", "ZAPP={quoted} zapp", "zapp --run={quoted}"])
def test_nearly_all_deeds_are_seen_behind_an_unknown_program(form: str) -> None:
    lines = Path(__file__).with_name("destructive.txt").read_text().splitlines()
    commands = [line for line in lines if re.fullmatch(r"[a-z][\w./:@%+,= ~*-]+ [\w./:@%+,= ~*-]+", line)]
    assert len(commands) > 350
    passing = [one for one in commands if destructive(form.format(one, quoted=shlex.quote(one)), "/home/u/p") is None]
    assert len(passing) < len(commands) / 40, passing


@pytest.mark.parametrize("command", HARMLESS.strip().splitlines())
def test_names_of_programs_in_words_are_no_deed(command: str) -> None:
    assert destructive(command) is None


def test_a_guess_counts_for_denied_and_asking_patterns_and_needs_no_permission() -> None:
    request = CommandRequest("zapp -x rm build", "/home/me/project", "local", "t", "session")
    for settings, decision in (
        (ApprovalSettings(deny=("rm *",)), Deny),
        (ApprovalSettings(ask=("rm *",)), Ask),
        (ApprovalSettings(commands="deny", allow=("zapp *",)), Allow),
        (ApprovalSettings(destructive_commands="deny"), Allow),
    ):
        assert isinstance(Rules(settings).command(request), decision), settings


@pytest.mark.parametrize("before", ["rm a " * 50, "rm -rf " + "a " * 600, "rm -rf " + "a " * 2000])
@pytest.mark.parametrize("form", ["zapp {} / rm -rf /", "zapp '{} /; rm -rf /'", "A='{} /; rm -rf /' zapp"])
def test_no_number_of_words_hides_a_deed(form: str, before: str) -> None:
    assert destructive(form.format(before)) is not None


@pytest.mark.parametrize("form", ["zapp {}", "zapp '{}'", "A='{}' zapp", "sqlite3 x <<'E'\n{}\nE"])
def test_many_guesses_are_judged_soon(form: str) -> None:
    # Anything that is not linear would take minutes, and exceed the time limit of tests.
    for unit in ("rm ", "rm,", "rm\\ ", "rm -rf x;", "/", "//a", "rm|", ">", '"rm"', "unlink(", "--x=rm "):
        assert destructive(form.format(unit * (18_000 // len(unit)))) != ""
