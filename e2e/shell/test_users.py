"""Commands as another user of this machine. They need root."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from targets.local_shells import local
from targets.plain_local import PlainLocal

from environments import BaseEnvironment, DeniedError, UnsupportedError, load_settings
from environments.approvals import CommandRequest
from environments.conformance.check import running, unique


class LimitedTarget(PlainLocal):
    """A target without setpriv and sudo that allows few streams."""

    has_own_programs = True
    max_streams = 3
    lacks: tuple[str, ...] = ("setpriv", "sudo")

    def start_target(self) -> None:
        super().start_target()
        for program in self.lacks:
            Path(self._path.name, program).unlink(missing_ok=True)


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    with local(tmp_path) as made:
        yield made


@pytest.fixture
def limited() -> Iterator[LimitedTarget]:
    with LimitedTarget(load_settings("local", cwd="/")) as made:
        yield made


def test_su_is_used_where_setpriv_is_missing(limited: LimitedTarget) -> None:
    result = limited.execute_oneshot("id -un; id -g; echo $HOME; cat", user="nobody", stdin="it's $in")
    assert result.output == "nobody\n65534\n/nonexistent\nit's $in"
    process = limited.start("tty >/dev/null && id -un", user="nobody", pty=True)
    assert process.wait(60) == 0 and process.read().strip() == "nobody"


def test_no_command_runs_where_the_user_cannot_be_changed(tmp_path: Path) -> None:
    with LimitedTarget(load_settings("local", cwd="/")) as env:
        env.lacks = (*LimitedTarget.lacks, "su")
        for run in (env.execute_oneshot, env.start):
            with pytest.raises(UnsupportedError, match="may not become another"):
                run(f"touch {tmp_path}/ran", user="nobody")
    assert not list(tmp_path.iterdir())


def test_several_users_share_the_streams_that_a_target_allows(limited: LimitedTarget) -> None:
    users = ("nobody", "daemon", "root", None) * 3
    with ThreadPoolExecutor(len(users)) as threads:
        outputs = threads.map(lambda user: limited.execute_oneshot("id -u", user=user, timeout=120).output, users)
        assert list(outputs) == ["65534\n", "1\n", "0\n", "0\n"] * 3


def test_a_command_of_another_user_has_its_own_streams_and_identity_and_a_hidden_text(env: BaseEnvironment) -> None:
    result = env.execute_oneshot(
        "echo out >/dev/stdout; echo err >/dev/stderr", user="nobody", cwd="/", stderr="separate"
    )
    assert (result.output, result.stderr) == ("out\n", "err\n")
    word = unique("text")
    env.execute(f"export SECRET={word} HOME=/mine MAIL=/mine USER=me OTHER=1")
    process = env.start(f": {word}; cat", user="nobody", cwd="/", session_env=True)
    assert running(env, word) == 0
    process.close_stdin()
    assert process.wait(60) == 0
    result = env.execute_oneshot(
        "echo $HOME $USER $OTHER ${MAIL-none}; cd; pwd", user="nobody", cwd="/", session_env=True
    )
    assert result.output.startswith("/nonexistent nobody 1 none\n")


def test_a_session_of_another_user_keeps_its_state(env: BaseEnvironment) -> None:
    session = env.session("build", user="nobody", cwd="/")
    session.execute("cd /usr; export KEPT=1; exit 3")
    assert session.execute("pwd; echo $KEPT; id -u").output == "/usr\n1\n65534\n"
    with pytest.raises(ValueError, match="nobody"):
        env.session("build")
    with pytest.raises(UnsupportedError, match=r"env\.session"):
        session.execute("true", user="root")


def test_execute_with_a_user_is_an_error_that_names_the_right_methods(env: BaseEnvironment) -> None:
    with pytest.raises(UnsupportedError, match="execute_oneshot, start or session"):
        env.execute("true", user="nobody")


def test_hooks_receive_the_user(env: BaseEnvironment) -> None:
    def before_command(request: CommandRequest) -> str | None:
        return "not as root" if request.user == "root" else None

    env.gate.before_command = before_command
    with pytest.raises(DeniedError, match="not as root"):
        env.execute_oneshot("true", user="root")
    assert env.execute_oneshot("id -u", user=65534, cwd="/").output == "65534\n"


def test_an_event_ends_a_command_of_another_user(env: BaseEnvironment, nap: str) -> None:
    interrupt = threading.Event()
    result = env.execute_oneshot(
        f"echo on; setsid sleep {nap}",
        user="nobody",
        cwd="/",
        on_output=lambda _: interrupt.set(),
        interrupt=interrupt,
    )
    assert result.interrupted and running(env, nap) == 0
