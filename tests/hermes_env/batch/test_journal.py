from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments import TerminalError
from hermes_env.batch import Result, read_results
from hermes_env.batch.journal import BEGUN, Journal

IDS = ("one", "two ü\n", 'three "x"', "four")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def begun_file(path: Path) -> Path:
    return path.with_name(path.name + BEGUN)


def killed(journal: Journal) -> None:
    """Drop a journal as a killed process does: without another write."""
    journal._results.close()
    journal._marks.close()


def statuses(path: Path) -> dict[str, str]:
    results = list(read_results(path))
    found = {result.id: result.status for result in results}
    assert len(found) == len(results), "a result occurs twice"
    return found


def written(path: Path) -> None:
    """Write the files of a killed run: two results, and two begun tasks."""
    journal = Journal(path)
    journal.resume(())
    journal.begin(IDS)
    journal.add([Result(IDS[0], "success", "output ü \u2028 \ud800\n", 0, 0.5)])
    journal.add([Result(IDS[1], "error", "x" * 50, 3, 0.1, "exit code 3")])
    killed(journal)


def test_a_task_with_a_result_is_done_and_a_begun_task_is_lost(path: Path) -> None:
    written(path)
    journal = Journal(path)
    assert journal.was_killed
    journal.resume(())
    assert journal.done == {IDS[0]: "success", IDS[1]: "error", IDS[2]: "lost", IDS[3]: "lost"}
    journal.close()
    assert statuses(path) == journal.done
    assert next(iter(read_results(path))).output == "output ü \u2028 \ud800\n"


@settings(max_examples=25)
@given(cut_results=st.integers(0, 400), cut_marks=st.integers(0, 200), retry=st.sampled_from(["", "lost", "error"]))
def test_a_file_that_is_cut_off_anywhere_is_gone_on_with(
    tmp_path_factory: pytest.TempPathFactory, cut_results: int, cut_marks: int, retry: str
) -> None:
    path = tmp_path_factory.mktemp("cut") / "results.jsonl"
    written(path)
    for file, cut in ((path, cut_results), (begun_file(path), cut_marks)):
        data = file.read_bytes()
        file.write_bytes(data[: cut % (len(data) + 1)])
    whole = {json.loads(line)["id"] for line in path.read_bytes().split(b"}\n")[:-1] for line in [line + b"}"]}
    marked = {json.loads(line)["begun"] for line in begun_file(path).read_bytes().split(b"\n")[:-1]}
    journal = Journal(path)
    journal.resume([retry] if retry else [])  # type: ignore[list-item]
    assert whole - journal.done.keys() <= {IDS[1]}, "only a repeated task loses its result"
    if retry != "lost":
        assert marked - {IDS[1]} <= journal.done.keys(), "a begun task would run again"
    rest = [name for name in IDS if name not in journal.done]
    journal.begin(rest)
    journal.add([Result(name, "success") for name in rest])
    journal.close()
    assert statuses(path).keys() >= set(IDS)
    assert not begun_file(path).exists()


def test_a_whole_line_that_lacks_its_newline_alone_is_kept(path: Path) -> None:
    written(path)
    path.write_bytes(path.read_bytes()[:-1])
    journal = Journal(path)
    journal.resume(())
    journal.close()
    assert statuses(path)[IDS[1]] == "error"


def test_tasks_that_may_have_run_are_run_again_when_that_is_asked_for(path: Path) -> None:
    written(path)
    journal = Journal(path)
    journal.resume(("lost", "interrupted"))
    assert journal.done.keys() == set(IDS[:2])
    killed(journal)
    journal = Journal(path)  # killed before they began again
    journal.resume(())
    assert journal.done.keys() == set(IDS[:2])
    journal.close()


def test_a_result_that_is_to_be_replaced_is_taken_out_if_its_task_is_there(path: Path) -> None:
    written(path)
    journal = Journal(path)
    journal.resume(("error", "success"), among={IDS[1]})
    assert statuses(path).keys() == {IDS[0], IDS[2], IDS[3]}
    journal.begin([IDS[1]])
    journal.add([Result(IDS[1], "success")])
    journal.close()
    assert statuses(path)[IDS[1]] == "success"


