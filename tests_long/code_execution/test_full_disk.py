"""A full file system below the directory of scripts and their calls."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from code_execution import execute_code
from environments import create_environment


@pytest.fixture
def tiny_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 256 KB for temporary files."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
    monkeypatch.setenv("TMPDIR", str(disk))
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_full_disk_where_the_script_is_staged_is_an_error_that_says_so(tiny_disk: Path, tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path)) as env:
        result = execute_code(f"print('never') # {'x' * 300_000}", env=env)
        assert (result.status, result.exit_code) == ("error", None)
        assert "No space left on device" in result.output
        assert execute_code("print(1)", env=env).output == "1\n"
    assert list(tiny_disk.iterdir()) == []


def test_a_call_on_a_full_disk_raises_in_the_script(tiny_disk: Path, tmp_path: Path) -> None:
    code = """
import hermes_tools, os
with open(os.path.join(os.path.dirname(__file__), "filler"), "wb", buffering=0) as f:
    try:
        while True: f.write(b"x" * 4096)
    except OSError: pass
try: hermes_tools.one("x" * 10_000)
except hermes_tools.ToolError as e: print(e)
"""
    with create_environment("local", cwd=str(tmp_path)) as env:
        result = execute_code(code, env=env, tools={"one": lambda text: 1}, transport="file", timeout=60)
    assert result.status == "success", result
    assert "one" in result.output
