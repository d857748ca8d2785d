from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.search_engines import ENGINES, with_engine

from environments import create_environment
from environments.base import BaseEnvironment
from hermes_tools.search.search_files import search_files


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with with_engine(request.param, tmp_path_factory.mktemp("bin")):
        yield request.param


@pytest.fixture
def env(engine: str, env: BaseEnvironment) -> BaseEnvironment:
    return env


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "b.py": "import os\n\ndef run():\n    return os\n",
        "a.py": "import re\n",
        "notes/c.md": "nothing\nimport is a word\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_matching_lines_are_sorted_by_path_and_line(env: BaseEnvironment, engine: str, tree: Path) -> None:
    result = search_files(env, r"^import|\bos$")
    assert result == {
        "matches": [
            {"path": "a.py", "line": 1, "content": "import re"},
            {"path": "b.py", "line": 1, "content": "import os"},
            {"path": "b.py", "line": 4, "content": "    return os"},
            {"path": "notes/c.md", "line": 2, "content": "import is a word"},
        ],
        "total_count": 4,
        "truncated": False,
        "engine": engine,
    }
    assert json.loads(json.dumps(result)) == result


def test_offset_and_limit_choose_a_page(env: BaseEnvironment, tree: Path) -> None:
    result = search_files(env, "import|os", limit=2, offset=1)
    assert [(match["path"], match["line"]) for match in result["matches"]] == [("b.py", 1), ("b.py", 4)]
    assert (result["total_count"], result["truncated"]) == (4, True)


def test_context_lines_stand_before_and_after(env: BaseEnvironment, tree: Path) -> None:
    (match,) = search_files(env, "def run", context=2)["matches"]
    assert match["before"] == ["import os", ""]
    assert match["after"] == ["    return os"]


def test_files_only_and_count_give_a_match_for_each_file(env: BaseEnvironment, engine: str, tree: Path) -> None:
    files = search_files(env, "import|os", output_mode="files_only", limit=2)
    assert files == {
        "matches": [{"path": "a.py"}, {"path": "b.py"}],
        "total_count": 3,
        "truncated": True,
        "engine": engine,
    }
    counts = search_files(env, "import|os", output_mode="count", file_glob="*.py")
    assert counts == {
        "matches": [{"path": "a.py", "count": 1}, {"path": "b.py", "count": 2}],
        "total_count": 3,
        "truncated": False,
        "engine": engine,
    }


def test_paths_found_can_be_used_as_they_are(env: BaseEnvironment, tree: Path) -> None:
    for path, expected in {
        "notes": "notes/c.md",
        "./notes/": "./notes/c.md",
        "notes/c.md": "notes/c.md",
        str(tree): f"{tree}/notes/c.md",
    }.items():
        assert search_files(env, "word", path=path)["matches"][0]["path"] == expected


def test_files_are_found_by_name_or_by_path(env: BaseEnvironment, tree: Path) -> None:
    assert search_files(env, "*.py", target="files") == {
        "matches": [{"path": "a.py"}, {"path": "b.py"}],
        "total_count": 2,
        "truncated": False,
    }
    for pattern in ("c.*", "**/*.md", "notes/*", "*.{rst,md}", "[!ab]*"):
        assert search_files(env, pattern, target="files")["matches"] == [{"path": "notes/c.md"}]
    page = search_files(env, "*", target="files", offset=1, limit=1, path=str(tree))
    assert page == {"matches": [{"path": f"{tree}/b.py"}], "total_count": 3, "truncated": True}


def test_hidden_files_and_links_are_found_and_version_control_is_not(env: BaseEnvironment, tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / ".git" / "config").touch()
    (tree / ".env").touch()
    (tree / "link").symlink_to("nowhere")
    (tree / "two\nlines").touch()
    result = search_files(env, "*", target="files", file_glob="*[nvks]")
    assert [match["path"] for match in result["matches"]] == [".env", "link", "two\nlines"]


def test_a_name_that_is_not_utf8_is_reported_apart(env: BaseEnvironment, tree: Path) -> None:
    env.execute("echo import >$'caf\\351.py'")
    for result in (search_files(env, "import", file_glob="*.py"), search_files(env, "*.py", target="files")):
        assert [match["path"] for match in result["matches"]] == ["a.py", "b.py"]
        assert result["skipped"] == ["caf\ufffd.py"]


