"""Bytes in the results of MCP tools: they are files in the target."""

from __future__ import annotations

import base64

import pytest

from code_execution.mcp import results
from code_execution.mcp.results import ResultFiles
from environments import BaseEnvironment

pytestmark = pytest.mark.xdist_group("mcp")


def test_bytes_are_a_file_named_by_their_type(env: BaseEnvironment) -> None:
    files = ResultFiles(env)
    for kind, suffix in (("image/png", ".png"), ("text/plain; charset=utf-8", ".txt"), (None, ".bin")):
        found = files.put(base64.b64encode(b"\0data").decode(), kind)
        assert str(found["path"]).endswith(suffix) and found["size"] == 5
        assert env.read_bytes(str(found["path"])) == b"\0data"


def test_the_files_of_one_result_are_bounded(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_BYTES", 10)
    files, encoded = ResultFiles(env), base64.b64encode(b"sixsix").decode()
    assert "path" in files.put(encoded, None)
    assert files.put(encoded, None) == {
        "error": "application/octet-stream of 6 bytes: the files of one result may have 10 bytes together"
    }


def test_invalid_base64_is_an_error_in_its_place(env: BaseEnvironment) -> None:
    assert "did not send it as base64" in str(ResultFiles(env).put("?", "image/png")["error"])


def test_without_a_script_there_is_no_target_to_write_to() -> None:
    assert "only a script's call" in str(ResultFiles(None).put("AAAA", "image/png")["error"])
