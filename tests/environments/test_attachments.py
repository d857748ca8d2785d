from __future__ import annotations

from pathlib import Path

from environments import create_environment
from environments.base import Attachments


class _Kept:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class _Other(_Kept):
    pass


def test_there_is_one_of_each_kind() -> None:
    attachments = Attachments()
    first = attachments.get(_Kept)
    assert attachments.get(_Kept) is first
    assert type(attachments.get(_Other)) is _Other


def test_all_are_closed_once_and_none_is_kept_from_then_on() -> None:
    attachments = Attachments()
    first, other = attachments.get(_Kept), attachments.get(_Other)
    attachments.close()
    attachments.close()
    assert (first.closed, other.closed) == (1, 1)
    late = attachments.get(_Kept)
    assert late is not first
    assert late.closed == 1
    assert attachments.get(_Kept) is not late


def test_those_of_an_environment_go_with_it(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path)) as env:
        kept = env.attachments.get(_Kept)
        env.execute("true")
        assert kept.closed == 0
    assert kept.closed == 1
