"""Who is told of output as it arrives, and in which form."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Literal

from environments.sink import Channel

ChannelName = Literal["stdout", "stderr"]
OutputCallback = (
    Callable[[str], object]
    | Callable[[bytes], object]
    | Callable[[str, ChannelName], object]
    | Callable[[bytes, ChannelName], object]
)
TextCallback = Callable[[str], object]
LiveOutput = Callable[[str | bytes, ChannelName], object]
"""An `OutputCallback` that is told the channel, whether it wants to know or not."""


def channel_name(channel: Channel) -> ChannelName:
    """Return what a channel is called."""
    return "stderr" if channel is Channel.STDERR else "stdout"


def listener(on_output: object) -> LiveOutput | None:
    """Return what is to be told of output, in one form; it is asked which channel it comes from if it can take that."""
    if on_output is None:
        return None
    if not callable(on_output):
        raise TypeError(f"on_output is of type {type(on_output).__name__}; give a function that takes text")
    callback: Callable[..., object] = on_output
    how = _channel_parameter(callback)
    if how == "position":
        return callback
    if how == "name":
        return lambda piece, channel: callback(piece, channel=channel)
    return lambda piece, channel: callback(piece)


def _channel_parameter(callback: Callable[..., object]) -> Literal["position", "name"] | None:
    """Say how a function takes the channel: as a second argument that it needs, as `channel`, or not at all."""
    try:
        parameters = list(inspect.signature(callback).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not tell
        return None
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name == "channel"):
        return "position"
    named = any(each.name == "channel" and each.kind is each.KEYWORD_ONLY for each in parameters)
    return "name" if named else None
