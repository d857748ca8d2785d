"""A script's view of Python and its end, on each transport and each installed Python; our code on other Pythons."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE, require_docker
from targets.script_ends import ENDS
from targets.script_views import ENDS_FORKED, differences, ends, pythons, use, version_of

from code_execution import execute_code
from code_execution.boot_program import OLDEST
from code_execution.target_code import OURS, TargetCode
from environments import BaseEnvironment, UnsupportedError, create_environment
from environments.conformance.check import wait_until

ROOT = Path.home() / ".pyenv"
PYTHONS = [each for each in pythons() if version_of(each) >= OLDEST]
MOUNTABLE = [each for each in PYTHONS if each.startswith(f"{ROOT}/")]
"""Pythons that can be mounted into a container."""
VARIABLES = {
    "PYTHONUTF8": "1",
    "PYTHONWARNINGS": "error::DeprecationWarning,ignore::UserWarning",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONOPTIMIZE": "2",
    "PYTHONNOUSERSITE": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONTRACEMALLOC": "2",
    "PYTHONDEVMODE": "1",
    "PYTHONIOENCODING": "latin-1:replace",
    "PYTHONPYCACHEPREFIX": "/no/such/place",
    "LC_ALL": "C",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONHASHSEED": "0",
    "PYTHONBREAKPOINT": "0",
    "PYTHONINSPECT": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHONNODEBUGRANGES": "1",
}


def _local(tmp_path: Path) -> BaseEnvironment:
    return create_environment("local", cwd=str(tmp_path))


def _docker(_: Path) -> BaseEnvironment:
    require_docker().close()
    return create_environment("docker", docker_image=PYTHON_IMAGE, docker_volumes=[f"{ROOT}:{ROOT}:ro"])


WAYS = {
    "local": (_local, "socket"),
    "forked": (_local, "relay"),
    "docker": (_docker, "relay"),
    "file": (_docker, "file"),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[BaseEnvironment, str]]:
    make, transport = WAYS[request.param]
    work = tmp_path / "work"
    work.mkdir()
    with make(work) as env:
        env.execute("unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH")
        yield env, transport


def _pythons_of(env: BaseEnvironment) -> list[str]:
    return MOUNTABLE if env.settings.env == "docker" else PYTHONS


# A script's view, and its end.


@pytest.mark.parametrize("mode", ["project", "strict"])
def test_a_script_sees_the_same_as_without_us(way: tuple[BaseEnvironment, str], mode: str) -> None:
    env, transport = way
    assert differences(env, transport=transport, mode=mode) == {}


def test_a_script_sees_on_each_python_the_same_as_without_us(way: tuple[BaseEnvironment, str]) -> None:
    env, transport = way
    for number, python in enumerate(_pythons_of(env)):
        use(env, python, f"/tmp/hermes-venv-{time.time_ns()}-{number}")
        for _ in range(2):
            assert differences(env, transport=transport) == {}, python
            wait_until_compiled(env)


def test_scripts_end_as_they_end_without_us(way: tuple[BaseEnvironment, str]) -> None:
    env, transport = way
    names = [name for name in ENDS if name.startswith("a")][::4] if transport == "file" else None
    found = ends(env, names, transport=transport, mode="strict")
    assert found.keys() <= (set() if transport == "socket" else ENDS_FORKED.keys()), found


@pytest.mark.parametrize("transport", ["socket", "relay"])
@pytest.mark.parametrize("python", PYTHONS, ids=lambda each: "{}.{}".format(*version_of(each)))
def test_scripts_end_on_each_python_as_they_end_without_us(tmp_path: Path, python: str, transport: str) -> None:
    with _local(tmp_path) as env:
        use(env, python, str(tmp_path / "venv"))
        found = ends(env, transport=transport)
        assert found.keys() <= (set() if transport == "socket" else ENDS_FORKED.keys()), found


@pytest.mark.parametrize("transport", ["socket", "relay"])
def test_pythons_own_variables_mean_what_they_mean_without_us(
    tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
        allowed = {"env_passthrough": [name], "redact_secrets": False}
        with create_environment("local", cwd=str(tmp_path), **allowed) as env:
            for python in (PYTHONS[0], PYTHONS[-1]):
                if (name, transport, version_of(python)) == ("PYTHONDEVMODE", "relay", (3, 8)):
                    continue  # a forked process crashes at its end there, in each program: a fault of Python 3.8
                use(env, python, str(tmp_path / "venv"))
                assert differences(env, transport=transport) == {}, (name, python)
        monkeypatch.delenv(name)


def test_where_each_python_is_too_old_the_error_says_so(tmp_path: Path) -> None:
    old = [each for each in pythons() if version_of(each) < OLDEST and each.startswith(f"{ROOT}/")]
    with _docker(tmp_path) as env:
        for python in old:
            env.execute(f"mkdir -p /tmp/old; ln -sfn {python} /tmp/old/python3; ln -sfn {python} /tmp/old/python")
            env.execute("export PATH=/tmp/old:/usr/bin:/bin")
            for transport in ("relay", "file"):
                with pytest.raises(UnsupportedError, match=r"has no Python 3\.8 or later"):
                    execute_code("print(1)", env=env, transport=transport)  # type: ignore[arg-type]


# Our code on Pythons unlike ours.

CALLING = """
import os, sys
import hermes_tools
print(hermes_tools.f(), *sys.version_info[:2], "__future__" in sys.modules)
"""


def run_script(env: BaseEnvironment, transport: str) -> str:
    """Run a script with a tool call, and return the output."""
    result = execute_code(CALLING, env=env, tools={"f": lambda: "called"}, transport=transport)  # type: ignore[arg-type]
    assert result.status == "success", result
    return result.output


def compiled_modules(env: BaseEnvironment) -> dict[str, set[str]]:
    """Return the names of our modules that an environment's Pythons have compiled, by magic number."""
    found: dict[str, set[str]] = {}
    for magic, source in TargetCode.of(env)._code:
        found.setdefault(magic, set()).add(source.name)
    return found


