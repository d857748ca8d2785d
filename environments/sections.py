"""The sections of `config.yaml` that are ours, with what an older system wrote there taken for what it is here."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from environments.config import is_config_empty, read_config_section
from environments.errors import SettingsError
from environments.validation import Given

if TYPE_CHECKING:
    from environments.legacy import Older

Layer = dict[str, Given]

_lock = threading.Lock()
_warned: set[str] = set()


def config_layer(section: str) -> Layer:
    """Return a section of `config.yaml` as a layer for `validated`.

    An empty text is taken as not set. What the older system called otherwise has the name that it has here, and what
    it alone had is left out with a warning.

    Raises as `read_config_section`.
    """
    if is_config_empty():
        return {}
    from environments.legacy import OLDER  # a long table, which a run on the defaults does without

    sections = {section: _layer(section)}
    for older in OLDER:
        if older.section != section and _reads(section, older) and older.section not in sections:
            sections[older.section] = _layer_of_others(older.section)
    return translated(section, sections)


def translated(section: str, sections: Mapping[str, Layer]) -> Layer:
    """Return the layer of a section, with what the older system wrote in it, and elsewhere, taken for what it is here.

    Args:
        section: A section that is ours.
        sections: What was found, by section.
    """
    layer = dict(sections[section])
    if not any(sections.values()):
        return layer
    from environments.legacy import OLDER

    for older in OLDER:
        given = sections.get(older.section, {}).get(older.key)
        if given is not None and _reads(section, older) and not older.backend:
            _translate(older, given, layer, section)
    return layer


def of_backend(layer: Layer, backend: str) -> Layer:
    """Return a layer with what the older system had for one backend alone taken for what it is here.

    Args:
        layer: Settings of the section `terminal`.
        backend: The backend. What there was for others is left out.
    """
    layer = dict(layer)
    if not layer:
        return layer
    from environments.legacy import OLDER

    for older in OLDER:
        if older.backend and (given := layer.pop(older.key, None)) and older.backend == backend:
            if older.goes_first and given.value is not None:
                layer.pop(older.here.partition(".")[2], None)
            if not older.says_nothing(given.value):
                _move(older, given, layer)
    return layer


def warn_once(about: str, message: str) -> None:
    """Log a warning, unless this process has had one about the same."""
    with _lock:
        if about in _warned:
            return
        _warned.add(about)
    from environments.log import logger  # with the first warning, as logging takes its time to import

    logger(__name__).warning("%s", message)


def _layer(section: str) -> Layer:
    values, path = read_config_section(section)
    return {key: Given(None if value == "" else value, f"{path}, {section}.{key}") for key, value in values.items()}


def _layer_of_others(section: str) -> Layer:
    """Return a section that is not ours, whose faults are none of our business."""
    with suppress(SettingsError):
        return _layer(section)
    return {}


def _reads(section: str, older: Older) -> bool:
    """Whether a setting of the older system is looked at with a section."""
    from environments.legacy import READ_FOR

    return (older.here or READ_FOR.get(older.name) or older.name).partition(".")[0] == section


def _translate(older: Older, given: Given, layer: Layer, section: str) -> None:
    is_set = not older.says_nothing(given.value)
    if older.is_same:
        layer[older.key] = given if is_set else Given(None, given.where)
        return
    if older.section == section:
        del layer[older.key]
    if is_set:
        _move(older, given, layer)


def _move(older: Older, given: Given, layer: Layer) -> None:
    if not older.here:
        warn_once(older.name, f"{given.where}: passed over: {older.note}")
        return
    value = given.value
    if older.values is not None:
        word = str(value).strip().lower()
        if word not in older.values:
            warn_once(older.name, f"{given.where}: {value!r:.50} is passed over: {older.note}")
            return
        value = older.values[word]
    if older.converted:
        value = older.converted(value)
    key = older.here.partition(".")[2]
    if layer.get(key) is None or layer[key].value is None:
        layer[key] = Given(value, given.where)