def test_a_long_line_is_cut(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("x" * 50_000)
    (match,) = search_files(env, "x")["matches"]
    assert match["content"] == "x" * 2000 + " [line cut after 2000 characters]"


def test_a_missing_path_names_those_close_to_it(env: BaseEnvironment, tree: Path) -> None:
    for target in ("content", "files"):
        assert search_files(env, "x", target=target, path="note")["error"].endswith(f"{tree}: notes")


def test_a_device_is_refused(env: BaseEnvironment) -> None:
    assert search_files(env, "x", path="/dev/zero")["error"] == "/dev/zero cannot be searched: it is special"


def test_an_invalid_pattern_is_refused_in_the_words_of_the_engine(env: BaseEnvironment, engine: str) -> None:
    reason = {"ripgrep": "unclosed group", "grep": "Unmatched ( or \\("}[engine]
    error = search_files(env, "run(")["error"]
    assert error.startswith(f"{engine} refused the search: ")
    assert error.endswith(reason)


def test_a_pattern_that_is_no_line_of_text_is_refused(env: BaseEnvironment) -> None:
    for pattern, reason in (
        ("", "not empty"),
        ("a\nb", "one line"),
        ("\ud800", "text"),
        ("a|" * 9000, "at most 10,000"),
    ):
        assert reason in search_files(env, pattern)["error"]


def test_a_pattern_with_another_meaning_in_grep_is_refused_with_the_remedy(
    env: BaseEnvironment, engine: str, tree: Path
) -> None:
    for pattern, token in ((r"\d*import", r"\d"), (r"[\w]mport", r"[\w]"), ("(?:i|I)mport", "(?"), ("im+?port", "+?")):
        result = search_files(env, pattern)
        if engine == "ripgrep":
            assert result["total_count"] == 3, pattern
        else:
            assert f"has no ripgrep, and its grep -E takes {token} of the regex" in result["error"]


def test_ignoring_case_and_text_that_looks_like_an_option(env: BaseEnvironment, tree: Path) -> None:
    (tree / "-e").write_text("-e\n")
    assert search_files(env, "(?i)^IMPORT")["total_count"] == 3
    assert search_files(env, "-e")["matches"] == [{"path": "-e", "line": 1, "content": "-e"}]
    assert search_files(env, "--help", path="-e")["matches"] == []


def test_arguments_out_of_range_are_programming_errors(env: BaseEnvironment) -> None:
    for wrong in ({"limit": 0}, {"offset": -1}, {"context": -1}, {"target": "names"}, {"output_mode": "lines"}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"^{name} is "):
            search_files(env, "x", **wrong)
    with pytest.raises(ValueError, match="path must be"):
        search_files(env, "x", path="")


def test_of_a_flood_the_first_page_is_returned_and_the_search_is_ended(tmp_path: Path, engine: str) -> None:
    (tmp_path / "a").write_text("x\n" * 1_000_000)
    with create_environment("local", cwd=str(tmp_path), max_output_bytes=20_000) as env:
        result = search_files(env, "x", limit=3, offset=2, context=1)
        assert [match["line"] for match in result["matches"]] == [3, 4, 5]
        assert result["matches"][0]["after"] == ["x"]
        assert result["truncated"]
        assert result["total_count"] < 1_000_000


def test_a_target_without_a_search_program_is_an_error(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bash = Path(shutil.which("bash") or "")
    (tmp_path / "bash").symlink_to(bash)
    monkeypatch.setenv("PATH", str(tmp_path))
    with create_environment("local", cwd=str(tmp_path)) as bare:
        assert "not found" in search_files(bare, "x")["error"]


def test_more_than_the_output_cap_is_an_error_and_not_a_part(tmp_path: Path, engine: str) -> None:
    for number in range(100):
        (tmp_path / f"{'long' * 10}{number}").write_text("x\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text(f"{'x' * 100}\n" * 100)
    with create_environment("local", cwd=str(tmp_path), max_output_bytes=2000) as env:
        assert "narrow the path or file_glob" in search_files(env, "x")["error"]
        assert "narrow the path or file_glob" in search_files(env, "*", target="files")["error"]
        assert "lower the limit" in search_files(env, "x", path="a", limit=100)["error"]
        assert len(search_files(env, "x", path="a", limit=5, context=1)["matches"]) == 5


def test_the_session_stays_as_it_was(env: BaseEnvironment, tree: Path) -> None:
    env.execute("cd notes; export LC_ALL=C.UTF-8")
    assert search_files(env, "word")["matches"][0]["path"] == "c.md"
    assert env.execute('echo "$PWD $LC_ALL $pattern"').output == f"{tree}/notes C.UTF-8 \n"


def test_a_search_does_not_wait_for_the_session(env: BaseEnvironment, tree: Path) -> None:
    found: list[int] = []

    def search(_text: str) -> None:
        found.append(search_files(env, "import")["total_count"])
        (tree / "go").touch()

    assert env.execute("echo started; while [ ! -e go ]; do sleep 0.02; done", on_output=search).exit_code == 0
    assert found == [3]


def test_a_search_program_that_lies_is_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    rg = tmp_path / "bin" / "rg"
    monkeypatch.setenv("PATH", str(rg.parent), prepend=":")
    with create_environment("local", cwd=str(tmp_path)) as env:
        for printed in (
            "yes a | head -c 5000000",
            "yes a",
            r"yes 'a\000' | head -c 5000000",
            r"printf './a\00012345678901234567890123:x\n'",
            r"printf './a\0001:x'",
        ):
            rg.write_text(f"#!/bin/sh\n{printed}\n")
            rg.chmod(0o755)
            for mode in ("content", "count"):
                error = search_files(env, "x", output_mode=mode)["error"]
                assert "in place of matches" in error
                assert len(error) < 300
