"""`hermes-env cp` into and out of a container."""

from __future__ import annotations

import os
from pathlib import Path

from targets.command_line import CommandLine
from targets.engines import PYTHON_IMAGE

IMAGE = ("-b", "docker", "--set", f"image={PYTHON_IMAGE}")


def test_files_folders_and_streams_are_copied_both_ways(
    hermes_env: CommandLine, docker_environment, tmp_path: Path
) -> None:
    env = docker_environment()
    there = ("-b", "docker", "--set", f"container={env.target.id}")
    (tmp_path / "folder/deep").mkdir(parents=True)
    data = os.urandom(300_000)
    (tmp_path / "folder/deep/a file").write_bytes(data)
    (tmp_path / "folder/deep/a file").chmod(0o750)
    copies = (("folder", ":/srv/new/copy"), (":/srv/new/copy", "back"), ("-", ":~/it's"), (":~/it's", "-"))
    for source, destination in copies:
        done = hermes_env("cp", *there, source, destination, stdin="line\n" * 100_000)
        assert (done.returncode, done.stderr) == (0, ""), (source, destination)
    assert done.stdout == "line\n" * 100_000
    assert env.read_bytes("/srv/new/copy/deep/a file") == (tmp_path / "back/deep/a file").read_bytes() == data
    assert (tmp_path / "back/deep/a file").stat().st_mode & 0o777 == 0o750
    refused = hermes_env("cp", *there, ":/missing", "here")
    assert (refused.returncode, refused.stderr.count("\n")) == (125, 1)
    assert "No such file or directory" in refused.stderr


def test_a_copy_into_a_container_that_ends_with_the_command_is_a_warning(
    hermes_env: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("here")
    done = hermes_env("cp", *IMAGE, "file", ":/srv/file")
    assert (done.returncode, done.stdout) == (0, "")
    assert "are removed with container hermes-" in done.stderr and "--set container=NAME" in done.stderr
    done = hermes_env("cp", *IMAGE, ":/etc/os-release", "-")
    assert "ID=debian" in done.stdout and done.stderr == ""
