"""The setting `over`: which backend leads to the machine that another one's engine is on."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from environments import SettingsError, UnsupportedError, create_environment, load_settings

Configure = Callable[[str], None]


@pytest.fixture(autouse=True)
def _nothing_configured(configure: Configure) -> None:
    """Keep what this machine has set out of it."""


def test_the_settings_of_both_backends_hold(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("terminal: {backend: docker, over: ssh, ssh_host: from-file, ssh_port: 1, docker_image: some}")
    monkeypatch.setenv("TERMINAL_SSH_PORT", "2")
    settings = load_settings(ssh_user="me")
    assert (settings.env, settings.over, settings.docker.image) == ("docker", "ssh", "some")
    assert (settings.ssh.host, settings.ssh.port, settings.ssh.user) == ("from-file", 2, "me")
    for again in (pickle.loads(pickle.dumps(settings)), copy.deepcopy(settings)):
        assert again == settings


@pytest.mark.parametrize("backend", ["docker", "singularity"])
@pytest.mark.parametrize("over", ["shh", "docker", "local", "nowhere"])
def test_what_leads_to_no_engine_is_refused_with_what_does(backend: str, over: str) -> None:
    with pytest.raises(SettingsError, match=f"over: '{over}' does not lead .* allowed: ssh"):
        create_environment(backend, over=over)


@pytest.mark.parametrize("backend", ["local", "ssh", "modal", "daytona"])
def test_a_backend_without_an_engine_is_had_over_nothing(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_ENV", backend)
    with pytest.raises(UnsupportedError, match=f"{backend!r} has no engine .* use docker or singularity"):
        create_environment(over="ssh")
    monkeypatch.setenv("TERMINAL_OVER", "ssh")
    with pytest.raises(UnsupportedError, match="variable TERMINAL_OVER"):
        create_environment()


def test_what_is_configured_for_one_backend_is_not_meant_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_ENV", "docker")
    monkeypatch.setenv("TERMINAL_OVER", "ssh")
    assert load_settings("local").over is None
    assert load_settings("singularity").over == "ssh"


def test_without_over_settings_of_the_other_backend_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_SSH_PORT", "none")
    assert load_settings("docker").own_over is None
    monkeypatch.setenv("TERMINAL_OVER", "ssh")
    with pytest.raises(SettingsError, match="TERMINAL_SSH_PORT"):
        load_settings("docker")


def test_a_slip_in_a_setting_of_the_other_backend_is_refused() -> None:
    with pytest.raises(SettingsError, match="did you mean 'ssh_host'"):
        create_environment("docker", over="ssh", ssh_hots="somewhere")


def test_a_secret_of_the_other_backend_is_not_read_from_the_file(configure: Configure) -> None:
    configure("terminal: {over: ssh, ssh_password: word}")
    with pytest.raises(SettingsError, match="set TERMINAL_SSH_PASSWORD instead"):
        load_settings("docker")


def test_a_host_is_needed() -> None:
    for backend in ("docker", "singularity"):
        with (
            pytest.raises(SettingsError, match="set TERMINAL_SSH_HOST"),
            create_environment(backend, over="ssh") as env,
        ):
            env.execute("true")


def test_a_password_is_only_for_the_host_that_it_is_set_for() -> None:
    own = load_settings("ssh", host="mine", user="me", password="word").ssh
    other = own.at("ssh://other:2222")
    assert (other.host, other.port, other.user, other.password) == ("other", 2222, None, None)
    mine = own.at("ssh://mine")
    assert (mine.user, mine.password) == ("me", own.password)
