"""A config.yaml of hermes-agent 0.19.0, and its variables, work unchanged."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from code_execution.settings import CodeExecutionSettings, load_code_execution_settings
from environments import (
    DeniedError,
    EnvironmentSettings,
    SettingsError,
    UnsupportedError,
    create_environment,
    load_settings,
)
from environments.approvals.settings import ApprovalSettings
from environments.factory import load_approval_settings
from environments.legacy import DEFAULT_LIMITS, HERMES_AGENT_SETTINGS
from environments.registry import BUILT_IN, backend_settings_class
from environments.settings import RESOURCE_SETTINGS
from environments.validation import setting_names
from hermes_tools.web.settings import WebSettings, load_web_settings

# The sections that this package reads, and the names of all others.
WHOLE = (Path(__file__).parents[2] / "tests/environments/hermes_agent_config.yaml").read_text()
OURS = ("terminal", "code_execution", "approvals", "web")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `HERMES_HOME`, no variables, and a process without earlier warnings."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    for name in os.environ:
        if name.startswith("TERMINAL_"):
            monkeypatch.delenv(name)
    forget_warnings(monkeypatch)
    return tmp_path


def forget_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.log._warned", set())


def write_config(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_a_whole_config_is_read_with_one_warning_for_each_key_that_has_nothing_here(
    home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {f"{section}.{key}": value for section in OURS for key, value in yaml.safe_load(WHOLE)[section].items()}
    assert there.keys() <= {older.name for older in HERMES_AGENT_SETTINGS}
    passed_over = [
        older.name
        for older in HERMES_AGENT_SETTINGS
        if not older.is_unset(there.get(older.name)) and (not older.here or older.name == "approvals.mode")
    ]
    monkeypatch.setenv("TERMINAL_SSH_HOST", "somewhere")
    for backend in BUILT_IN:
        write_config(home, WHOLE.replace("backend: local", f"backend: {backend}", 1))
        forget_warnings(monkeypatch)
        for _ in range(2):
            settings = load_settings()
            settings.own.check(settings)
            load_code_execution_settings()
            load_approval_settings()
            load_web_settings()
        assert settings.env == backend
        said = warnings_of(caplog)
        named = [found[1] for text in said if (found := re.search(r"config\.yaml, (\w+\.\w+)", text))]
        assert sorted(named) == sorted(passed_over), backend
        limits = [text for text in said if "does not enforce" in text]
        assert len(said) == len(named) + len(limits)
        assert len(limits) == (backend in ("local", "bubblewrap", "ssh", "modal", "daytona"))


def test_the_values_of_a_whole_config_hold(home: Path) -> None:
    write_config(home, WHOLE.replace("backend: local", "backend: docker", 1))
    settings = load_settings()
    assert settings.docker.image == "nikolaik/python-nodejs:python3.11-nodejs20"
    assert (settings.container_cpu, settings.container_memory, settings.container_disk) == (1, 5120, 51200)
    assert settings.cwd is None
    assert settings.container_persistent
    assert load_code_execution_settings().mode == "project"
    assert load_web_settings().extract_char_limit == 15000
    approvals = load_approval_settings()
    assert approvals and (approvals.timeout, approvals.destructive_commands) == (60, "allow")


def test_commands_run_with_a_whole_config(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_config(home, WHOLE)
    with create_environment() as env:
        assert env.execute("rm -rf nothing; echo here").output == "here\n"
        assert env.execute("echo again").output == "again\n"
    said = warnings_of(caplog)
    assert len(said) == len(set(said)) > 5


def test_files_of_shells_are_sourced_on_this_machine(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OWN", str(tmp_path))
    for name in ("rc", ".profile", ".bash_profile", ".bashrc"):
        (tmp_path / name).write_text(f"export SEEN=${{SEEN:+$SEEN }}{name}\n")
    for text, wanted in (
        ("shell_init_files: ['~/rc', /no/such]", "rc"),
        ("shell_init_files: ['${OWN}/rc'], auto_source_bashrc: true", "rc"),
        ("shell_init_files: [], auto_source_bashrc: true", ".profile .bash_profile .bashrc"),
        ("auto_source_bashrc: true, init_files: ['~/rc']", "rc"),
        ("auto_source_bashrc: false", ""),
    ):
        write_config(home, f"terminal: {{{text}}}\n")
        with create_environment("local") as env:
            assert env.execute("echo $SEEN").output == f"{wanted}\n", text
    assert warnings_of(caplog) == []


def test_files_of_shells_on_this_machine_are_not_those_of_other_targets(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_config(home, "terminal: {shell_init_files: [~/rc], auto_source_bashrc: true}\n")
    assert load_settings("docker").init_files == ()
    assert warnings_of(caplog) == []


def test_every_variable_is_understood_or_passed_over_once(
    home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for older in (older for older in HERMES_AGENT_SETTINGS if older.variable):
        backend = older.backend or next((name for name in BUILT_IN if older.key.startswith(f"{name}_")), "docker")
        forget_warnings(monkeypatch)
        with pytest.MonkeyPatch.context() as variables:
            variables.setenv(older.variable, _EXAMPLES.get(older.key, "true"))
            for _ in range(2):
                load_settings(None if older.key == "backend" else backend)
        said = warnings_of(caplog)
        assert said == ([] if older.here else [f"variable {older.variable}: passed over: {older.note}"])


_EXAMPLES = {
    "backend": "docker",
    "timeout": "7",
    "lifetime_seconds": "7",
    "docker_volumes": '["/a:/b"]',
    "docker_env": '{"A": 1}',
    "docker_forward_env": "[]",
    "docker_extra_args": "[]",
    "ssh_port": "22",
    "container_cpu": "2",
    "container_memory": "7",
    "container_disk": "7",
}


def test_the_warning_is_on_standard_error_of_the_command_line(home: Path) -> None:
    write_config(home, "terminal: {modal_mode: managed}\n")
    done = subprocess.run(
        [sys.executable, "-m", "hermes_env", "exec", "--", "echo here"],
        env={**os.environ, "HERMES_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "here\n"
    assert done.stderr.count("terminal.modal_mode: passed over") == 1


def test_the_secret_of_an_ignored_key_is_not_shown(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_config(home, "terminal: {sudo_password: moonshine}\n")
    load_settings()
    (said,) = warnings_of(caplog)
    assert "terminal.sudo_password: passed over" in said
    assert "moonshine" not in said


def test_a_misspelt_name_is_an_error_all_the_same(home: Path) -> None:
    for key in ("modal_mod", "shell_init_file", "persistent_shel", "timout"):
        write_config(home, f"terminal: {{{key}: auto}}\n")
        with pytest.raises(SettingsError, match=f"terminal.{key}: no such setting"):
            load_settings("modal")


def test_a_placeholder_for_the_working_directory_sets_none(home: Path) -> None:
    for cwd in (".", "auto", "cwd", ""):
        write_config(home, f"terminal: {{cwd: '{cwd}'}}\n")
        assert load_settings("docker").cwd is None
        with pytest.MonkeyPatch.context() as variables:
            variables.setenv("TERMINAL_CWD", cwd)
            assert load_settings("docker").cwd is None


def test_an_empty_text_is_not_set_and_gives_way_to_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(home, "terminal: {ssh_user: '', ssh_key: '', ssh_host: there, timeout: ''}\nweb: {backend: ''}\n")
    monkeypatch.setenv("TERMINAL_SSH_HOST", "")
    monkeypatch.setenv("TERMINAL_SSH_PORT", "")
    settings = load_settings("ssh")
    assert (settings.ssh.host, settings.ssh.user, settings.ssh.key, settings.timeout) == ("there", None, None, 180)
    assert load_web_settings().search_provider is None


def test_the_backend_goes_by_an_older_name_too(home: Path) -> None:
    write_config(home, "terminal: {env_type: docker}\n")
    assert load_settings().env == "docker"
    write_config(home, "terminal: {env_type: docker, backend: ssh}\n")
    assert load_settings().env == "ssh"


def test_lists_and_mappings_may_be_json_in_the_file_and_hold_numbers(home: Path) -> None:
    write_config(
        home,
        "terminal:\n  docker_volumes: '[\"/a:/b\"]'\n  docker_forward_env: [A]\n"
        "  docker_env: {PORT: 80, RATE: 0.5, DEBUG: true}\n  container_persistent: 'true'\n  timeout: '90'\n",
    )
    settings = load_settings("docker")
    assert settings.docker.volumes == ("/a:/b",)
    assert settings.docker.forward_env == ("A",)
    assert settings.docker.env == {"PORT": "80", "RATE": "0.5", "DEBUG": "True"}
    assert (settings.container_persistent, settings.timeout) == (True, 90)


def test_a_shell_that_persists_on_one_backend_is_one_that_persists(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in ("ssh", "local"):
        monkeypatch.setenv(f"TERMINAL_{backend.upper()}_PERSISTENT", "false")
        monkeypatch.setenv("TERMINAL_PERSISTENT_SHELL", "true")
        assert not load_settings(backend).persistent_shell
    assert load_settings("docker").persistent_shell


def test_the_mode_of_approvals_is_what_is_asked_about(home: Path) -> None:
    for mode, verdict in (("manual", "ask"), ("'off'", "allow"), ("off", "allow"), ("smart", "allow")):
        write_config(home, f"approvals: {{mode: {mode}}}\n")
        settings = load_approval_settings()
        assert (settings.destructive_commands if settings else "allow") == verdict
        write_config(home, f"approvals: {{mode: {mode}, destructive_commands: deny}}\n")
        settings = load_approval_settings()
        assert settings and settings.destructive_commands == "deny"


def test_what_is_denied_there_is_denied_here(home: Path) -> None:
    write_config(home, "approvals: {mode: 'off', timeout: 60, deny: ['git push --force*', '*DROP TABLE*']}\n")
    with create_environment() as env:
        for command in ("git push --force origin", "GIT_DIR=x git  push --force", "echo 'drop table x'"):
            with pytest.raises(DeniedError, match="a rule names it"):
                env.execute(command)
        assert env.execute("echo git push").output == "git push\n"


def test_a_search_backend_is_the_provider_of_that_name(home: Path) -> None:
    for text, provider in (
        ("backend: searxng", "searxng"),
        ("backend: brave-free", "brave"),
        ("backend: tavily, search_backend: ddgs", "ddgs"),
        ("backend: firecrawl, search_backend: ''", None),
        ("search_backend: exa, search_provider: tavily", "tavily"),
        ("search_backend: ddgs, search_provider: tavily", "tavily"),
    ):
        write_config(home, f"web: {{{text}}}\n")
        assert load_web_settings().search_provider == provider, text


def test_a_search_backend_that_is_none_here_is_passed_over(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_config(home, "web: {backend: firecrawl, use_gateway: true}\n")
    load_web_settings()
    said = "\n".join(warnings_of(caplog))
    assert "web.backend: 'firecrawl' is passed over" in said
    assert "web.use_gateway: passed over" in said


def test_our_settings_under_security_hold(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_config(home, "security: {redact_secrets: false, allow_private_urls: true, tirith_path: x}\n")
    assert not load_settings().redact_secrets
    private = load_web_settings().allow_private
    assert "10.0.0.0/8" in private
    assert not any(network.startswith("169.254.") for network in private)
    assert not warnings_of(caplog)
    write_config(
        home,
        "security: {redact_secrets: false, website_blocklist: {enabled: true}}\nterminal: {redact_secrets: true}\n",
    )
    assert load_settings().redact_secrets
    load_web_settings()
    assert "security.website_blocklist: passed over" in "".join(warnings_of(caplog))
    write_config(home, "security: [nothing, of, ours]\n")
    assert load_settings().redact_secrets


def test_the_default_limits_are_no_error_where_there_are_none(
    home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMINAL_SSH_HOST", "there")
    for source in ("file", "variables"):
        if source == "file":
            write_config(home, yaml.safe_dump({"terminal": dict(DEFAULT_LIMITS)}))
        else:
            write_config(home, "")
            for name, value in DEFAULT_LIMITS.items():
                monkeypatch.setenv(f"TERMINAL_{name.upper()}", str(value))
        for backend in ("local", "ssh"):
            forget_warnings(monkeypatch)
            for _ in range(2):
                settings = load_settings(backend)
                settings.own.check(settings)
            assert not any(getattr(settings, name) for name in RESOURCE_SETTINGS)
            (said,) = warnings_of(caplog)
            limits = "container_cpu, container_memory, container_disk"
            assert f"backend '{backend}' does not enforce {limits}" in said


def test_a_limit_that_somebody_chose_is_an_error_where_there_is_none(home: Path) -> None:
    for name in DEFAULT_LIMITS:
        write_config(home, "")
        with pytest.raises(UnsupportedError, match=name):
            create_environment("local", **{name: DEFAULT_LIMITS[name]})
        write_config(home, yaml.safe_dump({"terminal": dict(DEFAULT_LIMITS)}))
        with pytest.raises(UnsupportedError, match=name):
            create_environment("local", **{name: DEFAULT_LIMITS[name]})
        with pytest.MonkeyPatch.context() as variables:
            variables.setenv(f"TERMINAL_{name.upper()}", "2")
            with pytest.raises(UnsupportedError, match=name):
                create_environment("local")
            variables.setenv(f"TERMINAL_{name.upper()}", "0")
            create_environment("local").cleanup()


def test_default_limits_hold_where_they_can_and_a_snapshot_has_its_own(home: Path) -> None:
    write_config(home, yaml.safe_dump({"terminal": dict(DEFAULT_LIMITS)}))
    assert load_settings("docker").default_limits == DEFAULT_LIMITS.keys()
    assert load_settings("docker", container_cpu=1).default_limits == {"container_memory", "container_disk"}
    modal = load_settings("modal")
    assert (modal.container_cpu, modal.container_memory, modal.container_disk) == (1, 5120, None)
    daytona = load_settings("daytona")
    assert (daytona.container_cpu, daytona.container_memory, daytona.container_disk) == (1, 5120, None)
    snapshot = load_settings("daytona", snapshot="mine")
    snapshot.own.check(snapshot)
    assert not any(getattr(snapshot, name) for name in RESOURCE_SETTINGS)


def test_every_setting_of_the_table_exists() -> None:
    names = {f"terminal.{name}" for name in setting_names(EnvironmentSettings)} | {"terminal.backend"}
    for backend in BUILT_IN:
        own = backend_settings_class(backend)
        names |= {f"terminal.{own.prefix}{name}" for name in setting_names(own)}
    for section, model in (
        ("code_execution", CodeExecutionSettings),
        ("approvals", ApprovalSettings),
        ("web", WebSettings),
    ):
        names |= {f"{section}.{name}" for name in setting_names(model)}
    assert {older.here for older in HERMES_AGENT_SETTINGS if older.here} <= names
    assert all(
        older.note
        for older in HERMES_AGENT_SETTINGS
        if (not older.is_same and older.section != "security") or not older.here
    )
