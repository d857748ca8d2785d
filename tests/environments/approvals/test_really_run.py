"""Texts run by a real bash with a harmless program MARK. Rules and the reader find MARK in each text."""

from __future__ import annotations

import posixpath
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from text_lists import texts_by_heading

from environments.approvals import Allow, CommandRequest
from environments.approvals.reader import read
from environments.approvals.rules import Rules
from environments.approvals.settings import ApprovalSettings

TEXTS = texts_by_heading(Path(__file__).with_name("really_run.txt"))
SEEN = [heading for heading in TEXTS if not heading.startswith("not seen: ")]
"""Headings of texts in which the reader finds the program. Elsewhere MARK is in a file, or behind a link or PATH."""
PROGRAMS = (
    ": [ alias awk base64 builtin cat cd chmod command compgen coproc cp cut dash dd declare echo env eval "
    "exec export false find flock getopts git grep gunzip gzip hash head install ionice let ln ls make "
    "mapfile mkdir mv nice nohup perl printf prlimit pushd python3 read readarray readonly rev script scp sed "
    "seq set setsid shift shopt sort split ssh stdbuf tac tar taskset tee test time timeout tr trap true "
    "typeset unset wait xargs yes"
)
GENEROUS = [f"{program} *" for program in PROGRAMS.split()] + ["sed -n *", "sort -o *", "sh -c *", "bash -c *"]


def prepare(place: Path) -> Path:
    """Make the program MARK and an empty working directory, and return the directory of both."""
    (place / "work").mkdir(parents=True)
    program = place / "bin" / "MARK"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho x >> {place}/note\n")
    program.chmod(0o755)
    return place


def runs_mark(place: Path, text: str) -> bool:
    """Run a text by bash in a directory of its own, and report whether MARK was run."""
    work = str(place / "work")
    env = {"PATH": f"{place}/bin:/usr/bin:/bin", "HOME": work, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
    # The pipe stays open until all processes of the text have ended, those of `>(...)` too.
    subprocess.run(
        ["/bin/bash", "-c", text],
        cwd=work,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        timeout=60,
        check=False,
    )
    return (place / "note").exists()


def decision_on(text: str, **settings: Any) -> object:
    rules = Rules(ApprovalSettings(**settings))
    return rules.command(CommandRequest(text, "/home/user/project", "local", "task", "session", None))


def finds_mark(text: str) -> bool:
    """Report whether reading finds MARK, a program that may be MARK, or a reason why there may be more."""
    reading = read(text)
    programs = [command.words[0] for command in reading.commands if command.words]
    may_be = any(not word.literal or word.glob or posixpath.basename(word.text) == "MARK" for word in programs)
    return may_be or bool(reading.unread or reading.findings)


def test_every_text_runs_mark(tmp_path: Path) -> None:
    texts = [text for of_heading in TEXTS.values() for text in of_heading]
    assert len(texts) > 500
    # All programs are written before the first fork: a program that is open for writing cannot be run (ETXTBSY).
    places = [prepare(tmp_path / str(number)) for number in range(len(texts))]
    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(runs_mark, places, texts))
    assert [text for text, did_run in zip(texts, ran, strict=True) if not did_run] == []


@pytest.mark.parametrize("heading", TEXTS)
def test_a_generous_allow_list_lets_no_other_program_through(heading: str) -> None:
    decisions = {text: decision_on(text, commands="deny", allow=GENEROUS) for text in TEXTS[heading]}
    assert [text for text, decision in decisions.items() if isinstance(decision, Allow)] == []


@pytest.mark.parametrize("heading", SEEN)
def test_a_denied_program_is_seen(heading: str) -> None:
    decisions = {text: decision_on(text, deny=["MARK"]) for text in TEXTS[heading]}
    assert [text for text, decision in decisions.items() if isinstance(decision, Allow)] == []


@pytest.mark.parametrize("heading", SEEN)
def test_the_program_is_found_or_more_is_expected(heading: str) -> None:
    assert [text for text in TEXTS[heading] if not finds_mark(text)] == []
