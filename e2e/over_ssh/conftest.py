from __future__ import annotations

from targets.ssh_fixtures import server

__all__ = ["server"]
