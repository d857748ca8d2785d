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


def test_an_attachment_of_a_class_is_made_once() -> None:
    attachments = Attachments()
    first = attachments.get(_Kept)
    assert attachments.get(_Kept) is first
    assert type(attachments.get(_Other)) is _Other


def test_attachments_are_closed_once_and_later_ones_at_once() -> None:
    attachments = Attachments()
    first, other = attachments.get(_Kept), attachments.get(_Other)
    attachments.close()
    attachments.close()
    assert (first.closed, other.closed) == (1, 1)
    late = attachments.get(_Kept)
    assert late is not first
    assert late.closed == 1
    assert attachments.get(_Kept) is not late


def test_attachments_of_an_environment_are_closed_by_cleanup(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path)) as env:
        kept = env.attachments.get(_Kept)
        env.execute("true")
        assert kept.closed == 0
    assert kept.closed == 1
