"""The same search gives the same result with ripgrep, with `grep --null` and with a POSIX grep."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from environments import create_environment
from environments.base import BaseEnvironment
from hermes_tools.search.content import ContentQuery, search_content
from hermes_tools.search.engines import Engine, count_command
from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.pattern import SearchPattern, parse_pattern
from hermes_tools.search.results import SearchError, SearchResult

ENGINES: tuple[Engine, ...] = get_args(Engine)


@pytest.fixture(scope="module")
def tree_env(tmp_path_factory: pytest.TempPathFactory, ripgrep: Path) -> Iterator[BaseEnvironment]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(ripgrep), prepend=":")
        with create_environment("local", cwd=str(tmp_path_factory.mktemp("tree"))) as environment:
            yield environment


def search_with_all(
    env: BaseEnvironment,
    pattern: str,
    path: str = ".",
    file_glob: str | None = None,
    limit: int = 1000,
    offset: int = 0,
    output_mode: str = "content",
    context: int = 0,
) -> SearchResult:
    names = NamePattern.parse(file_glob) if file_glob else None
    where = path if path.startswith("/") else f"{env.cwd}/{path}"
    query = ContentQuery(where, path, parse_pattern(pattern), names, offset, limit, output_mode, context)
    results = {engine: search_content(env, query, engine) for engine in ENGINES}
    assert results["grep"] == results["rg"]
    assert results["posix"] == results["rg"]
    return results["rg"]


def found(result: SearchResult) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in result["matches"]]


@pytest.fixture(scope="module")
def tree(tree_env: BaseEnvironment) -> BaseEnvironment:
    root = Path(tree_env.cwd)
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
        "late.bin": b"needle\n" * 20000 + b"\0\n",
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
    tree_env.execute("mkfifo pipe; mkdir closed; echo needle >closed/aa; chmod 000 closed")
    return tree_env


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


@pytest.mark.parametrize("context", [0, 1, 3])
@pytest.mark.parametrize(("offset", "limit"), [(0, 1000), (0, 3), (2, 1), (5, 4), (100, 5)])
def test_lines_pages_and_context(tree: BaseEnvironment, offset: int, limit: int, context: int) -> None:
    everything = found(search_with_all(tree, "needle"))
    result = search_with_all(tree, "needle", offset=offset, limit=limit, context=context)
    assert found(result) == everything[offset : offset + limit]
    assert result["total_count"] == len(everything)
    assert result["truncated"] == (offset + limit < len(everything))


def test_a_page_deep_in_one_file(tree: BaseEnvironment) -> None:
    (Path(tree.cwd) / "deep").mkdir()
    (Path(tree.cwd) / "deep" / "a\nb").write_text("x\n" * 3000)
    for offset in (999, 1000, 1001, 2999):
        result = search_with_all(tree, "x", path="deep", offset=offset, limit=2)
        assert [match["line"] for match in result["matches"]] == [offset + 1, offset + 2][: 3000 - offset]


@pytest.mark.parametrize("output_mode", ["content", "files_only", "count"])
@pytest.mark.parametrize("path", [".", "sub", "sub/", ".git", "plain.txt", "link.txt", "linked", "late.bin", "~x/.."])
def test_places_to_search(tree: BaseEnvironment, path: str, output_mode: str) -> None:
    (Path(tree.cwd) / "~x").mkdir(exist_ok=True)
    result = search_with_all(tree, "needle", path=path, output_mode=output_mode)
    assert bool(result["matches"]) == (path != "late.bin")


@pytest.mark.parametrize(
    "file_glob", ["*.py", "*.{py,txt}", "?", "caf? ?.py", "[a-d]*", "*.[!t]*", "sub/*", "sub/**/*.py", "none", "-e"]
)
def test_file_globs(tree: BaseEnvironment, file_glob: str) -> None:
    result = search_with_all(tree, "needle", file_glob=file_glob, output_mode="count")
    assert bool(result["matches"]) == (file_glob not in ("?", "none"))


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)needle",
        "needle$",
        "^needle$",
        "^$",
        r"\bneedle\b",
        r"needle\s*$",
        "need(le|)",
        "needle:2",
        "x{255}needle",
        ".",
        "é.漢",
        r"caf\w",
        "=",
        "-e",
        r"\$|'|%s|\\",
    ],
)
def test_patterns(tree: BaseEnvironment, pattern: str) -> None:
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


ATOMS = st.sampled_from(
    [
        *["a", "b", "_", " ", "-", r"\.", r"\\", r"\[", "]", "é", "漢", "1", "{", "}", r"\-", r"\x61", r"\u6f22"],
        *[".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "[ab]", "[^a_]", "[]a]", "[^]a]", "[a^-]", "[^^]"],
        *["[é漢a]", r"[\w-]", r"[\Wa]", r"[^\W1]", "[à-ü]", r"[\]\\[]", "[-^]", "[^-]", "[!-~]"],
    ]
)
QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "{2}", "{1,2}", "{0,1}", "{2,}"])
ANCHORS = st.sampled_from(["^", "$", r"\b"])


def groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds(
        lambda opening, first, second, quantifier: f"{opening}{first}|{second}){quantifier}",
        st.sampled_from(["(", "(?:", "(?P<name>"]),
        inner,
        inner,
        QUANTIFIERS,
    )
    return st.lists(inner | group | ANCHORS, min_size=1, max_size=3).map("".join)


PATTERNS = st.recursive(st.builds(str.__add__, ATOMS, QUANTIFIERS), groups, max_leaves=5).filter(
    lambda pattern: pattern.count("?P<name>") < 2
)
LINES = st.lists(st.text("abAB_ -.1]^[\\é漢{}~", max_size=6), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=PATTERNS, lines=LINES, ignore_case=st.booleans(), ended=st.booleans())
def test_any_pattern_matches_the_lines_that_python_says(
    tree_env: BaseEnvironment, pattern: str, lines: list[str], ignore_case: bool, ended: bool
) -> None:
    directory = Path(tree_env.cwd) / "generated"
    directory.mkdir(exist_ok=True)
    (directory / "a").write_text("\n".join(lines) + ("\n" if ended else ""), encoding="utf-8")
    pattern = "(?i)" + pattern if ignore_case else pattern
    regex = re.compile(pattern, re.ASCII)
    # A last line that is empty and has no newline is no line.
    searched = lines if ended or lines[-1] else lines[:-1]
    expected = [("generated/a", number) for number, line in enumerate(searched, 1) if regex.search(line)]
    assert found(search_with_all(tree_env, pattern, path="generated")) == expected
