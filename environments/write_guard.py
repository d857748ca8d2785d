"""Protected files of a target, by the settings write_denylist and write_safe_root of `write_file` and `patch`."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from environments.settings import CONFIG_FILE, EnvironmentSettings, hermes_home


@dataclass(frozen=True, slots=True)
class WriteGuard:
    """Paths in the target that the file tools must not write. `~` is the home of the target's user.

    A guard-rail instead of a security boundary: only the file tools check it. Each write checks its path in the same
    step.
    """

    denied: tuple[str, ...]
    """Protected files and directory trees."""
    safe_root: str | None
    """The only directory tree that may be written; None is everywhere."""

    @classmethod
    def of(cls, settings: EnvironmentSettings) -> WriteGuard:
        """Return the guard of an environment's settings."""
        own = str((hermes_home() / CONFIG_FILE).absolute())
        root = settings.write_safe_root
        denied = tuple(map(posixpath.normpath, (*settings.write_denylist, own)))
        return cls(denied, posixpath.normpath(root) if root else None)

    def refusal(self, kind: str, number: int = 0) -> str:
        """Return the reason of a refused write.

        Args:
            kind: `denied`; `outside` of the safe root; `rootless`, if the safe root is not a directory; or `lost`, if
                the real path cannot be determined.
            number: Index of the denied path in the list, from 1.
        """
        if kind == "denied":
            which = self.denied[number - 1] if 0 < number <= len(self.denied) else "it"
            return f"{which} is in the setting write_denylist"
        if kind == "outside":
            return f"it is not below {self.safe_root}, which the setting write_safe_root allows alone"
        if kind == "rootless":
            return f"the setting write_safe_root names {self.safe_root}, which is not a directory of the target"
        return "a link on its way leads nowhere, or '..' stands behind a directory that is not there"
