"""Files of a target that `write_file` and `patch` do not write: write_denylist and write_safe_root."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from environments.settings import CONFIG_FILE, EnvironmentSettings, hermes_home


@dataclass(frozen=True, slots=True)
class WriteGuard:
    """Paths of the target that the file tools do not write. `~` is the home of the target's user.

    A guard-rail and no wall: it holds the file tools alone. Each write checks its place in the step that writes.
    """

    denied: tuple[str, ...]
    """Files, and directories with all below them."""
    safe_root: str | None
    """The directory below which alone files are written; None is everywhere."""

    @classmethod
    def of(cls, settings: EnvironmentSettings) -> WriteGuard:
        """Return the guard that the settings of an environment describe."""
        own = str((hermes_home() / CONFIG_FILE).absolute())
        root = settings.write_safe_root
        denied = tuple(map(posixpath.normpath, (*settings.write_denylist, own)))
        return cls(denied, posixpath.normpath(root) if root else None)

    def refusal(self, kind: str, number: int = 0) -> str:
        """Return the reason why a file is not written.

        Args:
            kind: `denied`, `outside` (the safe root), `rootless` (it is no directory), or `lost` (the place cannot be
                determined).
            number: The place of a denied path in the list, from 1 on.
        """
        if kind == "denied":
            which = self.denied[number - 1] if 0 < number <= len(self.denied) else "it"
            return f"{which} is in the setting write_denylist"
        if kind == "outside":
            return f"it is not below {self.safe_root}, which the setting write_safe_root allows alone"
        if kind == "rootless":
            return f"the setting write_safe_root names {self.safe_root}, which is not a directory of the target"
        return "a link on its way leads nowhere, or '..' stands behind a directory that is not there"
