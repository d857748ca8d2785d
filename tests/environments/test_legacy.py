"""The default config.yaml of each minor release of hermes-agent is read without an error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from code_execution.settings import load_code_execution_settings
from environments import SettingsError, load_settings
from environments.factory import load_approval_settings
from environments.registry import BUILT_IN
from environments.sources import SECTIONS
from hermes_tools.web.settings import load_web_settings

HERE = Path(__file__).parent
WHOLE = yaml.safe_load((HERE / "hermes_agent_config.yaml").read_text())
RELEASES = yaml.safe_load((HERE / "hermes_agent_releases.yaml").read_text())


def config_of(release: str) -> dict[str, Any]:
    """Return the default config.yaml of a release."""
    config = dict(WHOLE)
    for section, keys in RELEASES[release].items():
        config[section] = {**config.get(section, {}), **keys}
    return config


@pytest.mark.parametrize("release", RELEASES)
def test_the_config_of_a_release_is_read_without_an_error(
    release: str, configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("environments.log._warned", set())
    monkeypatch.setenv("TERMINAL_SSH_HOST", "there")
    for backend in BUILT_IN:
        config = config_of(release)
        config["terminal"] = {**config["terminal"], "backend": backend}
        configure(yaml.safe_dump(config))
        settings = load_settings()
        settings.own.check(settings)
        assert settings.env == backend
        load_code_execution_settings()
        load_approval_settings()
        load_web_settings()
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == len(set(warnings)) > 5
    assert not [text for text in warnings if "there is no such setting" in text], "each key of the file is in the table"


@pytest.mark.parametrize("release", RELEASES)
def test_no_section_of_a_release_is_taken_for_a_setting(release: str, configure: Callable[[str], None]) -> None:
    for name in config_of(release).keys() - SECTIONS.keys():
        for value in (None, {}, {"user": "x", "timeout": 5}, "x", 5, ["x"]):
            if isinstance(value, dict | None) or name not in (
                "network",
                "tools",
            ):  # `network` and `tools` are mappings in hermes-agent
                configure(yaml.safe_dump({name: value, "terminal": {"timeout": 7}}))
                assert load_settings("local").timeout == 7, (name, value)


def test_container_network_is_the_network_of_the_backend_in_use(configure: Callable[[str], None]) -> None:
    for value, network in (("none", "none"), ("full", "full"), (False, "none"), (["example.org"], ("example.org",))):
        configure(yaml.safe_dump({"terminal": {"container_network": value}}))
        for backend in ("docker", "singularity", "modal", "daytona"):
            assert load_settings(backend).own.network == network
        assert load_settings("local").env == "local"
    configure("terminal: {container_network: allowlist}\n")
    with pytest.raises(SettingsError, match=r"terminal\.container_network: it should be"):
        load_settings("docker")


def test_kernel_mode_has_the_values_of_hermes_agent(configure: Callable[[str], None]) -> None:
    for value, mode in (("session", "session"), ("per-call", "script"), ("", "script")):
        configure(f"code_execution: {{kernel_mode: '{value}'}}\n")
        assert load_code_execution_settings().kernel_mode == mode
    configure("code_execution: {kernel_mode: sesion}\n")
    with pytest.raises(SettingsError, match=r"code_execution\.kernel_mode: it should be 'script' or 'session'"):
        load_code_execution_settings()
