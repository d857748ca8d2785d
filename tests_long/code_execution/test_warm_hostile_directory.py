"""What a forked script makes of the directories that it was put into, and of the server's, harms nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import docker, local
from targets.ready_python import is_forked, server_of

from code_execution import execute_code
from code_execution.warm.servers import ATTEMPTS
from environments import BaseEnvironment

A_LINK_IN_ITS_PLACE = """
import os, shutil
os.mkdir("kept"), open("kept/file", "w").close()
place = os.path.dirname(__file__)
shutil.rmtree(place)
os.symlink(os.path.abspath("kept"), place)
"""


@pytest.fixture(params=[local, docker], ids=["local", "docker"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    with request.param(tmp_path) as subject, subject.make() as env:
        yield env


@pytest.mark.parametrize("tools", ["", "import hermes_tools; hermes_tools.terminal('true')"], ids=["", "with tools"])
def test_what_a_link_in_the_place_of_its_directory_leads_to_stays(target: BaseEnvironment, tools: str) -> None:
    server_of(target)
    assert execute_code(tools + A_LINK_IN_ITS_PLACE, env=target).status == "success"
    assert target.execute("ls kept").output == "file\n"
    assert target.execute_oneshot(f"ls {target.internal.scratch_directory()} | grep -c script").output == "0\n"


def test_a_script_runs_after_all_temporary_files_were_removed(target: BaseEnvironment) -> None:
    server_of(target)
    scratch = target.internal.scratch_directory()
    target.execute(f"rm -rf {scratch}")
    for tools in ("", "import hermes_tools; hermes_tools.terminal('true')\n"):
        assert execute_code(f"{tools}print(1)", env=target).output == "1\n"
    assert target.execute_oneshot(f"stat -c %a {scratch}").output == "700\n"
    server_of(target)
    assert is_forked(target)


def test_scripts_are_forked_again_when_the_session_has_left_a_directory_that_was_removed(env: BaseEnvironment) -> None:
    server = server_of(env)
    env.execute("mkdir gone && cd gone && rm -r $PWD")
    assert {execute_code("print(1)", env=env).exit_code for _ in range(ATTEMPTS + 1)} == {1}
    env.execute("cd ..")
    assert is_forked(env)
    assert server_of(env) == server
