"""Parsers of an interactive shell's input and output, with the data cut anywhere."""

from __future__ import annotations

import threading
from itertools import pairwise
from unittest.mock import Mock

from hypothesis import given, settings
from hypothesis import strategies as st

from environments.output import Channel
from hermes_env.cli.terminal import Keys, Screen

TYPED = [
    (b"ls ~.\r", b"ls ~.\r", False),
    (b"~~.\r", b"~.\r", False),
    (b"~", b"", False),
    (b"~x~.", b"~x~.", False),
    (b"~\r~.", b"~\r", True),
    (b"ls\r~.rest", b"ls\r", True),
    (b"ls\n~~~.", b"ls\n~~.", False),
    (b"\xc3\xa9\x00\x03\xff", b"\xc3\xa9\x00\x03\xff", False),
]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[begin:end] for begin, end in pairwise(places)]


@settings(max_examples=25)
@given(st.sampled_from(TYPED), st.lists(st.integers(0, 20), max_size=4))
def test_tilde_dot_is_found_at_the_beginning_of_a_line_alone(example: tuple[bytes, bytes, bool], cuts: list[int]):
    typed, passed, ends = example
    process, leave = Mock(), Mock()
    keys = Keys(process, leave)
    for piece in pieces(typed, cuts):
        keys.write(piece)
        if leave.called:
            break
    assert b"".join(call.args[0] for call in process.write.call_args_list) == passed
    assert leave.called == ends


SHOWN = [
    (b"plain \x1b[31mred\x1b[0m", b""),
    (b"\x1b[?1049h\x1b[?25lvim\x1b[?25h\x1b[?1049l", b""),
    (b"\x1b[?1049h\x1b[?25lvim", b"\x1b[?1049l\x1b[?25h\x1b[0m"),
    (b"\x1b[?2004h$ \x1b[?1000;1006h", b"\x1b[?2004l\x1b[?1000l\x1b[?1006l\x1b[0m"),
    (b"\x1b[?7h\x1b[?12l", b""),
    (b"\x1b[?" + b"9" * 500 + b"h", b""),
]


@settings(max_examples=25)
@given(st.sampled_from(SHOWN), st.lists(st.integers(0, 40), max_size=6))
def test_modes_that_are_left_on_are_known(example: tuple[bytes, bytes], cuts: list[int]):
    data, undoing = example
    shown = Mock()
    ready = threading.Event()
    ready.set()
    screen = Screen(shown, ready)
    for piece in pieces(data, cuts):
        screen.add(Channel.STDOUT, piece)
    assert b"".join(call.args[1] for call in shown.add.call_args_list) == data
    assert screen.reset_sequence() == undoing