def wait_until_compiled(env: BaseEnvironment) -> None:
    """Wait for the compilation."""
    code = TargetCode.of(env)
    assert wait_until(lambda: code._tries.keys() <= code._code.keys())


def test_each_python_compiles_our_code_once_by_itself(way: tuple[BaseEnvironment, str]) -> None:
    env, transport = way
    for number, python in enumerate(_pythons_of(env)):
        use(env, python, f"/tmp/hermes-venv-{time.time_ns()}-{number}")
        said = "called {} {}".format(*version_of(python))
        assert run_script(env, transport).startswith(said)
        wait_until_compiled(env)
        before = dict(TargetCode.of(env)._code)
        assert run_script(env, transport) == f"{said} False\n"  # the stub has not come from its source
        assert TargetCode.of(env)._code == before
    foreign = {version_of(each) for each in _pythons_of(env)} - {(3, 11)}
    assert len(compiled_modules(env)) == len(foreign)
    assert all(names == {"boot", "hermes_tools.py"} for names in compiled_modules(env).values())
    assert OURS not in compiled_modules(env)


def test_a_replaced_python_runs_the_next_script(way: tuple[BaseEnvironment, str]) -> None:
    env, transport = way
    place = f"/tmp/hermes-venv-{time.time_ns()}"
    order = [0, 0, -1, -1, 2, 0, 2, 2, -1]
    for index in order:
        use(env, _pythons_of(env)[index], place)
        for _ in range(2):
            said = "called {} {} ".format(*version_of(_pythons_of(env)[index]))
            assert run_script(env, transport).startswith(said)
            wait_until_compiled(env)


def test_code_of_one_environment_goes_to_no_other(tmp_path: Path) -> None:
    with _local(tmp_path) as env, _local(tmp_path) as other:
        for each in (env, other):
            use(each, PYTHONS[0], str(tmp_path / "venv"))
        run_script(env, "relay")
        wait_until_compiled(env)
        assert compiled_modules(env)
        assert not compiled_modules(other)


@pytest.mark.parametrize(
    "said",
    [
        "exit 1",
        "echo nonsense",
        "printf 'XXXXXXXX ../../up\\n'; echo; echo",
        "printf '550d0d0a ../../up\\n'; echo; echo",
        "printf '550d0d0a cpython-38\\n'; echo; echo",
        "printf '550d0d0a cpython-38\\n'; echo '!'; echo '!'",
        "head -c 3000000 /dev/zero",
        "sleep 30",
    ],
)
@pytest.mark.parametrize("transport", ["socket", "relay"])
def test_scripts_run_from_source_where_a_python_cannot_compile_our_code(
    tmp_path: Path, said: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("code_execution.target_code._LIMIT", 0.3)
    python = tmp_path / "fake" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nif [ "$1" = -IS ]; then {said}; exit; fi\nexec {shlex.quote(PYTHONS[0])} "$@"\n')
    python.chmod(0o755)
    with _local(tmp_path) as env:
        use(env, str(python), str(tmp_path / "venv"))
        for _ in range(4):
            assert run_script(env, transport).startswith("called 3 8 ")
            time.sleep(0.1)


@pytest.mark.parametrize("transport", ["socket", "relay"])
def test_code_that_cannot_be_read_harms_no_other_environment(tmp_path: Path, transport: str) -> None:
    python = tmp_path / "fake" / "python"
    python.parent.mkdir()
    real = shlex.quote(PYTHONS[0])
    magic = f"{real} -c 'import importlib.util as u; print(u.MAGIC_NUMBER.hex())'"
    python.write_text(
        f'#!/bin/sh\nif [ "$1" = -IS ]; then echo "$({magic}) cpython-38"; echo 4wAA; echo 4wAA; exit; fi\n'
        f'exec {real} "$@"\n'
    )
    python.chmod(0o755)
    with _local(tmp_path) as env:
        use(env, str(python), str(tmp_path / "venv"))
        run_script(env, transport)
        assert wait_until(lambda: bool(compiled_modules(env)))
        for _ in range(3):
            if transport == "relay":
                assert run_script(env, transport).startswith("called 3 8 ")
    with _local(tmp_path) as env:
        use(env, PYTHONS[0], str(tmp_path / "venv2"))
        assert run_script(env, transport).startswith("called 3 8 ")
