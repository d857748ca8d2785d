"""A script's changes to its directory, and to the directory of all scripts, harm no other script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import docker, local
from targets.hostile_scripts import scripts_directories

from code_execution import execute_code
from environments import BaseEnvironment

A_LINK_IN_ITS_PLACE = """
import os, shutil
os.mkdir("kept"), open("kept/file", "w").close()
place = os.path.dirname(__file__)
shutil.rmtree(place)
os.symlink(os.path.abspath("kept"), place)
"""
CALLING = "import hermes_tools; hermes_tools.terminal('true')\n"


@pytest.fixture(params=[local, docker], ids=["local", "docker"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    with request.param(tmp_path) as subject, subject.make() as env:
        yield env


@pytest.mark.parametrize("transport", ["auto", "file"])
@pytest.mark.parametrize("tools", ["", CALLING], ids=["", "with tools"])
def test_the_target_of_a_link_that_replaced_the_scripts_directory_is_kept(
    target: BaseEnvironment, tools: str, transport: str
) -> None:
    result = execute_code(tools + A_LINK_IN_ITS_PLACE, env=target, transport=transport)  # type: ignore[arg-type]
    assert result.status == "success", result
    assert target.execute("ls kept").output == "file\n"
    assert scripts_directories(target) == []


@pytest.mark.parametrize("transport", ["auto", "file"])
def test_a_script_runs_after_all_temporary_files_were_removed(target: BaseEnvironment, transport: str) -> None:
    scratch = target.internal.scratch_directory()
    for tools in ("", CALLING):
        target.execute(f"rm -rf {scratch}")
        result = execute_code(f"{tools}print(1)", env=target, transport=transport)  # type: ignore[arg-type]
        assert result.output == "1\n", result
        assert target.execute_oneshot(f"stat -c %a {scratch}").output == "700\n"


def test_scripts_run_again_when_the_session_has_left_a_directory_that_was_removed(target: BaseEnvironment) -> None:
    target.execute("mkdir gone && cd gone && rm -r $PWD")
    assert {execute_code("print(1)", env=target).status for _ in range(2)} == {"error"}
    target.execute("cd ..")
    assert execute_code("print(1)", env=target).output == "1\n"
