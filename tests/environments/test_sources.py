"""Reading of config.yaml: misspelt names, sections of settings, and hostile documents."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from code_execution.settings import CodeExecutionSettings, load_code_execution_settings
from environments import SettingsError, create_environment, load_settings
from environments.approvals.settings import ApprovalSettings
from environments.sources import SECTIONS, read_mapping
from environments.validation import setting_names
from hermes_tools.web.settings import WebSettings, load_web_settings

SLIPS = {
    "terminl": "terminal",
    "terminals": "terminal",
    "Terminal": "terminal",
    "termianl": "terminal",
    "code-execution": "code_execution",
    "codeexecution": "code_execution",
    "approval": "approvals",
    "securty": "security",
    "WEB": "web",
}
OTHERS = ("model", "display", "terminal_ui", "browser", "memory", "skills", "command_allowlist", "_config_version")
"""Sections of hermes-agent, a reader of the same file, and of other programs."""


def test_a_misspelt_section_is_an_error_that_names_the_right_one(configure: Callable[[str], None]) -> None:
    accepted = []
    for slip, meant in SLIPS.items():
        configure(f"{slip}:\n  env: docker\n")
        try:
            load_settings()
        except SettingsError as error:
            if f"{slip!r} (did you mean {meant!r}?)" in str(error):
                continue
        accepted.append(slip)
    assert accepted == []


def test_no_command_runs_on_this_machine_for_a_misspelt_section(configure: Callable[[str], None]) -> None:
    configure("terminl:\n  env: docker\n")
    with pytest.raises(SettingsError, match="terminl"):
        create_environment()


def test_sections_of_other_programs_are_left_alone(configure: Callable[[str], None]) -> None:
    configure("".join(f"{name}:\n  env: docker\n" for name in OTHERS) + "terminal: {cwd: /tmp}\n")
    assert load_settings().cwd == "/tmp"


def test_a_setting_outside_of_its_section_is_an_error_that_names_the_section(configure: Callable[[str], None]) -> None:
    accepted = []
    for text, reason in (
        ("write_denylist: ['/x']", "write_denylist: has no effect there; write it in the section terminal"),
        (
            "write_denylst: ['/x']",
            "has no effect there (did you mean 'write_denylist'?); write it in",
        ),
        ("approvals: {mode: manual}\ndeny: [curl]", "deny: has no effect there; write it in the section approvals"),
        ("terminal:\nenv: docker", "env: has no effect there; write it in the section terminal"),
        ("docker_image: python:3.12-slim", "docker_image: has no effect there; write it in the section terminal"),
        ("terminal:\nbackend: docker", "backend: has no effect there; write it in the section terminal"),
        ("terminal: {backend: docker}\nnetwork: none", "network: has no effect there; write it in the section"),
        ("sandbox: bubblewrap", "sandbox: has no effect there; write it in the section terminal"),
        ("commands: deny", "commands: has no effect there; write it in the section approvals"),
        ("timeout: 5", "the section terminal or approvals or code_execution or web"),
        ("approval:\n  deny: [curl]", "no such section 'approval' (did you mean 'approvals'?)"),
        ("approvals:", "approvals: has nothing in it; indent the rules below it, or remove the line"),
        ("approvals:\ndeny: [curl]", "approvals: has nothing in it"),
        ("approvals: {denny: [curl]}", "approvals.denny: no such setting (did you mean 'deny'?)"),
        ("approvals: {write_denylist: ['/x']}", "approvals.write_denylist: is a setting of the section terminal"),
        ("approvals: deny", "approvals: it should be a mapping of names to values, not a str"),
        ("terminal: {destructive_commands: deny}", "it is one of the section approvals of config.yaml"),
        ("terminal: {denylist: ['/x']}", "did you mean 'write_denylist'?"),
        (
            "security: {write_denylist: ['/x']}",
            "security.write_denylist: has no effect there",
        ),
        ("security: {deny: [curl]}", "security.deny: has no effect there; write it in the section approvals"),
        ("tools: {write_denylist: ['/x']}", "tools.write_denylist: has no effect there"),
        ("terminal: {tirith_path: x}\nsecurity: [x]\nsandbox_paths: [/a]", "sandbox_paths: has no effect there"),
    ):
        configure(text + "\n")
        try:
            create_environment("local")
        except SettingsError as error:
            if reason in str(error):
                continue
            accepted.append((text, str(error)))
        else:
            accepted.append((text, ""))
    assert accepted == []


def test_a_key_unlike_any_setting_is_ignored_with_one_warning(
    configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("environments.log._warned", set())
    monkeypatch.setenv("TERMINAL_DOCKER_COLOUR", "blue")
    configure("terminal: {emulator: moonshine, timeout: 7}\ncode_execution: {kettle: 1}\nweb: {kettle: 1}\n")
    for _ in range(2):
        assert load_settings("docker").timeout == 7
        load_code_execution_settings()
        load_web_settings()
    reason = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(reason) == 4
    for name in ("terminal.emulator", "code_execution.kettle", "web.kettle", "TERMINAL_DOCKER_COLOUR"):
        (warning,) = [text for text in reason if name in text]
        assert "passed over: there is no such setting" in warning and "moonshine" not in warning


def test_a_short_name_at_the_top_level_is_ignored_with_a_warning(
    configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("user: moonshine", "port: 80", "env: production", "key: [a]", "image: moonshine", "mode: fast"):
        monkeypatch.setattr("environments.log._warned", set())
        caplog.clear()
        configure(f"{text}\nterminal: {{timeout: 7}}\n")
        for _ in range(2):
            assert load_settings("docker").timeout == 7
        (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert f"config.yaml, {text.partition(':')[0]}: passed over: " in warning and "moonshine" not in warning
        assert "belongs in the section " in warning


def test_a_config_that_is_no_regular_file_is_refused_at_once(configure: Callable[[str], None], tmp_path: Path) -> None:
    path = tmp_path / "home" / "config.yaml"
    for make, kind in (
        (lambda: os.mkfifo(path), "FIFO"),
        (path.mkdir, "directory"),
        (lambda: path.symlink_to("/dev/null"), "device"),
    ):
        make()
        with pytest.raises(SettingsError, match=f"config.yaml: is a {kind}; put a file of YAML in its place"):
            create_environment()
        path.rmdir() if kind == "directory" else path.unlink()


def test_the_sections_here_have_the_keys_of_their_classes() -> None:
    for section, model in (
        ("approvals", ApprovalSettings),
        ("code_execution", CodeExecutionSettings),
        ("web", WebSettings),
    ):
        assert sorted(SECTIONS[section]) == sorted(setting_names(model))


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


def test_a_section_is_read_whatever_the_others_hold() -> None:
    document = read_mapping("ours: {a: 1}\nother: {when: 2020-99-99, x: 1, x: 2}\n", "file")
    assert document.value("ours") == {"a": 1}
    assert document.value("missing") is None


def test_aliases_and_merges_are_followed() -> None:
    document = read_mapping("base: &b {a: 1}\nours: {<<: *b, c: [*b, *b]}\n", "file")
    assert document.value("ours") == {"a": 1, "c": [{"a": 1}, {"a": 1}]}


def test_a_deep_document_is_refused_before_it_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    fetch = yaml.SafeLoader.fetch_more_tokens
    monkeypatch.setattr(yaml.SafeLoader, "fetch_more_tokens", lambda self: read.append(1) or fetch(self))
    for text in ("[" * 1500 + "]" * 1500, "{a: " * 1500 + "}" * 1500, "\n  " + "- " * 1500):
        for name in ("ours", "of_another_program"):
            with pytest.raises(SettingsError, match="nested too deeply"):
                read_mapping(f"{name}: {text}", "file")
        assert len(read) < 2500, text[:5]
        read.clear()
    assert read_mapping(f"other: {'[' * 150}{']' * 150}\nours: 1", "file").value("ours") == 1


@pytest.mark.usefixtures("without_collector")
def test_a_wrong_or_too_large_document_is_a_short_error() -> None:
    for text, reason in (
        (f"{BOMB}ours: *h", "with its aliases it has more than 50,000 values"),
        ("ours: &a [*a]", "holds itself"),
        ("ours: {x: 1, x: 2}", "the key at line 1, column 14 is there twice"),
        ("ours: 1\nours: 2", "the key ours at line 2, column 7 is there twice"),
        (f"ours: {'[' * 60}{']' * 60}", "more than 50 collections are in each other"),
        (f"ours: {'[' * 1000}", "nested too deeply"),
        ("ours: 2020-99-99", "a value does not fit its type"),
        ("ours: !!bool maybe", "a value does not fit its type"),
        ("ours: !!timestamp never", "a value does not fit its type"),
        ("ours: !!int ''", "a value does not fit its type"),
        (f"ours: {'9' * 10_000}", "a value does not fit its type"),
        ("ours: {[1]: 2}", "is not valid YAML"),
        ("ours: !!python/object:os.system x", "is not valid YAML"),
        ("ours: *missing", "is not valid YAML"),
        ("1: 2", "should be text"),
        ("- ours", "not a list"),
        ("just text", "not a text"),
        ("ours: 1\n---\nours: 2", "is not valid YAML"),
        (f"ours: {'x' * 1_000_001}", "longer than 1,000,000 characters"),
    ):
        with pytest.raises(SettingsError, match=f"^file.*{reason}") as caught:
            read_mapping(text, "file").value("ours")
        assert len(str(caught.value)) < 300
