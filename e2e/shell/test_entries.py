"""stat, list_dir, mkdir and remove with BusyBox alone, as an unprivileged user."""

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
    """Start a container with BusyBox alone and an unprivileged user."""
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


def test_a_relative_link_to_a_missing_file_is_followed_from_its_directory(busybox: BaseEnvironment) -> None:
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


def test_files_of_other_users_are_kept(busybox: BaseEnvironment) -> None:
    container = busybox.execute_oneshot("hostname").output.strip()
    run_as_root(container, "echo theirs >/tmp/theirs; chmod 666 /tmp/theirs; chmod 1777 /tmp")
    with pytest.raises(TargetPermissionError):
        busybox.remove("/tmp/theirs")
    with pytest.raises(TargetPermissionError):
        busybox.write_bytes("/tmp/theirs", b"mine")  # writable, but not replaceable in one step
    assert busybox.read_bytes("/tmp/theirs") == b"theirs\n"
    with pytest.raises(TargetPermissionError):
        busybox.remove("/etc/passwd")
    with pytest.raises(TargetPermissionError):
        busybox.mkdir("/new/directory")


def test_a_read_only_file_system_is_no_permission_error(busybox: BaseEnvironment) -> None:
    with pytest.raises(TerminalError, match="Read-only") as raised:
        busybox.mkdir("/sys/kernel/new")
    assert type(raised.value) is TerminalError
