"""`on_progress` counts the bytes transferred through shells over SSH."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets import backends

from environments import progress as progress_module
from environments.progress import Progress

SIZE = 2_000_000


def test_files_and_directories_are_counted_up_and_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "INTERVAL", 0)
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "file").write_bytes(b"x" * SIZE)
    reported: list[Progress] = []
    with backends.ssh(tmp_path) as subject, subject.make() as env:
        env.execute("true")
        env.progress.callback = reported.append
        file, folder = f"{env.internal.scratch_directory()}/file", f"{env.internal.scratch_directory()}/folder"
        for move, what in (
            (lambda: env.put_file(tmp_path / "from" / "file", file), f"uploading {file}"),
            (lambda: env.get_file(file, tmp_path / "back"), f"downloading {file}"),
            (lambda: env.put_dir(tmp_path / "from", folder), f"uploading {folder}"),
            (lambda: env.get_dir(folder, tmp_path / "folder"), f"downloading {folder}"),
        ):
            reported.clear()
            move()
            done = [each.done for each in reported]
            assert {each.what for each in reported} == {what}
            assert done[0] == 0 and done == sorted(done) and SIZE <= done[-1] == reported[-1].total
            assert [each.complete for each in reported] == [False] * (len(reported) - 1) + [True]
