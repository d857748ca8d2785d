"""The files of a task that outlive its environment: a snapshot of them, and the claim on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from environments.claim import Claim
from environments.modal.settings import ModalSettings
from environments.modal.snapshots import Snapshot, all_snapshots
from environments.settings import EnvironmentSettings
from environments.short_commands.sandbox import kept_key

_KEY = re.compile("[0-9a-f]{32}")
_LIMITS = ("container_cpu", "container_memory")
_OWN = ("app", "image", "dockerfile_commands", "gpu", "region", "volumes", "network", "ports")


class Kept(Snapshot):
    """The files of one task, as one kind of sandbox sees them. They are in one sandbox at a time.

    Args:
        key: Their key, see `key_of`.
    """

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.claim_name = f"modal-{key}"
        self.claim = Claim(self.claim_name)


def all_kept() -> Iterator[Kept]:
    """Go through the snapshots of tasks that this `HERMES_HOME` knows."""
    yield from (Kept(note.key) for note in all_snapshots() if _KEY.fullmatch(note.key))


def key_of(settings: EnvironmentSettings) -> str:
    """Return the key of the kept files of a task, see `kept_key`."""
    own = ModalSettings.of(settings)
    parts: dict[str, object] = {name: getattr(settings, name) or None for name in _LIMITS}  # 0 is no limit
    parts |= {name: getattr(own, name) for name in _OWN}
    return kept_key(settings, parts)
