"""Commands as another user of this machine, which root alone may run."""

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


class Poor(PlainLocal):
    """A target that lacks programs, and allows few streams."""

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
def poor() -> Iterator[Poor]:
    with Poor(load_settings("local", cwd="/")) as made:
        yield made


def test_where_setpriv_is_missing_su_does(poor: Poor) -> None:
    result = poor.execute_oneshot("id -un; id -g; echo $HOME; cat", user="nobody", stdin="it's $in")
    assert result.output == "nobody\n65534\n/nonexistent\nit's $in"
    process = poor.start("tty >/dev/null && id -un", user="nobody", pty=True)
    assert process.wait(60) == 0 and process.read().strip() == "nobody"


def test_where_there_is_no_way_nothing_runs(tmp_path: Path) -> None:
    with Poor(load_settings("local", cwd="/")) as env:
        env.lacks = (*Poor.lacks, "su")
        for run in (env.execute_oneshot, env.start):
            with pytest.raises(UnsupportedError, match="may not become another"):
                run(f"touch {tmp_path}/ran", user="nobody")
    assert not list(tmp_path.iterdir())


def test_several_users_share_the_streams_that_a_target_allows(poor: Poor) -> None:
    users = ("nobody", "daemon", "root", None) * 3
    with ThreadPoolExecutor(len(users)) as threads:
        outputs = threads.map(lambda user: poor.execute_oneshot("id -u", user=user, timeout=120).output, users)
        assert list(outputs) == ["65534\n", "1\n", "0\n", "0\n"] * 3


def test_its_streams_its_text_and_its_identity_are_its_own(env: BaseEnvironment) -> None:
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


def test_a_session_of_that_user_keeps_its_state(env: BaseEnvironment) -> None:
    session = env.session("build", user="nobody", cwd="/")
    session.execute("cd /usr; export KEPT=1; exit 3")
    assert session.execute("pwd; echo $KEPT; id -u").output == "/usr\n1\n65534\n"
    with pytest.raises(ValueError, match="nobody"):
        env.session("build")
    with pytest.raises(UnsupportedError, match=r"env\.session"):
        session.execute("true", user="root")


def test_execute_names_what_runs_as_another_user(env: BaseEnvironment) -> None:
    with pytest.raises(UnsupportedError, match="execute_oneshot, start or session"):
        env.execute("true", user="nobody")


def test_hooks_are_told_who_it_is(env: BaseEnvironment) -> None:
    def before_command(request: CommandRequest) -> str | None:
        return "not as root" if request.user == "root" else None

    env.gate.before_command = before_command
    with pytest.raises(DeniedError, match="not as root"):
        env.execute_oneshot("true", user="root")
    assert env.execute_oneshot("id -u", user=65534, cwd="/").output == "65534\n"


def test_an_event_ends_it(env: BaseEnvironment, nap: str) -> None:
    interrupt = threading.Event()
    result = env.execute_oneshot(
        f"echo on; setsid sleep {nap}",
        user="nobody",
        cwd="/",
        on_output=lambda _: interrupt.set(),
        interrupt=interrupt,
    )
    assert result.interrupted and running(env, nap) == 0
