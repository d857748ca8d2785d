"""Looking at, making and removing entries with BusyBox alone, as a user who is not root."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from targets.engines import MINIMAL_IMAGE, require_docker, run_as_root

from environments import BaseEnvironment, TerminalError, create_environment
from environments.conformance import Subject
from environments.conformance.files import (
    entries_are_listed_and_looked_at,
    what_a_user_may_not_do_is_told_by_type,
    what_is_in_a_files_way_is_told_by_type,
    what_is_removed_is_no_more_than_was_asked_for,
)
from environments.errors import TargetPermissionError

MANY = 20_000


@pytest.fixture(scope="module")
def busybox() -> Iterator[BaseEnvironment]:
    """A container with BusyBox alone, whose user is not root."""
    require_docker().close()
    with create_environment("docker", image=MINIMAL_IMAGE, docker_user="1000:1000") as made:
        yield made


def test_the_checks_of_entries_and_of_file_errors_hold(busybox: BaseEnvironment) -> None:
    for check in (
        entries_are_listed_and_looked_at,
        what_is_removed_is_no_more_than_was_asked_for,
        what_is_in_a_files_way_is_told_by_type,
        what_a_user_may_not_do_is_told_by_type,
    ):
        check(Subject(make=lambda **_: busybox, _env=busybox))


def test_a_link_to_what_is_not_there_yet_is_followed_from_where_it_is(busybox: BaseEnvironment) -> None:
    links = "ln -s sub/near far && ln -s new sub/near"
    made = busybox.execute_oneshot(f"mkdir -p /tmp/links/sub && cd /tmp/links && {links}")
    assert made.ok, made
    busybox.write_bytes("/tmp/links/far", b"x")
    assert busybox.read_bytes("/tmp/links/sub/new") == b"x"
    assert busybox.stat("/tmp/links/far", follow_symlinks=False).link_target == "sub/near"


def test_many_entries_are_listed_with_no_process_for_each(busybox: BaseEnvironment) -> None:
    made = busybox.execute(f"mkdir /tmp/many && cd /tmp/many && seq {MANY} | xargs touch && ln -s x link", timeout=100)
    assert made.ok, made
    entries = busybox.list_dir("/tmp/many")
    assert len(entries) == MANY + 1
    assert entries[-1].link_target == "x"
    assert {entry.name for entry in entries if entry.is_file} == {str(number) for number in range(1, MANY + 1)}


def test_what_others_own_is_kept(busybox: BaseEnvironment) -> None:
    container = busybox.execute_oneshot("hostname").output.strip()
    run_as_root(container, "echo theirs >/tmp/theirs; chmod 666 /tmp/theirs; chmod 1777 /tmp")
    with pytest.raises(TargetPermissionError):
        busybox.remove("/tmp/theirs")
    with pytest.raises(TargetPermissionError):
        busybox.write_bytes("/tmp/theirs", b"mine")  # it could be written to, but not be replaced in one step
    assert busybox.read_bytes("/tmp/theirs") == b"theirs\n"
    with pytest.raises(TargetPermissionError):
        busybox.remove("/etc/passwd")
    with pytest.raises(TargetPermissionError):
        busybox.mkdir("/new/directory")


def test_a_file_system_that_is_read_only_is_no_question_of_permissions(busybox: BaseEnvironment) -> None:
    with pytest.raises(TerminalError, match="Read-only") as raised:
        busybox.mkdir("/sys/kernel/new")
    assert type(raised.value) is TerminalError
