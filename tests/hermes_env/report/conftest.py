from __future__ import annotations

from targets.report_record import record, small

__all__ = ["record", "small"]
