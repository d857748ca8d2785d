"""The ready policy on a table of destructive commands and their disguises, and on one of harmless look-alikes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from environments.approvals import destructive, policy


def table(name: str) -> list[tuple[str, str]]:
    """The commands of a table, each with the heading that it stands under."""
    return list(_lines(Path(__file__).with_name(name).read_text()))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    heading = ""
    for line in text.splitlines()[1:]:
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line:
            yield line.replace("\\n", "\n").replace("\n\\t", "\n\t"), heading


DESTRUCTIVE, HARMLESS = table("destructive.txt"), table("harmless.txt")


def test_a_destructive_command_is_known_whatever_its_disguise() -> None:
    assert len(DESTRUCTIVE) > 880
    reasons = [(command, heading, destructive(command)) for command, heading in DESTRUCTIVE]
    assert [row for row in reasons if row[2] is None or not any(word in row[2] for word in row[1].split("|"))] == []


def test_a_harmless_command_is_let_through() -> None:
    assert len(HARMLESS) > 700
    assert [(command, reason) for command, _ in HARMLESS if (reason := destructive(command)) is not None] == []


def test_relative_paths_are_taken_from_the_directory() -> None:
    rows = [
        ("rm -rf etc", "/", True),
        ("rm -rf nginx", "/etc", True),
        ("rm -rf ../lib", "/usr/share", True),
        ("rm -rf build", "/home/alice/project", False),
        ("rm -rf ../other", "/home/alice/project", False),
        ("rm -rf .", "/home/alice/project", True),
        ("rm -rf .ssh", "/root", True),
    ]
    assert [row for row in rows if (destructive(row[0], row[1]) is not None) != row[2]] == []


def test_a_command_that_is_cut_anywhere_makes_it_raise_nothing() -> None:
    for command, _ in DESTRUCTIVE[::3]:
        middle = len(command) // 2
        assert destructive(command[:middle]) != ""
        assert destructive(command[middle:], "/home/alice") != ""


def test_a_text_that_is_too_long_is_not_let_through() -> None:
    reason = destructive("echo " + "x" * 10_000_000)
    assert reason is not None and "too long to be judged" in reason


@pytest.mark.usefixtures("without_collector")
def test_what_is_nested_too_deep_is_not_let_through() -> None:
    reasons = {unit: destructive(unit * 5000) for unit in ("$(", "(", "{ ", "sh -c '$(", "if ")}
    assert {unit: reason for unit, reason in reasons.items() if "to be judged" not in (reason or "")} == {}


def test_values_made_of_values_do_not_grow_without_bound() -> None:
    assert destructive("a=xxxxxxxx;" + "a=$a$a$a$a;" * 40 + "echo $a") is None
    assert destructive("a=xxxxxxxx;" + "a=$a$a$a$a;" * 40 + "$a") is not None


def test_a_command_whose_judging_fails_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: object) -> str:
        raise IndexError

    monkeypatch.setattr(policy, "deed", fail)
    assert destructive("ls") == "cannot be seen through: judging it failed (IndexError)"
