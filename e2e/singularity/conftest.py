from __future__ import annotations

from pathlib import Path

import pytest
from targets.engines import require_singularity
from targets.singularity_engine import SingularityEngine, engine_in


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SingularityEngine:
    """Return the engine, with its state in the test's own directory."""
    monkeypatch.setenv("APPTAINER_CACHEDIR", str(tmp_path / "cache"))
    monkeypatch.setenv("APPTAINER_NOHTTPS", "1")
    return engine_in(require_singularity(), tmp_path, monkeypatch)
