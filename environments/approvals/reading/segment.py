"""A simple command as it has been read, before it is expanded."""

from __future__ import annotations

from dataclasses import dataclass, field

from environments.approvals.reading.tokens import HereDocument, RawWord


@dataclass(slots=True)
class Segment:
    """What has been read of a simple command."""

    words: list[RawWord] = field(default_factory=list)
    redirects: list[tuple[str, RawWord]] = field(default_factory=list)
    documents: list[HereDocument] = field(default_factory=list)
    pending: str = ""
    """A redirection that waits for its target."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to run."""
        return not (self.words or self.redirects or self.documents)