def test_a_task_that_did_not_begin_after_all_is_not_lost(path: Path) -> None:
    journal = Journal(path)
    journal.begin(["a", "b"])
    journal.withdraw(["a"])
    killed(journal)
    journal = Journal(path)
    journal.resume(())
    journal.close()
    assert statuses(path) == {"b": "lost"}


def test_two_runs_on_one_file_refuse_each_other_by_whatever_name(path: Path) -> None:
    (path.parent / "link").symlink_to(path.parent)
    other = path.parent / "link" / path.name
    journal = Journal(path)
    with pytest.raises(TerminalError, match=r"another run is writing to .*; wait until it has ended"):
        Journal(other)
    journal.close()
    Journal(other).close()


def test_a_link_in_the_place_of_results_or_marks_is_refused_and_what_it_leads_to_stays(path: Path) -> None:
    other = path.with_name("other")
    for link in (path, begun_file(path)):
        for text in (None, "", '{"id":"x","status":"success"}\n'):
            if text is not None:
                other.write_text(text)
            link.symlink_to(other)
            with pytest.raises(TerminalError, match=rf"cannot write .*{link.name}: it is a link; give the path of"):
                Journal(path)
            assert link.is_symlink()
            assert (other.read_text() if other.exists() else None) == text
            link.unlink()
            other.unlink(missing_ok=True)
            assert [*path.parent.iterdir()] == []


def test_a_number_is_an_id_of_its_own_and_stays_a_number(path: Path) -> None:
    journal = Journal(path)
    journal.resume(())
    journal.begin([0, "0", 1.5, 7])
    journal.add([Result(0, "success"), Result("0", "error", exit_code=1)])
    killed(journal)
    journal = Journal(path)
    journal.resume(())
    journal.close()
    found = {result.id: result.status for result in read_results(path)}
    assert found == journal.done == {0: "success", "0": "error", 1.5: "lost", 7: "lost"}
    assert [type(name) for name in found] == [int, str, float, int]


def test_a_file_of_something_else_is_refused_and_stays_as_it_was(path: Path) -> None:
    for text in (
        "notes\n",
        '{"id": [3], "status": "success"}\n',
        '{"id": 3}\n',
        "[1]\n",
        "half a note",
        '{"id":"x","status":"success"}\n{}\n',
    ):
        path.write_text(text)
        with pytest.raises(TerminalError, match="no result of a batch"):
            Journal(path)
        assert path.read_text() == text
        assert not begun_file(path).exists()
    path.unlink()
    begun_file(path).write_text("notes\n")
    with pytest.raises(TerminalError, match="does not hold the marks of a batch"):
        Journal(path)
    assert begun_file(path).read_text() == "notes\n"
    assert not path.exists()


def test_results_that_are_gone_while_tasks_have_begun_are_asked_for(path: Path) -> None:
    written(path)
    path.unlink()
    marks = begun_file(path).read_bytes()
    with pytest.raises(TerminalError, match=r"is gone, but .* lists tasks that have begun; restore the file"):
        Journal(path)
    assert not path.exists()
    assert begun_file(path).read_bytes() == marks
    begun_file(path).unlink()
    Journal(path).close()


def test_an_unwritable_path_is_refused_and_results_are_for_this_user_alone(tmp_path: Path, path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("missing/results.jsonl", "folder"):
        with pytest.raises(TerminalError, match=r"cannot write .*; give a file that can be written"):
            Journal(tmp_path / name)
    assert not begun_file(tmp_path / "folder").exists()
    Journal(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def small_files() -> Iterator[None]:
    """Limit the size of files, in place of a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_a_full_disk_is_an_error_and_leaves_whole_lines(path: Path) -> None:
    journal = Journal(path)
    journal.begin(["a", "b"])
    journal.add([Result("a", "success", "x" * 2000)])
    with pytest.raises(TerminalError, match=r"cannot write .*: File too large; its results stay"):
        journal.add([Result("b", "success", "x" * 2000)])
    assert path.read_bytes().endswith(b"}\n")
    journal.close()
    assert statuses(path) == {"a": "success"}
    assert begun_file(path).exists(), "b's begin has to be recorded"
