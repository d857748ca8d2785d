from __future__ import annotations

import copy
import dataclasses
import os
import pickle
from pathlib import Path

import pytest

from environments import EnvironmentSettings, SettingsError, load_settings
from environments.docker import DockerSettings
from environments.local import LocalSettings
from environments.registry import BUILT_IN
from environments.settings import RESOURCE_SETTINGS, hermes_home
from environments.sources import read_config_section

PASSWORD = "correct-horse"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a settings directory for the test, and unset all TERMINAL_ variables."""
    for name in list(os.environ):
        if name.startswith("TERMINAL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path


def write_config(home: Path, text: str) -> Path:
    path = home / "config.yaml"
    path.write_text(text)
    return path


def refusal(backend: str | None = None, **overrides: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(backend, **overrides)
    return str(caught.value)


def test_without_any_source_the_defaults_hold() -> None:
    settings = load_settings()
    assert settings == EnvironmentSettings(own=LocalSettings())
    assert (settings.env, settings.timeout, settings.lifetime_seconds) == ("local", 180, 300)
    assert settings.persistent_shell
    assert settings.max_output_bytes == 10_000_000


def test_a_variable_overrides_the_file_and_an_argument_overrides_both(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(home, "terminal:\n  timeout: 1\n  cwd: /file\n  docker_image: from-file\n")
    monkeypatch.setenv("TERMINAL_TIMEOUT", "2")
    monkeypatch.setenv("TERMINAL_CWD", "/variable")
    settings = load_settings("docker", timeout=3)
    assert (settings.timeout, settings.cwd, settings.docker.image) == (3, "/variable", "from-file")


def test_the_file_may_name_the_backend_env_or_backend(home: Path) -> None:
    write_config(home, "terminal:\n  backend: docker\n")
    assert load_settings().env == "docker"
    write_config(home, "terminal:\n  env: ssh\n")
    assert load_settings().env == "ssh"


def test_the_file_may_not_name_the_backend_twice(home: Path) -> None:
    write_config(home, "terminal:\n  env: ssh\n  backend: docker\n")
    assert "terminal.backend: terminal.env is there too" in refusal()


@pytest.mark.usefixtures("without_collector")
def test_a_variable_that_is_nested_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_DOCKER_VOLUMES", "[" * 50_000)
    assert "it should be JSON" in refusal("docker")


def test_a_blank_value_in_the_file_is_not_set(home: Path) -> None:
    for text in ("", "# nothing\n", "terminal:\n", "terminal: {timeout: }\n"):
        write_config(home, text)
        assert load_settings() == EnvironmentSettings(own=LocalSettings())


def test_a_malformed_file_is_refused_with_its_path(home: Path) -> None:
    for text, reason in (
        (b"terminal: [\n", "is not valid YAML at line 2, column 1"),
        (b"- terminal\n", "it should be a mapping of names to values, not a list"),
        (b"terminal: local\n", "terminal: it should be a mapping of names to values, not a str"),
        (b"terminal: {1: 2}\n", "terminal: the key 1 should be text"),
        (b"terminal: \xff\xfe", "config.yaml: is not UTF-8 text"),
    ):
        (home / "config.yaml").write_bytes(text)
        message = refusal()
        assert message.startswith(str(home / "config.yaml")) and reason in message
    (home / "config.yaml").unlink()
    (home / "config.yaml").mkdir()
    assert "config.yaml: is a directory; put a file of YAML in its place" in refusal()


def test_malformed_yaml_is_reported_without_quoting_the_line(home: Path) -> None:
    write_config(home, f'terminal:\n  ssh_password: "{PASSWORD}\n')
    assert PASSWORD not in refusal()


def test_a_value_of_the_wrong_kind_is_refused_with_its_key_and_the_allowed_values() -> None:
    for key, value, allowed in (
        ("timeout", "soon", "it should be a number"),
        ("timeout", True, "it should be a number"),
        ("timeout", -1, "should be greater than 0"),
        ("timeout", float("nan"), "should be greater than 0"),
        ("max_output_bytes", 1.5, "it should be a whole number"),
        ("container_memory", -5, "should be greater than or equal to 0"),
        ("ssh_port", 70000, "should be less than or equal to 65535"),
        ("persistent_shell", "perhaps", "it should be true or false"),
        ("docker_volumes", "a:b", "it should be a list"),
        ("docker_volumes", ["a:b", 3], "[1] it should be text"),
        ("docker_env", ["A=1"], "it should be a mapping"),
        ("cwd", 3, "it should be text"),
        ("cwd", "", "is empty"),
        ("init_files", ["setup.sh"], "[0] it should be a path from the root (/...) or from the home directory (~/...)"),
        ("write_safe_root", "work", "it should be a path from the root"),
    ):
        prefix = key.partition("_")[0]
        message = refusal(prefix if prefix in ("docker", "ssh") else None, **{key: value})
        assert message.startswith(f"argument {key}: ") and allowed in message


def test_a_wrong_value_is_refused_also_when_another_source_replaces_it(home: Path) -> None:
    write_config(home, "terminal: {timeout: soon}\n")
    assert "terminal.timeout" in refusal(timeout=3)


def test_an_unknown_key_is_refused_with_the_nearest_name(home: Path) -> None:
    assert "argument timout: no such setting of backend 'local' (did you mean 'timeout'?)" in refusal(timout=3)
    path = write_config(home, "terminal: {docker_imag: x}\n")
    assert f"{path}, terminal.docker_imag: no such setting of backend 'docker' (did you mean 'image'?)" in refusal(
        "docker"
    )
    path = write_config(home, "terminal: {dokcer_image: x}\n")
    assert (
        f"{path}, terminal.dokcer_image: no such setting of backend 'local' (did you mean 'docker_image'?)" in refusal()
    )


def test_an_unknown_backend_is_refused_with_its_source_and_the_nearest_name(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "argument backend: unknown backend 'dokcer' (did you mean 'docker'?)" in refusal("dokcer")
    path = write_config(home, "terminal: {backend: lokal}\n")
    assert f"{path}, terminal.backend: unknown backend 'lokal' (did you mean 'local'?)" in refusal()
    monkeypatch.setenv("TERMINAL_ENV", "shh")
    assert "variable TERMINAL_ENV: unknown backend 'shh' (did you mean 'ssh'?)" in refusal()
    monkeypatch.setenv("TERMINAL_ENV", "")
    assert "variable TERMINAL_ENV: it should be the name of a backend" in refusal()


def test_a_truth_value_has_several_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    spellings = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "NO"), False)
    for text, value in spellings.items():
        monkeypatch.setenv("TERMINAL_CONTAINER_PERSISTENT", text)
        assert load_settings().container_persistent is value, text


def test_lists_and_mappings_are_json_in_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_DOCKER_VOLUMES", '["/a:/b", "/c:/d:ro"]')
    monkeypatch.setenv("TERMINAL_DOCKER_ENV", '{"A": "1"}')
    settings = load_settings("docker")
    assert settings.docker.volumes == ("/a:/b", "/c:/d:ro")
    assert settings.docker.env == {"A": "1"}


def test_a_list_that_is_not_json_is_refused_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_DOCKER_VOLUMES", "/a:/b")
    assert refusal("docker") == 'variable TERMINAL_DOCKER_VOLUMES: it should be JSON, such as ["a", "b"]'


def test_variables_of_other_programs_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_EMULATOR", "JetBrains-JediTerm")
    monkeypatch.setenv("TERMINAL_OPTIONS", "wide")
    monkeypatch.setenv("TERMINAL_", "")
    assert load_settings() == EnvironmentSettings(own=LocalSettings())


def test_an_unknown_variable_close_to_a_setting_is_refused() -> None:
    for name in ("TERMINAL_DOCKER_IMAG", "TERMINAL_CONTAINER_GPU", "TERMINAL_TIMOUT"):
        with pytest.MonkeyPatch.context() as variables:
            variables.setenv(name, "1")
            assert f"variable {name}: no such setting" in refusal("docker")


def test_the_backends_own_prefix_may_be_left_out() -> None:
    settings = load_settings("ssh", host="h", user="u", port=2222, key=Path("/keys/id"))
    assert (settings.ssh.host, settings.ssh.user, settings.ssh.port, settings.ssh.key) == (
        "h",
        "u",
        2222,
        "/keys/id",
    )
    assert load_settings("docker", image="x", cwd="/src").docker.image == "x"


def test_env_as_an_argument_names_the_backend() -> None:
    assert load_settings(env="docker", image="x").docker.image == "x"
    assert "the backend is already given as 'local'" in refusal("local", env="docker")


def test_a_prefix_is_not_left_out_for_another_backend() -> None:
    assert "argument host: no such setting of backend 'docker' (did you mean 'ssh_host'?)" in refusal(
        "docker", host="h"
    )


def test_one_setting_given_under_both_names_is_refused() -> None:
    assert "image is given twice" in refusal("docker", image="x", docker_image="y")


def test_an_argument_of_none_means_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_TIMEOUT", "7")
    assert load_settings(timeout=None, env=None).timeout == 7


def test_a_secret_comes_from_a_variable_and_never_from_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_SSH_PASSWORD", PASSWORD)
    password = load_settings("ssh").ssh.password
    assert password is not None
    assert password.get_secret_value() == PASSWORD
    write_config(home, f"terminal: {{ssh_password: {PASSWORD}}}\n")
    message = refusal("ssh")
    assert "set TERMINAL_SSH_PASSWORD instead" in message
    assert PASSWORD not in message


def test_no_secret_shows_in_a_repr_or_an_error() -> None:
    for settings in (load_settings("ssh", password=PASSWORD), load_settings("docker", env={"API_KEY": PASSWORD})):
        assert PASSWORD not in repr(settings)
        assert PASSWORD not in str(settings)
    assert PASSWORD not in refusal("ssh", password=[PASSWORD])
    assert PASSWORD not in refusal("ssh", timeout=PASSWORD)


def test_settings_can_be_pickled_and_not_changed() -> None:
    for settings in (load_settings("ssh", host="h", password=PASSWORD), load_settings("docker", env={"A": "1"})):
        assert pickle.loads(pickle.dumps(settings)) == settings
        assert copy.deepcopy(settings).own == settings.own
        with pytest.raises(dataclasses.FrozenInstanceError):
            settings.own.user = "x"  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.timeout = 1  # type: ignore[misc]


def test_wrong_settings_of_a_backend_that_is_not_in_use_have_no_effect(home: Path) -> None:
    for name in ("DOCKER_VOLUMES", "DOCKER_VOLUME", "SSH_PORT", "MODAL_ENV", "DAYTONA_NETWORK"):
        key = name.lower()
        write_config(home, f"terminal: {{{key}: [wrong, 1]}}\n")
        with pytest.MonkeyPatch.context() as variables:
            variables.setenv(f"TERMINAL_{name}", "{wrong")
            assert load_settings() == load_settings(**{key: object()}) == EnvironmentSettings(own=LocalSettings())
            assert key in refusal(key.partition("_")[0]).lower()


def test_the_settings_of_another_backend_are_not_there() -> None:
    settings = load_settings("ssh", host="h", docker_image="x")
    with pytest.raises(AttributeError, match="these are settings of backend 'ssh'"):
        settings.docker  # noqa: B018
    with pytest.raises(SettingsError, match="those of backend 'ssh'"):
        DockerSettings.of(settings)


def test_a_backend_has_its_name_as_the_prefix_of_its_settings() -> None:
    assert [backend for backend in BUILT_IN if load_settings(backend).own.prefix != f"{backend}_"] == []


def test_hermes_home_is_in_the_users_home_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hermes_home() == tmp_path / ".hermes"
    assert read_config_section("terminal") == ({}, str(tmp_path / ".hermes" / "config.yaml"))


def test_no_backend_refuses_a_limit_of_zero() -> None:
    needed = {"ssh": {"ssh_host": "here"}, "daytona": {"daytona_snapshot": "mine"}}
    for backend in BUILT_IN:
        settings = load_settings(backend, **dict.fromkeys(RESOURCE_SETTINGS, 0), **needed.get(backend, {}))
        settings.own.check(settings)


def test_the_file_may_leave_out_the_prefix_of_the_backend_that_it_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(home, "terminal: {backend: docker, image: x, volumes: ['/a:/b'], env: {A: 1}, ssh_host: there}\n")
    for settings in (load_settings(), load_settings("docker")):
        assert (settings.docker.image, settings.docker.volumes, settings.docker.env) == ("x", ("/a:/b",), {"A": "1"})
    ssh = load_settings("ssh")
    assert (ssh.env, ssh.ssh.host) == ("ssh", "there"), "image is that of the file's backend"
    monkeypatch.setenv("TERMINAL_ENV", "singularity")
    assert load_settings().singularity.image is None
    write_config(home, "terminal: {image: x}\n")
    assert load_settings("singularity").singularity.image == "x"


def test_a_short_name_in_the_file_that_the_backend_lacks_is_refused(home: Path) -> None:
    write_config(home, "terminal: {image: x}\n")
    assert "backends docker, singularity, modal, daytona have it: name one of them" in refusal("local")
    write_config(home, "terminal: {backend: docker, image: x, docker_image: y}\n")
    assert "image is there under two names; keep one" in refusal()
    write_config(home, f"terminal: {{backend: ssh, password: {PASSWORD}}}\n")
    assert "terminal.password: secrets are not read from a file; set TERMINAL_SSH_PASSWORD instead" in refusal()
    write_config(home, "terminal: {env: {A: b}}\n")
    assert "terminal.env: it should be the name of a backend" in refusal()


def test_suggestions_include_short_names(home: Path) -> None:
    for backend, written, meant in (
        ("docker", "imge", "image"),
        ("docker", "docker_imge", "image"),
        ("ssh", "key_file", "key"),
        ("ssh", "kye", "key"),
        ("local", "bakend", "backend"),
    ):
        assert f"argument {written}: no such setting of backend {backend!r} (did you mean {meant!r}?)" in refusal(
            backend, **{written: "x"}
        )
    write_config(home, "terminal: {bakend: docker}\n")
    assert "terminal.bakend: no such setting of backend 'local' (did you mean 'backend'?)" in refusal()
    with pytest.MonkeyPatch.context() as variables:
        write_config(home, "")
        variables.setenv("TERMINAL_DOCKER_IMGE", "x")
        assert (
            "variable TERMINAL_DOCKER_IMGE: no such setting of backend 'docker' (did you mean TERMINAL_DOCKER_IMAGE?)"
            in (refusal("docker"))
        )


def test_a_wrong_backend_or_env_in_the_file_is_a_settings_error(home: Path) -> None:
    write_config(home, "terminal: {backend: [docker], cwd: /tmp}\n")
    assert "terminal.backend: it should be the name of a backend" in refusal()
    assert "terminal.backend: it should be text" in refusal("local")
    write_config(home, "terminal: {backend: ssh, env: {A: b}}\n")
    assert "env is there under two names" in refusal()
