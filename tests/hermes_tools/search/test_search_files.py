from __future__ import annotations

import json
from pathlib import Path

import pytest

from environments import create_environment
from environments.base import BaseEnvironment
from hermes_tools.search.search_files import search_files


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


def test_matching_lines_are_sorted_by_path_and_line(env: BaseEnvironment, tree: Path) -> None:
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


def test_files_only_and_count_give_a_match_for_each_file(env: BaseEnvironment, tree: Path) -> None:
    files = search_files(env, "import|os", output_mode="files_only", limit=2)
    assert files == {"matches": [{"path": "a.py"}, {"path": "b.py"}], "total_count": 3, "truncated": True}
    counts = search_files(env, "import|os", output_mode="count", file_glob="*.py")
    assert counts == {
        "matches": [{"path": "a.py", "count": 1}, {"path": "b.py", "count": 2}],
        "total_count": 3,
        "truncated": False,
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


def test_an_invalid_pattern_is_refused_with_its_place(env: BaseEnvironment) -> None:
    error = search_files(env, "run(")["error"]
    assert error == "invalid regex 'run(': the group is not closed (at character 4)"


def test_arguments_out_of_range_are_programming_errors(env: BaseEnvironment) -> None:
    for wrong in (
        {"limit": 0},
        {"offset": -1},
        {"context": -1},
        {"target": "names"},
        {"output_mode": "lines"},
        {"path": ""},
    ):
        with pytest.raises(ValueError, match=r"must be|at least|is 'content'"):
            search_files(env, "x", **wrong)


def test_more_than_the_output_cap_is_an_error_and_not_a_part(tmp_path: Path) -> None:
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
