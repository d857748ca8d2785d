"""The setting `over`: the backend that leads to the engine's machine."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from environments import SettingsError, UnsupportedError, create_environment, load_settings

Configure = Callable[[str], None]


@pytest.fixture(autouse=True)
def _nothing_configured(configure: Configure) -> None:
    """Hide the configuration of this machine."""


def test_the_settings_of_both_backends_hold(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("terminal: {backend: docker, over: ssh, ssh_host: from-file, ssh_port: 1, docker_image: some}")
    monkeypatch.setenv("TERMINAL_SSH_PORT", "2")
    settings = load_settings(ssh_user="me")
    assert (settings.env, settings.over, settings.docker.image) == ("docker", "ssh", "some")
    assert (settings.ssh.host, settings.ssh.port, settings.ssh.user) == ("from-file", 2, "me")
    for again in (pickle.loads(pickle.dumps(settings)), copy.deepcopy(settings)):
        assert again == settings


def test_a_wrong_value_of_over_is_refused_with_the_allowed_values() -> None:
    for backend in ("docker", "singularity"):
        for over in ("shh", "docker", "local", "nowhere"):
            with pytest.raises(SettingsError, match=f"over: '{over}' does not lead .* allowed: ssh"):
                create_environment(backend, over=over)


def test_a_backend_without_an_engine_refuses_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in ("local", "bubblewrap", "ssh", "modal", "daytona"):
        monkeypatch.setenv("TERMINAL_ENV", backend)
        monkeypatch.delenv("TERMINAL_OVER", raising=False)
        with pytest.raises(UnsupportedError, match=f"{backend!r} has no engine .* use docker or singularity"):
            create_environment(over="ssh")
        monkeypatch.setenv("TERMINAL_OVER", "ssh")
        with pytest.raises(UnsupportedError, match="variable TERMINAL_OVER"):
            create_environment()


def test_settings_that_mean_this_machine_are_refused() -> None:
    for source in ("~/files", "./files"):
        with pytest.raises(SettingsError, match="absolute path there"):
            create_environment("docker", over="ssh", ssh_host="there", volumes=[f"{source}:/files"])
    for name in ("docker_mount_cwd_to_workspace", "docker_run_as_host_user"):
        with pytest.raises(UnsupportedError, match=f"what {name.removeprefix('docker_')} asks for"):
            create_environment("docker", over="ssh", ssh_host="there", **{name: True})


def test_over_of_a_configured_backend_does_not_hold_for_a_backend_in_code(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_misspelt_setting_or_a_secret_in_the_file_of_the_other_backend_is_refused(configure: Configure) -> None:
    with pytest.raises(SettingsError, match="did you mean 'ssh_host'"):
        create_environment("docker", over="ssh", ssh_hots="somewhere")
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
