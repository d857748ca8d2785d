"""The pytest plugin, in separate runs of pytest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE, require_docker
from targets.ssh_server import SSHServer

from hermes_env.pytest_plugin import settings_of

pytest_plugins = ["pytester"]


def test_each_test_has_a_clean_session_and_may_say_where_it_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        places = []

        @pytest.mark.parametrize("turn", [1, 2])
        def test_each_has_a_clean_session(environment, turn):
            assert environment.execute("ls -A; echo ${MINE-unset}").output == "unset\\n"
            environment.execute("export MINE=1; echo x >file; sleep 1000 &")
            places.append(environment.cwd)
            assert len(set(places)) == turn

        def test_what_was_left_is_gone(environment):
            assert not any(environment.execute(["test", "-e", place]).ok for place in places)

        @pytest.mark.environment("ssh")
        def test_there_alone(environment): pass

        @pytest.mark.not_on("local", reason="no need")
        def test_elsewhere(environment): pass
        """
    )
    result = pytester.runpytest_inprocess("-rs", "-p", "no:cacheprovider", "--environment=local")
    result.assert_outcomes(passed=3, skipped=2)
    result.stdout.fnmatch_lines_random(["*SKIPPED*runs only on ssh", "*SKIPPED*no need"])


def test_the_ini_setting_says_where_and_else_it_is_this_machine(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(environment): pass")
    result = pytester.runpytest_inprocess("--collect-only", "-q")
    result.stdout.fnmatch_lines(["*test_it?local?"])
    pytester.makeini("[pytest]\nenvironment = modal:one ssh:host\n")
    result = pytester.runpytest_inprocess("--collect-only", "-q")
    result.stdout.fnmatch_lines(["*test_it?modal:one?", "*test_it?ssh:host?"])
    result = pytester.runpytest_inprocess("--collect-only", "-q", "--environment=daytona")
    result.stdout.fnmatch_lines(["*test_it?daytona?"])
    result.stdout.no_fnmatch_line("*modal*")


def test_a_wrong_place_is_an_error_of_usage(pytester: pytest.Pytester) -> None:
    for given, told in {
        "dokcer": "*--environment:*unknown backend 'dokcer'*'docker'*",
        "local:x": "*--environment: 'local:x': backend 'local' accepts no value after its name*",
        "docker:": "*--environment: 'docker:' names no image behind the colon*",
        "ssh:me@": "*--environment: 'ssh:me@' names no host; give ssh:HOST*",
    }.items():
        result = pytester.runpytest_inprocess(f"--environment={given}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([told])


def test_a_wrong_marker_and_a_target_that_cannot_be_had_are_told_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_marker="""
        import pytest

        @pytest.mark.not_on("shh")
        def test_it(environment): pass
        """,
        test_target="""
        import pytest

        @pytest.mark.environment(cwd="/no/such/directory")
        def test_it(environment): pass
        """,
    )
    result = pytester.runpytest_inprocess("--continue-on-collection-errors")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["pytest.mark.not_on: unknown backend 'shh'*", "environment local: *no/such/directory*"]
    )
    for chain in ("*Traceback*", "*During handling*", "*direct cause*"):
        result.stdout.no_fnmatch_line(chain)


def test_the_plugin_costs_nothing_if_unused(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin("hermes_env")
    code = "import hermes_env.pytest_plugin, sys; print({'environments', 'yaml'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_what_stands_behind_a_backend() -> None:
    for spec, settings in {
        "docker": {},
        "docker:registry:5000/python:3.12": {"image": "registry:5000/python:3.12"},
        "singularity:/images/a.sif": {"image": "/images/a.sif"},
        "ssh:host": {"host": "host"},
        "ssh:me@host:2222": {"host": "host", "user": "me", "port": 2222},
        "ssh:me@[::1]:2222": {"host": "::1", "user": "me", "port": 2222},
        "ssh:[::1]": {"host": "::1"},
    }.items():
        assert settings_of(spec) == (spec.partition(":")[0], settings)
    for spec in ("ssh:", "ssh:@host", "ssh:host:", "ssh:host:port", "ssh:[::1]22", "modal:", ""):
        with pytest.raises(pytest.UsageError, match=r"names no|unknown backend"):
            settings_of(spec)


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
        result.stdout.fnmatch_lines_random(["*SKIPPED*runs only on ssh", "*SKIPPED*no need"])
    finally:
        server.remove()
