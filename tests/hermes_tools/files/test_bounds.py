"""Bounds of reading and writing files, for any kind of file and any output of the target."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from environments.base import BaseEnvironment
from hermes_tools.files import write_file as writing
from hermes_tools.files.read_file import MAX_WHOLE_BYTES, read_file
from hermes_tools.files.target_paths import near_misses
from hermes_tools.files.write_file import write_file

HUGE = 10**12


def test_a_huge_limit_is_all_and_a_huge_offset_nothing(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    result = read_file(env, "a", limit=HUGE)
    assert (result["content"], result["truncated"]) == ("     1|one\n     2|two\n", False)
    for offset in (HUGE, 10**4000):
        result = read_file(env, "a", offset=offset, limit=HUGE)
        assert (result["content"], result["total_lines"], result["truncated"]) == ("", 2, False)


def test_thousands_of_lines_come_in_parts(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("\n" * 300_000)
    result = read_file(env, "a", limit=HUGE)
    assert result["hint"] == "lines 1-100000 of 300000; continue with offset=100001"


def test_a_huge_sparse_file_is_binary_at_once(env: BaseEnvironment, tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(10**13)
    assert "binary file of 10000000000000 bytes" in read_file(env, "a")["error"]


def test_one_line_of_many_megabytes_is_cut(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 5_000_000)
    result = read_file(env, "a")
    assert (len(result["content"]) < 2100, result["total_lines"]) == (True, 1)


def test_a_file_of_the_kernel_that_has_no_size_is_read(env: BaseEnvironment) -> None:
    result = read_file(env, "/proc/meminfo")
    assert result["content"].startswith("     1|MemTotal:")
    assert result["file_size"] > 0


def test_a_file_that_grows_for_ever_is_read_to_where_it_ended(env: BaseEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("begin\n")
    writer = env.start(f"while :; do echo more; done >>{shlex.quote(str(file))}", stdin="none")
    try:
        result = read_file(env, "a", limit=1)
    finally:
        writer.kill()
    assert result["content"] == "     1|begin\n"


def test_a_target_that_lies_about_a_file_is_an_error(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x\n" * MAX_WHOLE_BYTES)
    oneshot = env.internal.execute
    for lie in ("99999999999999999999", "no number", "1 2 3 4 5 6"):
        monkeypatch.setattr(
            env.internal, "execute", lambda command, lie=lie: oneshot(f"wc() {{ echo {lie}; }}\n{command}")
        )
        assert "reading a printed unexpected output:" in read_file(env, "a")["error"], lie


def test_nothing_but_a_regular_file_is_read_or_written(env: BaseEnvironment, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link to pipe").symlink_to("pipe")
    for path in ("pipe", "/dev/zero", "/dev/full", ".", "link to pipe"):
        kind = "is a directory" if path == "." else "not a regular file"
        assert kind in read_file(env, path)["error"]
        assert "not a regular file" in write_file(env, path, "x")["error"]


def test_content_that_is_too_long_is_refused_with_the_bound(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MAX_WRITTEN_BYTES", 10)
    assert write_file(env, "a", "é" * 6) == {"path": "a", "error": "a is not written: 12 bytes are over 10"}
    assert not (tmp_path / "a").exists()


def test_a_path_longer_than_any_is_a_programming_error(env: BaseEnvironment) -> None:
    with pytest.raises(ValueError, match="at most 4,096 characters"):
        read_file(env, "a/" * 100_000)


def test_near_names_are_found_among_thousands_of_long_ones_that_are_all_alike() -> None:
    names = ["ab" * 100 + "a" * (n % 50) for n in range(1000)]
    assert near_misses("ba" * 120, names, most=3, cutoff=0.5)
    assert near_misses("setings", ["unrelated", "settings"], most=3, cutoff=0.5) == ["settings"]
