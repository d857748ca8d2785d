"""The settings `login_shell` and `init_files`."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.plain_local import PlainLocal

from environments import (
    BaseEnvironment,
    CancelScope,
    EnvironmentStartError,
    SettingsError,
    create_environment,
    load_settings,
)

Make = Callable[..., BaseEnvironment]


def with_bash(cwd: Path, **settings: object) -> BaseEnvironment:
    return create_environment("local", **{"cwd": str(cwd), **settings})


def without_bash(cwd: Path, **settings: object) -> BaseEnvironment:
    return PlainLocal(load_settings("local", **{"cwd": str(cwd), **settings}))


BOTH = pytest.mark.parametrize("make", [with_bash, without_bash])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty home for the target's user."""
    home = tmp_path / "home of the user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@BOTH
def test_files_are_sourced_in_order_and_only_once(make: Make, tmp_path: Path, home: Path) -> None:
    (home / "one").write_text("export SEEN=${SEEN-}1\n")
    (home / "it's two").write_text("export SEEN=${SEEN-}2; echo x >>~/count\n")
    with make(tmp_path, init_files=("~/one", str(home / "it's two"))) as env:
        assert env.execute("echo $SEEN; exit 3").output == "12\n"
        assert env.execute("kill -9 $$").exit_code == 137
        assert env.execute("echo $SEEN; cat ~/count").output == "12\nx\n"


def test_a_login_shell_reads_the_first_profile(tmp_path: Path, home: Path) -> None:
    names = [".bash_profile", ".bash_login", ".profile"]
    for first in (0, 1, 2):
        for name in names:
            (home / name).unlink(missing_ok=True)
        for name in names[first:]:
            (home / name).write_text(f"export SEEN=${{SEEN-}}{name}; [ -n '' ]\n")
        with with_bash(tmp_path, login_shell=True) as env:
            assert env.execute("echo $SEEN").output == f"{names[first]}\n"
    with without_bash(tmp_path, login_shell=True) as env:
        assert env.execute("echo $SEEN").output == ".profile\n"


@BOTH
def test_functions_and_aliases_of_init_files_are_defined(make: Make, tmp_path: Path, home: Path) -> None:
    (home / "rc").write_text("hello() { echo hello $1; }\nalias hi='hello you'\nplain=5\n")
    with make(tmp_path, init_files=("~/rc",), persistent_shell=make is without_bash) as env:
        assert env.execute("hello x\nhi").output == "hello x\nhello you\n"
        assert env.execute("hello again").output == "hello again\n"  # without a persistent shell, in the next shell


@BOTH
def test_output_of_init_files_is_no_output_of_a_command(make: Make, tmp_path: Path, home: Path) -> None:
    (home / "rc").write_text("echo noise; yes noise | head -n 50000 >&2; (sleep 0.2; echo late) & set -xv; cat; :\n")
    with make(tmp_path, init_files=("~/rc",)) as env:
        assert env.execute("sleep 0.4; echo mine").output == "mine\n"
        assert env.execute_oneshot("echo mine").output == "mine\n"


@BOTH
def test_options_of_init_files_do_not_end_the_session(make: Make, tmp_path: Path, home: Path) -> None:
    (home / "rc").write_text("set -eu\nexport A=1\n")
    with make(tmp_path, init_files=("~/rc",)) as env:
        assert env.execute("false; echo $A $B; trap").output.startswith("1\n")
    if make is with_bash:
        (home / "rc").write_text("set -e\nfalse\nexport A=1\n")
        with make(tmp_path, init_files=("~/rc",)) as env:
            assert env.execute("echo $A").output == "1\n"


@BOTH
def test_a_guard_against_shells_that_are_not_interactive_holds(make: Make, tmp_path: Path, home: Path) -> None:
    (home / "rc").write_text("export A=1\ncase $- in *i*) ;; *) return ;; esac\nexport A=2\n")
    (home / "rc2").write_text('export B=1\n[ -z "${PS1-}" ] && return\nexport B=2\n')
    with make(tmp_path, init_files=("~/rc", "~/rc2")) as env:
        by_prompt = 1 if make is with_bash else 2  # other shells always have a prompt
        assert env.execute("echo $A $B").output == f"1 {by_prompt}\n"


WRONG = (
    ("echo last words; exit 0\n", "ended the shell that sourced it; it printed: last words"),
    ("exec true\n", "ended the shell that sourced it; it printed nothing"),
    ("echo waiting; sleep NAP\n", "did not end within 0.3 s, and was ended; it printed: waiting"),
    (None, "does not exist"),
)


