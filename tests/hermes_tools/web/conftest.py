from __future__ import annotations

from targets.web_fixtures import nothing_is_configured, one_certificate, read_one, site

__all__ = ["nothing_is_configured", "one_certificate", "read_one", "site"]
