"""A user's settings: in config.yaml, in variables, as arguments."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from code_execution.settings import load_code_execution_settings
from environments import SettingsError, load_settings
from environments.registry import BUILT_IN
from environments.settings import CONFIG_FILE
from fuzz.target import Target, split_seed

LONGEST_REFUSAL = 100_000
NAMES = (
    "timeout", "cwd", "env", "docker_image", "docker_volumes", "docker_env", "container_cpu", "container_disk",
    "ssh_port",
    "env_passthrough", "persistent_shell", "timout", "emulator", "volumes", "", "docker_", "modal_",
)  # fmt: skip


def check_config_file(data: bytes) -> None:
    chance, data = split_seed(data)
    with settings_home() as home:
        (home / CONFIG_FILE).write_bytes(data)
        refused = [refusal(load_settings, chance.choice((None, *BUILT_IN))), refusal(load_code_execution_settings)]
        assert all(len(text) < LONGEST_REFUSAL for text in refused)


def check_variables(data: bytes) -> None:
    chance, data = split_seed(data)
    values = data.split(b"\0")
    given = {f"TERMINAL_{chance.choice(NAMES).upper()}": os.fsdecode(value) for value in values}
    arguments = {chance.choice(NAMES): value.decode("utf-8", "replace") for value in values if chance.random() < 0.3}
    with settings_home(), mock.patch.dict(os.environ, given):
        refusal(load_settings, chance.choice((None, *BUILT_IN)), **arguments)


def refusal(load: Callable[..., object], *arguments: object, **named: object) -> str:
    """Return the reason why settings are refused, or an empty text."""
    try:
        assert load(*arguments, **named)
    except SettingsError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def settings_home() -> Iterator[Path]:
    """Make a settings directory, and remove all our variables."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("TERMINAL_")}
    with (
        tempfile.TemporaryDirectory() as home,
        mock.patch.dict(os.environ, {**others, "HERMES_HOME": home}, clear=True),
    ):
        yield Path(home)


_YAML = (
    b"terminal:\n", b"code_execution:\n", b"  timeout: 5\n", b"  cwd: ", b"  docker_volumes:\n", b"  - a\n",
    b"  docker_env: ",
    b"  env: docker\n", b"{", b"}", b"[", b"]", b": ", b"? ", b"- ", b"&a ", b"*a ", b"<<: ", b"!!bool x\n",
    b"!!int ''\n",
    b"!!timestamp x\n", b"!!binary x\n", b"!!set {a}\n", b"!!omap [a]\n", b"!!float ''\n", b"!!pairs [a]\n",
    b"!!python/object:os.system x\n", b"2001-99-99", b"1:99:99", b"0x", b"0b_", b"9" * 5000, b"[" * 100, b"\xff",
    b"--- ", b"...\n", b"%YAML 9.9\n", b"|\n", b"'", b'"', b"\\U00110000", b"\t", b"#", b"  max_tool_calls: 1e9\n",
    b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nterminal: *c\n",
)  # fmt: skip
_VALUES = (
    b"\0", b"5", b"-1", b"1e999", b"nan", b"true", b'["a:/b"]', b'{"A": "b"}', b"[" * 100_000, b"9" * 5000,
    b"docker", b"",
    b"local", b"a.b:c", b"nothing", b"\xff", b'"\\ud800"', b"~", b" ", b"os:system",
)  # fmt: skip

TARGETS = (Target(check_config_file, _YAML), Target(check_variables, _VALUES))
