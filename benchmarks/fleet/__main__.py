"""`python -m benchmarks.fleet`: run all fleets, and write their section of docs/many-environments.md."""

from __future__ import annotations

import sys

from benchmarks.fleet import page
from benchmarks.fleet.survey import Survey

if __name__ == "__main__":
    page.write(page.read() if sys.argv[1:] == ["page"] else Survey.measure())
