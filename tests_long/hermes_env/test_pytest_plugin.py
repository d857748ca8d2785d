"""The plugin of pytest, in runs of pytest of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hermes_env.pytest_targets import settings_of

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
    result.stdout.fnmatch_lines_random(["*SKIPPED*runs on ssh alone", "*SKIPPED*no need"])


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
        "local:x": "*--environment: 'local:x': backend 'local' takes nothing behind its name*",
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
    result.stdout.no_fnmatch_line("*Traceback*")


def test_it_costs_nothing_where_it_is_not_used(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin("hermes_env")
    costly = "{'environments', 'hermes_env.pytest_targets'}"
    code = f"import hermes_env.pytest_plugin, sys; print({costly} & sys.modules.keys())"
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
        with pytest.raises(ValueError, match=r"names no|unknown backend"):
            settings_of(spec)
