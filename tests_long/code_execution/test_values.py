"""A variable's value that a script may see is in none of the script's files, and in no process list."""

from __future__ import annotations

from pathlib import Path

import pytest

from code_execution import execute_code
from environments import create_environment

NAME = "OUR_TOKEN"
VALUE = "not-for-every-eye"
LOOK = f"""
import os
value, here = os.environ["{NAME}"], os.path.dirname(__file__)
def has(file):
    try: return value in open(file, errors="replace").read()
    except OSError: return False
files = [f"{{place}}/{{name}}" for place, _, names in os.walk(os.path.dirname(here)) for name in names]
files = [file for file in files if os.path.isfile(file)]
shown = [f"/proc/{{pid}}/cmdline" for pid in os.listdir("/proc") if pid.isdigit()]
print(len(files) > 2, list(filter(has, files + shown)))
"""


@pytest.mark.parametrize("transport", ["socket", "relay", "file"])
def test_a_value_that_was_allowed_is_in_no_file_and_in_no_process_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    monkeypatch.setenv(NAME, VALUE)
    with create_environment("local", cwd=str(tmp_path), env_passthrough=(NAME,)) as env:
        for _ in range(2):
            assert execute_code(LOOK, env=env, transport=transport).output == "True []\n"  # type: ignore[arg-type]
