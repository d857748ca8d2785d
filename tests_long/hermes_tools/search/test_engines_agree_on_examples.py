"""The same search gives the same result with ripgrep, with `grep --null` and with a POSIX grep."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.search_engines import ENGINES, places, search_with_all, with_ripgrep

from environments.base import BaseEnvironment
from hermes_tools.search.content import ContentQuery, search_content
from hermes_tools.search.engines import count_command
from hermes_tools.search.pattern import SearchPattern, parse_pattern
from hermes_tools.search.results import SearchError


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
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
    with with_ripgrep(root) as environment:
        environment.execute("mkfifo pipe; mkdir closed; echo needle >closed/aa; chmod 000 closed")
        yield environment


def test_every_text_file_is_searched_and_no_other(tree: BaseEnvironment) -> None:
    result = search_with_all(tree, "needle", output_mode="files_only")
    paths = {match["path"] for match in result["matches"]} - {"closed/aa"}
    assert paths == {
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


def test_lines_pages_and_context(tree: BaseEnvironment) -> None:
    everything = places(search_with_all(tree, "needle"))
    for offset, limit, context in ((0, 3, 1), (100, 5, 0)):
        result = search_with_all(tree, "needle", offset=offset, limit=limit, context=context)
        assert places(result) == everything[offset : offset + limit]
        assert result["total_count"] == len(everything)
        assert result["truncated"] == (offset + limit < len(everything))


def test_a_page_deep_in_one_file(tree: BaseEnvironment) -> None:
    (Path(tree.cwd) / "deep").mkdir()
    (Path(tree.cwd) / "deep" / "a\nb").write_text("x\n" * 3000)
    for offset in (999, 2999):
        result = search_with_all(tree, "x", path="deep", offset=offset, limit=2)
        assert [match["line"] for match in result["matches"]] == [offset + 1, offset + 2][: 3000 - offset]


def test_places_to_search(tree: BaseEnvironment) -> None:
    for path in ("sub/", ".git", "link.txt", "linked", "~x/.."):
        assert search_with_all(tree, "needle", path=path)["matches"], path
    assert not search_with_all(tree, "needle", path="late.bin")["matches"]
    for path, output_mode in ((".", "count"), ("plain.txt", "count"), ("plain.txt", "files_only")):
        assert search_with_all(tree, "needle", path=path, output_mode=output_mode)["matches"]


def test_file_globs(tree: BaseEnvironment) -> None:
    for file_glob in ("*.{py,txt}", "caf? ?.py", "*.[!t]*", "sub/**/*.py"):
        result = search_with_all(tree, "needle", file_glob=file_glob, output_mode="files_only")
        assert result["matches"], file_glob
    assert not search_with_all(tree, "needle", file_glob="?", output_mode="files_only")["matches"]


def test_patterns(tree: BaseEnvironment) -> None:
    patterns = [
        "(?i)needle$",
        "^$",
        r"\bneedle\b",
        r"needle\s*$",
        "need(le|):2",
        "x{255}needle",
        "é.漢",
        r"caf\w",
        "-e",
    ]
    for pattern in (*patterns, r"=|\$|'|%s|\\"):
        search_with_all(tree, pattern, context=1)


def test_a_pattern_any_program_refuses_is_an_error_and_not_an_empty_result(tree: BaseEnvironment) -> None:
    broken = SearchPattern(b"(", "(")
    query = ContentQuery(tree.cwd, ".", broken, None, 0, 10, "content", 0)
    for engine in ENGINES:
        with pytest.raises(SearchError, match="refused the pattern"):
            search_content(tree, query, engine)


def test_ripgrep_is_used_where_the_target_has_it_and_else_grep(tree: BaseEnvironment, tmp_path: Path) -> None:
    for tool in ("grep", "find", "xargs"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or "")
    command = count_command(".", parse_pattern("x"), [], None)
    assert tree.execute_oneshot(command).output.startswith("directory rg\n")
    assert tree.execute_oneshot(f"PATH={tmp_path}\n{command}").output.startswith("directory grep\n")
