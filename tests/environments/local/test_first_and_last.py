"""What a short program costs on this machine: one shell, and nothing that looks for processes where there are none."""

from __future__ import annotations

import pytest

from environments import create_environment
from environments.conformance.check import wait_until
from environments.local.bearers import has_none
from environments.shell.child_stream import ChildStream


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ChildStream, bytes]]:
    """Return what is written to all shells from here on."""
    pieces: list[tuple[ChildStream, bytes]] = []
    write = ChildStream.write

    def noted(self: ChildStream, data: bytes) -> None:
        pieces.append((self, data))
        write(self, data)

    monkeypatch.setattr(ChildStream, "write", noted)
    return pieces


def test_cleanup_opens_no_shell_where_nothing_is_left(written: list[tuple[ChildStream, bytes]]) -> None:
    env = create_environment("local")
    env.execute("true")
    assert wait_until(lambda: len({stream for stream, _ in written}) == 2)  # that of the session, and the reserve
    before = len(written)
    env.cleanup()
    assert len(written) == before


def test_a_shell_is_told_how_much_of_its_first_words_to_read(written: list[tuple[ChildStream, bytes]]) -> None:
    with create_environment("local") as env:
        env.execute("true")
        first = written[0][1]
    line, _, rest = first.partition(b"\n")
    assert f"read -rN{len(rest)} ".encode() in line
    assert len(line) < 300


def test_what_a_command_has_left_is_found_and_ended_by_cleanup(nap: str) -> None:
    env = create_environment("local")
    env.execute(f"setsid {nap} >/dev/null 2>&1 </dev/null &")
    marker = f"{env.id}/"  # type: ignore[attr-defined]  # of an environment that has shells
    assert not has_none(marker)
    env.cleanup()
    assert has_none(marker)


def test_nothing_is_certain_where_processes_cannot_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_none("nobody has this")

    def refused(path: str, flags: int) -> int:
        raise PermissionError(path)

    monkeypatch.setattr("environments.local.bearers.os.open", refused)
    assert not has_none("nobody has this")
