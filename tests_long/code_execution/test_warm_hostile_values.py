"""Values that a forked script may see are in none of the files that it was made from, nor in its server."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.ready_python import is_forked, server_of

from code_execution import execute_code
from environments import create_environment

NAME = "OUR_TOKEN"
VALUE = "not-for-every-eye"
LOOK = f"""
import os
value, here = os.environ["{NAME}"], os.path.dirname(__file__)
def has(file): return value in open(file, errors="replace").read()
nurse = f"/proc/{{os.getppid()}}/environ"
files = [name for name in os.listdir(here) if os.path.isfile(f"{{here}}/{{name}}")]
print(list(filter(has, [f"{{here}}/{{name}}" for name in files])), has(nurse))
"""


def test_a_value_that_was_allowed_is_in_no_file_and_in_no_process_but_the_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, VALUE)
    with create_environment("local", cwd=str(tmp_path), env_passthrough=(NAME,)) as env:
        server = server_of(env)
        assert is_forked(env)
        assert execute_code(LOOK, env=env).output == "[] False\n"
        assert VALUE not in Path(f"/proc/{server.pid}/environ").read_text(errors="replace")
