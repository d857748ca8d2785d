"""`write_file` and `patch` while a program of the target changes the same files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets import backends
from targets.ssh_server import SSHContainer

from environments import create_environment
from environments.base import BaseEnvironment
from hermes_tools.files.write_file import WriteResult, write_file
from hermes_tools.patch import staged_files
from hermes_tools.patch.patch import patch
from hermes_tools.patch.text_file import MAX_BYTES

WRITES, MOST_WRITES = 40, 2000
SWAPPING = """\
number=0
cd ~/work || exit
while [ ! -e ended ]; do
  number=$((number + 1))
  mv race ../old/$number 2>/dev/null
  case $((number % 3)) in
    0) mkdir race ;;
    1) ln -s ../.ssh race ;;
    2) ln -s ../other race ;;
  esac
done
"""


def has_met_both_kinds(answers: list[WriteResult]) -> bool:
    """Return True once writes have met both an allowed directory and a link to a denied directory."""
    refused = any("write_denylist" in answer.get("error", "") for answer in answers)
    return refused and any("created" in answer for answer in answers)


@contextlib.contextmanager
def ssh(folder: Path) -> Iterator[BaseEnvironment]:
    container = SSHContainer(folder)
    try:
        with create_environment("ssh", **container.settings, user="agent") as env:
            yield env
    finally:
        container.remove()


@pytest.fixture(scope="module", params=("docker", "docker_minimal", "podman", "singularity", "ssh"))
def env(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    folder = tmp_path_factory.mktemp("target")
    if request.param == "ssh":
        with ssh(folder) as target:
            yield target
    else:
        with getattr(backends, request.param)(folder) as subject, subject.make() as target:
            yield target


def test_no_file_lands_in_a_denied_directory_that_a_link_is_swapped_for(env: BaseEnvironment) -> None:
    before = env.execute("cd; mkdir -p .ssh other old work; ls -A .ssh").output
    swapping = env.start(SWAPPING, stdin="none")
    try:
        answers = []
        while len(answers) < WRITES or not has_met_both_kinds(answers):
            assert len(answers) < MOST_WRITES, "no swap has met a write"
            answers.append(write_file(env, f"~/work/race/{len(answers)}", "x"))
    finally:
        env.execute_oneshot("touch ~/work/ended")
        assert swapping.wait(timeout=30) is not None
    assert env.execute("ls -A ~/.ssh").output == before
    written = [f"{number}" for number, answer in enumerate(answers) if "created" in answer]
    found = env.execute("cd; find other old work -type f -name '[0-9]*' | sed 's,.*/,,' | sort -n").output.split()
    assert found == written, "all written files, and no others, are in allowed directories"


@pytest.mark.parametrize("text", ["one\n", "one\n" + "line\n" * 20_000], ids=["small", "large"])
def test_a_file_that_grows_while_it_is_patched_keeps_the_new_lines(
    env: BaseEnvironment, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.write_bytes("grown.txt", text.encode())

    def read_bytes(env: BaseEnvironment, where: str, limit: int) -> bytes:
        data = original(env, where, limit)
        env.execute_oneshot("echo more >>grown.txt")
        return data

    original = staged_files.read_bytes  # type: ignore[attr-defined]
    monkeypatch.setattr(staged_files, "read_bytes", read_bytes)
    assert "grown.txt was changed by another program meanwhile" in patch(env, "grown.txt", "one", "two")["error"]
    assert env.read_bytes("grown.txt") == text.encode() + b"more\n"


def test_a_file_that_grows_without_end_is_not_patched(env: BaseEnvironment) -> None:
    env.execute(f"head -c {MAX_BYTES - 1000} /dev/zero | tr '\\0' x >endless.txt")
    growing = env.start("while :; do echo one more line; done >>endless.txt", stdin="none")
    try:
        while env.stat("endless.txt").size <= MAX_BYTES:
            pass
        assert f"larger than {MAX_BYTES:,} bytes" in patch(env, "endless.txt", "one", "two", replace_all=True)["error"]
    finally:
        growing.kill()
        env.execute("rm endless.txt")