@BOTH
def test_a_faulty_init_file_is_an_error_with_the_reason_and_nothing_runs(
    make: Make, tmp_path: Path, home: Path, nap: str
) -> None:
    with make(tmp_path, init_files=("~/rc",), init_timeout=0.3) as env:
        for text, reason in WRONG:
            (home / "rc").unlink(missing_ok=True)
            if text:
                (home / "rc").write_text(text.replace("NAP", nap))
            for run in (env.execute, env.start):
                with pytest.raises(EnvironmentStartError) as raised:
                    run(f"touch {tmp_path}/ran")
                assert "init file ~/rc " in str(raised.value)
                assert reason in str(raised.value)
    with make(tmp_path, init_files=("~/rc",), init_timeout=60) as env:
        (home / "rc").write_text("export A=1\n")
        assert env.execute("echo $A").output == "1\n"
        assert not (tmp_path / "ran").exists()
        assert nap not in env.execute_oneshot("ps ax -o args").output
    with (
        make(tmp_path, init_files=(str(home),)) as env,
        pytest.raises(EnvironmentStartError, match="cannot be read, or is no file"),
    ):
        env.execute("true")


@BOTH
def test_an_init_file_that_may_fail_does_not_prevent_the_rest(
    make: Make, tmp_path: Path, home: Path, nap: str, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "rc2").write_text("export B=2; f() { echo f; }\n")
    for text in (None, "export A=1; exit 3", f"export A=1; sleep {nap}"):
        caplog.clear()
        if text:
            (home / "rc").write_text(text)
        limit = 0.5 if text and nap in text else 60
        with make(tmp_path, init_files=("-~/rc", "~/rc2"), init_timeout=limit) as env:
            assert env.execute("echo ${A-}$B; f; pwd").output == f"{1 if text else ''}2\nf\n{tmp_path}\n"
            assert env.execute_oneshot("echo ${A-}$B").output == f"{1 if text else ''}2\n"
        assert ("the session goes on without the rest of it" in caplog.text) == bool(text)


def test_a_file_that_fails_or_cannot_be_parsed_is_a_warning_with_its_output(
    tmp_path: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "rc").write_text("export A=1; echo so it goes; false\n")
    (home / ".profile").write_text("false\n")
    with with_bash(tmp_path, init_files=("~/rc",), login_shell=True) as env:
        assert env.execute("echo $A").output == "1\n"
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "the init file ~/rc failed; it printed: so it goes" in warning
    (home / "rc").write_text("export A=1\nif true; then\n")
    with with_bash(tmp_path, init_files=("~/rc",)) as env:
        assert env.execute("echo $A").output == "1\n"
    assert "syntax error" in caplog.text


@BOTH
def test_exports_of_init_files_reach_commands_beside_the_session(
    make: Make, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEN", "away")
    monkeypatch.setenv("HANDED_ON", "here")
    text = "unset TAKEN; umask 027; export PATH=/of/rc:$PATH A='it'\"'\"'s \"1\"\n2'; own=3\n"
    (home / "rc").write_text(text)
    with make(tmp_path, init_files=("~/rc",), env_passthrough=("HANDED_ON",)) as env:
        command = 'printf "%s|" "$A" "${TAKEN-}" "${own-}" "${PATH%%:*}" "$(umask)" "$HANDED_ON"; pwd'
        wanted = f'it\'s "1"\n2|||/of/rc|0027|here|{tmp_path}\n'
        assert env.execute_oneshot(command).output == wanted
        process = env.start(command)
        assert process.wait(10) == 0
        assert process.read() == wanted
        process = env.start('printf "%s|" "$A"', pty=True)
        assert process.wait(10) == 0
        assert process.read() == 'it\'s "1"\r\n2|'
        monkeypatch.delenv("HANDED_ON")
        assert env.execute_oneshot("echo ${HANDED_ON-none}").output == "none\n"
        assert env.internal.variable("PATH").startswith("/of/rc:")


def test_an_interrupt_ends_the_wait_for_an_init_file(tmp_path: Path, home: Path, nap: str) -> None:
    (home / "rc").write_text(f"touch ~/begun; sleep {nap}\n")
    with with_bash(tmp_path, init_files=("~/rc",)) as env:
        with _end_when_begun(home, env.interrupt):
            assert env.execute("echo ran").interrupted
        scope = CancelScope()
        with _end_when_begun(home, scope.cancel), scope.active():
            assert env.execute("echo ran").interrupted
        (home / "rc").write_text("")
        assert env.execute("echo ran").output == "ran\n"


@contextlib.contextmanager
def _end_when_begun(home: Path, end: Callable[[], None]) -> Iterator[None]:
    """Call `end` from another thread once the file in the home is being sourced."""

    def run() -> None:
        while not (home / "begun").exists():
            time.sleep(0.02)
        (home / "begun").unlink()
        end()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()


def test_a_relative_path_of_an_init_file_is_refused() -> None:
    with pytest.raises(SettingsError, match="init_files"):
        load_settings("local", init_files=("rc",))
