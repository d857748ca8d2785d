"""Memory and time of a search on this machine are bounded, for any arguments and any output of the target."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from environments import create_environment
from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from hermes_tools.search import output
from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.search_files import search_files

HUGE = 10**10


def test_a_name_that_fits_a_glob_of_stars_badly_freezes_nothing(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / ("a" * 255)).touch()
    assert search_files(env, "*a*a*a*[b]", target="files")["matches"] == []


def test_a_huge_context_is_refused_with_the_bound(env: BaseEnvironment) -> None:
    with pytest.raises(ValueError, match="context must be at most 1,000 lines"):
        search_files(env, "x", context=HUGE)


def test_a_huge_limit_is_all_and_a_huge_offset_nothing(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 3)
    for mode in ("content", "files_only", "count"):
        assert not search_files(env, "x", limit=HUGE, output_mode=mode)["truncated"]
        assert search_files(env, "x", offset=HUGE, limit=HUGE, output_mode=mode)["matches"] == []
    assert len(search_files(env, "*", target="files", limit=HUGE)["matches"]) == 1


def test_lines_shown_again_and_again_as_context_count_each_time(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 5000)
    with create_environment("local", cwd=str(tmp_path), max_output_bytes=200_000) as env:
        assert "lower the limit or the context" in search_files(env, "x", limit=5000, context=1000)["error"]
        assert len(search_files(env, "x", limit=5000, context=1)["matches"]) == 5000


def test_more_files_than_a_search_takes_are_an_error_that_names_the_bound(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        (tmp_path / f"{number}").write_text("x\n")
    monkeypatch.setattr(output, "MAX_FILES", 10)
    for arguments in ({"pattern": "x", "output_mode": "files_only"}, {"pattern": "*", "target": "files"}):
        assert "at most 10," in search_files(env, **arguments)["error"]
    assert search_files(env, "1*", target="files")["total_count"] == 3


def test_of_many_names_that_are_not_utf8_the_first_are_listed(env: BaseEnvironment, tmp_path: Path) -> None:
    for number in range(150):
        Path(os.fsdecode(bytes(tmp_path) + b"/\xff\n%d" % number)).write_text("x\n")
    for result in (search_files(env, "x"), search_files(env, "*", target="files")):
        assert len(result["skipped"]) == 100


def test_a_search_for_a_script_that_has_ended_stops(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (tmp_path / f"{number}").touch()
    scope = CancelScope()
    matched: list[str] = []

    def end_after_ten(pattern: NamePattern, path: str) -> bool:
        matched.append(path)
        if len(matched) == 10:
            scope.cancel()
        return True

    monkeypatch.setattr(NamePattern, "matches", end_after_ten)
    with scope.active():
        assert search_files(env, "*", target="files") == {"error": "searching . was interrupted"}
    assert len(matched) == 10
