"""The plugin of pytest, in runs of pytest of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE, require_docker
from targets.ssh_server import SSHServer

pytest_plugins = ["pytester"]

USES = """
import pytest

@pytest.fixture(scope="session")
def seen():
    return []

@pytest.mark.parametrize("turn", [1, 2])
def test_each_has_a_clean_session(environment, seen, turn, record_property):
    assert environment.execute("ls -A; echo ${MINE-unset}").output == "unset\\n"
    environment.execute("export MINE=1; echo x >file; echo x >/tmp/hermes-plugin-$PPID; sleep 1000 &")
    record_property("place", environment.cwd)
    seen.append(environment.cwd)
    assert len(set(seen)) == len(seen)

def test_what_was_left_is_gone(environment, seen):
    for place in seen:
        assert not environment.execute(["test", "-e", place]).ok
"""


def _run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def test_in_a_container_that_tests_share(pytester: pytest.Pytester) -> None:
    client = require_docker()
    pytester.makepyfile(
        USES,
        test_more="""
        import pathlib
        import pytest

        ids = pathlib.Path("ids")

        def is_new(env):
            with ids.open("a+") as file:
                file.seek(0)
                known = file.read().split()
                file.write(env.target.id + "\\n")
            return env.target.id not in known

        def test_the_container(environment):
            assert is_new(environment)

        def test_is_the_same(environment):
            assert not is_new(environment)

        def test_or_one_of_its_own(fresh_environment):
            assert is_new(fresh_environment)
            assert fresh_environment.execute("ls -A").output == ""

        @pytest.mark.environment(network=False, docker_env={"MARKED": "yes"})
        def test_or_one_with_settings(environment):
            assert is_new(environment)
            assert environment.execute("echo $MARKED").output == "yes\\n"
        """,
    )
    result = _run(pytester, "-v", f"--environment=docker:{PYTHON_IMAGE}")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines([f"*test_is_the_same?docker:{PYTHON_IMAGE}? PASSED*"])
    ids = sorted(set((pytester.path / "ids").read_text().split()))
    assert len(ids) == 3
    assert client.api.containers(all=True, filters={"id": ids}) == []
    client.close()


def test_over_ssh_and_here_in_one_run_of_several_workers(
    pytester: pytest.Pytester, tmp_path: Path, configure: Callable[[str], None]
) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    server = SSHServer(folder)
    server.start()
    configure(f"terminal:\n  ssh_key: {server.key}\n  ssh_config: {server.config}\n")
    try:
        pytester.makepyfile(
            USES,
            test_markers="""
            import pytest

            @pytest.mark.environment("ssh")
            def test_there_alone(environment):
                assert environment.backend == "ssh"

            @pytest.mark.not_on("ssh", reason="no need")
            def test_here_alone(environment):
                assert environment.backend == "local"
            """,
        )
        result = _run(pytester, "-n2", "-rs", f"--environment=ssh:127.0.0.1:{server.port}", "--environment", "local")
        result.assert_outcomes(passed=8, skipped=2)
        result.stdout.fnmatch_lines_random(["*SKIPPED*runs on ssh alone", "*SKIPPED*no need"])
    finally:
        server.remove()
