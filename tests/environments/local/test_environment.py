"""The backend local: settings, the session lock, the end of the program, addresses."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from targets.processes import sleepers

from code_execution import execute_code
from environments import (
    BaseEnvironment,
    EnvironmentStartError,
    SettingsError,
    TerminalError,
    UnsupportedError,
    create_environment,
    load_settings,
)
from environments.local import LocalEnvironment, LocalSettings
from environments.settings import RESOURCE_SETTINGS, EnvironmentSettings
from environments.target import this_machine


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    with create_environment("local", cwd=str(tmp_path)) as environment:
        yield environment


def test_a_working_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    env = create_environment("local", cwd=str(tmp_path / "none"))
    with env, pytest.raises(EnvironmentStartError, match=r"none.*TERMINAL_CWD"):
        env.execute("true")


def test_settings_of_a_sandbox_without_one_are_refused() -> None:
    for name, value in (("sandbox_paths", ["/a"]), ("sandbox_read_only_paths", ["/a"]), ("sandbox_network", True)):
        with pytest.raises(SettingsError, match=f"local_{name} is set, and there is no sandbox"):
            create_environment("local", **{name: value})


def test_a_sandbox_of_this_machine_is_the_backend_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = load_settings("bubblewrap", paths=["/a"], read_only_paths=["/b"], network=True, cwd="/c")
    names = {"sandbox_paths": ["/a"], "sandbox_read_only_paths": ["/b"], "sandbox_network": True, "cwd": "/c"}
    assert load_settings("local", sandbox="bubblewrap", **names) == by_name
    monkeypatch.setenv("TERMINAL_ENV", "local")
    monkeypatch.setenv("TERMINAL_LOCAL_SANDBOX", "bubblewrap")
    assert load_settings().env == "bubblewrap"
    assert load_settings("local", sandbox="none").env == "local"
    assert type(create_environment(cwd="/var/lib")).backend == "bubblewrap"
    with pytest.raises(UnsupportedError, match="create_environment"):
        LocalEnvironment(EnvironmentSettings(own=LocalSettings(sandbox="bubblewrap")))


def test_a_limit_of_zero_is_not_refused(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), **dict.fromkeys(RESOURCE_SETTINGS, 0)) as env:
        assert env.execute("true").ok
        assert not env.capabilities.enforced_limits


def test_without_a_persistent_shell_cwd_exports_and_functions_still_last(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), persistent_shell=False) as env:
        first = env.execute("mkdir d; cd d; export A=1; f() { echo f; }; echo $$").output
        second, *rest = env.execute("echo $$; basename $PWD; echo $A; f").output.split()
        assert first.strip() != second
        assert rest == ["d", "1", "f"]
        assert not env.capabilities.persistent_session


def test_exported_functions_survive_exit(env: BaseEnvironment) -> None:
    env.execute("f() { echo exported; }; export -f f; exit 1")
    assert env.execute("bash -c f").output == "exported\n"


def test_two_threads_take_turns_in_the_session(env: BaseEnvironment) -> None:
    results: list[str] = []
    command = "n=$(cat n 2>/dev/null); sleep 0.05; echo $((n+1)) > n"
    threads = [threading.Thread(target=lambda: results.append(env.execute(command).output)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert env.execute("cat n").output == "8\n"


SLEEPER = """
    import sys
    from environments import create_environment
    env = create_environment("local")
    print(env.execute("echo ready").output, end="", flush=True)
    try:
        env.execute(f"sleep {sys.argv[1]}")
    except KeyboardInterrupt:
        print(env.execute("echo alive").output, end="", flush=True)
        env.cleanup()
"""


def _start_sleeper(nap: str) -> subprocess.Popen[str]:
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLEEPER), nap], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout
    assert program.stdout.readline() == "ready\n"
    while not sleepers(nap):
        time.sleep(0.02)
    return program


def test_control_c_ends_the_command_and_leaves_the_session_usable(nap: str) -> None:
    program = _start_sleeper(nap)
    os.kill(program.pid, signal.SIGINT)
    output, _ = program.communicate(timeout=60)
    assert (output, program.returncode, sleepers(nap)) == ("alive\n", 0, [])


def test_a_shell_whose_parent_was_killed_ends_after_its_command(nap: str) -> None:
    program = _start_sleeper(nap)
    [sleeper] = sleepers(nap)
    shell = sleeper.parent()
    os.kill(program.pid, signal.SIGKILL)
    program.communicate(timeout=60)
    with contextlib.suppress(psutil.NoSuchProcess):  # the garbage collection of another test may have ended it
        sleeper.terminate()
    assert shell is not None
    psutil.wait_procs([shell], timeout=30)
    assert not shell.is_running()


def test_this_machine_is_named_and_its_ports_are_its_own():
    with create_environment("local") as env:
        target = env.target
        assert (target.backend, target.kind, target.host) == ("local", "machine", this_machine())
        assert str(target) == f"local: machine {this_machine()}; enter it with `bash`"
        assert (str(env.address(80)), env.address(80).url) == ("127.0.0.1:80", "http://127.0.0.1:80")
    with pytest.raises(TerminalError, match="cleaned up"):
        env.target  # noqa: B018 - the property looks the target up


def test_a_scratch_directory_is_private_and_has_a_new_name(tmp_path: Path) -> None:
    modes: dict[str, int] = {}
    places: set[str] = set()

    def look() -> None:
        for path in (Path(env.internal.scratch_directory()), *Path(env.internal.scratch_directory()).rglob("*")):
            if path.is_dir():
                modes[str(path)] = stat.S_IMODE(path.stat().st_mode)

    before = os.umask(0)
    try:
        for _ in range(2):
            with create_environment("local", cwd=str(tmp_path)) as env:
                env.execute("umask 0; cat >/dev/null", stdin="x" * 500_000)
                env.execute_oneshot(f": {'x' * 500_000}")
                for transport in ("socket", "relay", "file"):
                    code = "import os; os.umask(0)\nfrom hermes_tools import look; look()"
                    result = execute_code(code, env=env, tools={"look": look}, transport=transport)  # type: ignore[arg-type]
                    assert result.status == "success", result
                places.add(Path(env.internal.scratch_directory()).name)
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o700}
    assert len(modes) >= 8
    first, second = (place.split("-") for place in places)
    assert len(first[-1]) == 8 and first[-1] != second[-1]
