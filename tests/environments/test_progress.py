"""What `on_progress` is told of files and directories that are moved, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import BACKENDS

from environments import BaseEnvironment, create_environment
from environments import progress as progress_module
from environments.progress import Progress, Reporter

SIZE = 2_000_000


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda backend: backend.__name__)
def env(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    with request.param(tmp_path_factory.mktemp("cwd")) as subject, subject.make() as env:
        yield env


@pytest.fixture
def told(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Progress]]:
    """All that is told, however fast it comes."""
    monkeypatch.setattr(progress_module, "INTERVAL", 0)
    env.execute("true")
    told: list[Progress] = []
    env.progress.callback = told.append
    yield told
    env.progress.callback = None


def sizes(told: list[Progress], what: str) -> list[int]:
    assert {each.what for each in told} == {what}
    found = [each.done for each in told if each.done is not None]
    assert len(found) == len(told) and found[0] == 0 and found == sorted(found)
    assert told[-1].done == told[-1].total
    assert [each.complete for each in told] == [False] * (len(told) - 1) + [True]
    return found


def test_a_file_is_counted_up_and_down(env: BaseEnvironment, told: list[Progress], tmp_path: Path):
    remote = f"{env.scratch_directory()}/file"
    (tmp_path / "file").write_bytes(b"x" * SIZE)
    env.put_file(tmp_path / "file", remote)
    assert told[0].total == SIZE and sizes(told, f"uploading {remote}")[-1] == SIZE
    told.clear()
    env.get_file(remote, tmp_path / "back")
    assert sizes(told, f"downloading {remote}")[-1] == SIZE == (tmp_path / "back").stat().st_size


def test_a_directory_is_counted_up_and_down(env: BaseEnvironment, told: list[Progress], tmp_path: Path):
    remote = f"{env.scratch_directory()}/folder"
    (tmp_path / "folder").mkdir()
    for number in range(5):
        (tmp_path / "folder" / str(number)).write_bytes(b"x" * SIZE)
    env.put_dir(tmp_path / "folder", remote)
    up = sizes(told, f"uploading {remote}")
    told.clear()
    env.get_dir(remote, tmp_path / "back")
    down = sizes(told, f"downloading {remote}")
    assert min(up[-1], down[-1]) >= 5 * SIZE and min(len(up), len(down)) > 3


def test_a_callback_that_fails_is_logged_once_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    def fail(progress: Progress) -> None:
        raise KeyError(progress.what)

    (tmp_path / "file").write_bytes(b"x")
    with create_environment("local", on_progress=fail) as env:
        env.put_file(tmp_path / "file", str(tmp_path / "copy"))
        env.get_file(str(tmp_path / "copy"), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == b"x"
    (record,) = caplog.records
    assert "on_progress failed" in record.getMessage() and record.exc_info


def test_reports_of_one_thing_that_come_too_fast_are_left_out_but_for_its_end():
    reporter, told = Reporter("local"), list[Progress]()
    reporter.callback = told.append
    for done in range(101):
        reporter.tell("pulling", done, 100)
    reporter.tell("starting")
    assert told[0].done == 0 and told[-2].done == 100 and told[-1].what == "starting" and len(told) < 50
