"""The section `code_execution:` of config.yaml."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from code_execution.settings import load_code_execution_settings


def test_a_setting_that_is_gone_is_passed_over_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setattr("environments.log._warned", set())
    for value in ("auto", "off", "of", "5", "{a: b}"):
        (tmp_path / "config.yaml").write_text(f"code_execution: {{warm: {value}, timeout: 7}}\n")
        assert load_code_execution_settings().timeout == 7
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith(f"{tmp_path}/config.yaml, code_execution.warm: passed over: there is no such setting")
