"""The policy `destructive` on lists of disguised commands and of everyday commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from text_lists import texts_by_heading

from environments.approvals import destructive

DISGUISES, EVERYDAY = (texts_by_heading(Path(__file__).with_name(name)) for name in ("disguises.txt", "everyday.txt"))


@pytest.mark.parametrize("heading", DISGUISES)
def test_a_disguised_command_is_asked_about(heading: str) -> None:
    assert [text for text in DISGUISES[heading] if destructive(text, "/home/user/project") is None] == []


@pytest.mark.parametrize("heading", EVERYDAY)
def test_an_everyday_command_passes(heading: str) -> None:
    reasons = {text: destructive(text, "/home/user/project") for text in EVERYDAY[heading]}
    assert {text: reason for text, reason in reasons.items() if reason is not None} == {}


def test_the_lists_are_long_and_name_each_text_once() -> None:
    for lists, least in ((DISGUISES, 1500), (EVERYDAY, 1000)):
        all_texts = [text for heading in lists.values() for text in heading]
        assert len(all_texts) > least
        assert len(set(all_texts)) == len(all_texts)
