"""Searches by ripgrep and by grep find the same in files of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.search_engines import ENGINES, with_engine

from environments import create_environment
from environments.base import BaseEnvironment
from hermes_tools.search.search_files import SearchResult, search_files


@pytest.fixture(scope="module", params=ENGINES)
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    root = tmp_path_factory.mktemp("tree")
    files = {
        "plain.txt": b"needle\nhay\nNEEDLE\n",
        "no newline": b"hay\nneedle",
        "dos.txt": b"a needle\r\nhay\r\n",
        ".hidden/.env": b"needle\n",
        "ignored.log": b"needle\n",
        ".gitignore": b"*.log\n",
        ".ignore": b"*.txt\n",
        ".git/config": b"needle\n",
        "sub/.git/config": b"needle\n",
        "sub/.svn": b"needle\n",
        "sub/deep/a:1:b.py": b"x\nneedle:2:z\n=\n",
        "sub/new\nline.py": b"needle\n\nneedle\n",
        "sub/-e": b"needle\n",
        "sub/sp ace 'q\".py": b"needle\n",
        "sub/caf\xe9 \u6f22.py": "needle é 漢\n".encode(),
        "late.bin": b"needle\n" * 12000 + b"\0\n",
        "early.bin": b"\0needle\n",
        "latin.txt": b"needle caf\xe9\n",
        "bom.txt": b"\xef\xbb\xbfneedle\n",
        "utf16.txt": "needle\n".encode("utf-16"),
        "long.js": b"x" * 9000 + b"needle" + b"y" * 9000 + b"\nneedle\n",
        "empty": b"",
        "separators": "needle\x0cb\x85c\u2028d\nneedle\n".encode(),
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "link.txt").symlink_to("plain.txt")
    (root / "linked").symlink_to("sub")
    (root / "dangling").symlink_to("nowhere")
    (root / "~x").mkdir()
    with (
        with_engine(request.param, tmp_path_factory.mktemp("bin")),
        create_environment("local", cwd=str(root)) as environment,
    ):
        environment.execute("mkfifo pipe; mkdir closed; echo needle >closed/aa; chmod 000 closed")
        yield environment


def places(result: SearchResult) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in result["matches"]]


TEXT_FILES = {
    ".hidden/.env",
    "bom.txt",
    "dos.txt",
    "ignored.log",
    "latin.txt",
    "long.js",
    "no newline",
    "plain.txt",
    "separators",
    "sub/-e",
    "sub/caf\xe9 \u6f22.py",
    "sub/deep/a:1:b.py",
    "sub/new\nline.py",
    "sub/sp ace 'q\".py",
}


def test_every_text_file_is_searched(tree: BaseEnvironment) -> None:
    for mode in ("content", "files_only", "count"):
        result = search_files(tree, "needle", output_mode=mode, limit=50_000)
        # ripgrep reads UTF-16 with a byte order mark; grep detects a binary file by its beginning alone.
        allowed = {"closed/aa", {"ripgrep": "utf16.txt", "grep": "late.bin"}[result["engine"]]}
        assert {match["path"] for match in result["matches"]} - allowed == TEXT_FILES, mode


def test_pages_and_context(tree: BaseEnvironment) -> None:
    everything = places(search_files(tree, "needle", path="sub"))
    assert everything == sorted(everything)
    for offset, limit, context in ((0, 3, 1), (100, 5, 0), (2, 3, 2)):
        result = search_files(tree, "needle", path="sub", offset=offset, limit=limit, context=context)
        assert places(result) == everything[offset : offset + limit]
        assert result["total_count"] == len(everything)
        assert result["truncated"] == (offset + limit < len(everything))
    (odd,) = search_files(tree, "needle", path="sub", file_glob="a:1:b.py", context=1)["matches"]
    assert (odd["content"], odd["before"], odd["after"]) == ("needle:2:z", ["x"], ["="])


def test_a_page_deep_in_one_file(tree: BaseEnvironment) -> None:
    (Path(tree.cwd) / "deep").mkdir()
    (Path(tree.cwd) / "deep" / "a\nb").write_text("x\n" * 3000)
    for offset in (999, 2999):
        result = search_files(tree, "x", path="deep", offset=offset, limit=2)
        assert [match["line"] for match in result["matches"]] == [offset + 1, offset + 2][: 3000 - offset]


def test_places_to_search(tree: BaseEnvironment) -> None:
    for path in ("sub/", ".git", "link.txt", "linked", "~x/.."):
        assert search_files(tree, "needle", path=path)["matches"], path
    assert search_files(tree, "needle", path="early.bin")["matches"] == []
    for mode in ("content", "count", "files_only"):
        (match,) = search_files(tree, "needle", path="link.txt", output_mode=mode, context=1)["matches"]
        assert match["path"] == "link.txt"


def test_file_globs(tree: BaseEnvironment) -> None:
    for file_glob, count in (("*.{py,txt}", 8), ("caf? ?.py", 1), ("*.[!t]*", 7), ("sub/**/*.py", 4), ("?", 0)):
        result = search_files(tree, "needle", file_glob=file_glob, output_mode="files_only")
        assert len({match["path"] for match in result["matches"]} & TEXT_FILES) == count, file_glob


def test_patterns(tree: BaseEnvironment) -> None:
    for pattern, path in (
        ("(?i)needle$", "plain.txt"),
        (r"\bneedle\b", "plain.txt"),
        (r"needle\s*$", "dos.txt"),
        ("need(le|):2", "sub/deep/a:1:b.py"),
        ("x{255}needle", "long.js"),
        ("é.漢", "sub/caf\xe9 \u6f22.py"),
        ("[é漢]$", "sub/caf\xe9 \u6f22.py"),
        ("caf.$", "latin.txt"),
    ):
        found = search_files(tree, pattern, path=path, context=1)
        # Without UTF-8, `.` is a byte to grep and a character to ripgrep.
        assert found["total_count"] or (path, found["engine"]) == ("latin.txt", "ripgrep"), pattern
