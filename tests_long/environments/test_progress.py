"""Reports to `on_progress` while files and directories are transferred."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets import backends

from environments import BaseEnvironment, create_environment
from environments import progress as progress_module
from environments.progress import Progress, Reporter

SIZE = 2_000_000


@pytest.fixture(params=(backends.local, backends.without_bash, backends.per_command), ids=lambda made: made.__name__)
def env(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseEnvironment]:
    """Each way to transfer files on this machine: by paths, through a shell, by short commands."""
    monkeypatch.setattr(progress_module, "INTERVAL", 0)
    with request.param(tmp_path) as subject, subject.make() as env:
        env.execute("true")
        yield env


def sizes(told: list[Progress], what: str) -> list[int]:
    assert {each.what for each in told} == {what}
    found = [each.done for each in told if each.done is not None]
    assert len(found) == len(told) and found[0] == 0 and found == sorted(found)
    assert told[-1].done == told[-1].total
    assert [each.complete for each in told] == [False] * (len(told) - 1) + [True]
    return found


def test_files_and_directories_are_counted_up_and_down(env: BaseEnvironment, tmp_path: Path):
    told: list[Progress] = []
    env.progress.callback = told.append
    file, folder = f"{env.internal.scratch_directory()}/file", f"{env.internal.scratch_directory()}/folder"
    (tmp_path / "from").mkdir()
    for number in range(3):
        (tmp_path / "from" / str(number)).write_bytes(b"x" * SIZE)
    env.put_file(tmp_path / "from" / "0", file)
    assert told[0].total == SIZE and sizes(told, f"uploading {file}")[-1] == SIZE
    told.clear()
    env.get_file(file, tmp_path / "back")
    assert sizes(told, f"downloading {file}")[-1] == SIZE == (tmp_path / "back").stat().st_size
    told.clear()
    env.put_dir(tmp_path / "from", folder)
    up = sizes(told, f"uploading {folder}")
    told.clear()
    env.get_dir(folder, tmp_path / "back again")
    down = sizes(told, f"downloading {folder}")
    assert min(up[-1], down[-1]) >= 3 * SIZE and min(len(up), len(down)) > 3


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


def test_reports_that_come_too_fast_are_left_out_except_the_last():
    reporter, told = Reporter("local"), list[Progress]()
    reporter.callback = told.append
    for done in range(101):
        reporter.report("pulling", done, 100)
    reporter.report("starting")
    assert told[0].done == 0 and told[-2].done == 100 and told[-1].what == "starting" and len(told) < 50
