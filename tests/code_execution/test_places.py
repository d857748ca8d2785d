"""The place of a script's directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from code_execution import execute_code
from code_execution.limits import TransportName
from environments import create_environment

PLACES = {
    "awkward": 'it\'s\n"a" $(dir) \\é',
    "long": "a" * 120,
    "of two paths": "one:other",
}
CODE = """
import hermes_tools
with open("ran", "a") as file: file.write("once")
print(hermes_tools.one(), open("ran").read())
raise SystemExit(3)
"""


@pytest.mark.parametrize("place", PLACES)
def test_a_temporary_directory_may_have_any_name(
    place: str, transport: TransportName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / PLACES[place]
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with create_environment("local", cwd=str(tmp_path)) as env:
        assert str(env.internal.scratch_directory()).startswith(str(temporary))
        result = execute_code(CODE, env=env, tools={"one": lambda: 1}, transport=transport, timeout=30)
        assert list(Path(env.internal.scratch_directory()).glob("script-*")) == []
    assert (result.output, result.exit_code) == ("1 once", 3)
