"""Commands as another user of the target."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from targets.plain_local import PlainLocal

from environments import BaseEnvironment, DeniedError, UnsupportedError, load_settings
from environments.approvals import CommandRequest
from environments.conformance.check import running, unique, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become others")


class Poor(PlainLocal):
    """A target that lacks programs, and allows few streams."""

    max_streams = 3
    lacks: tuple[str, ...] = ("setpriv", "sudo")

    def start_target(self) -> None:
        super().start_target()
        for program in self.lacks:
            Path(self._path.name, program).unlink(missing_ok=True)


@pytest.fixture
def poor() -> Iterator[Poor]:
    with Poor(load_settings("local", cwd="/")) as made:
        yield made


def test_where_setpriv_is_missing_su_does(poor: Poor) -> None:
    result = poor.execute("id -un; id -g; echo $HOME; cat", user="nobody", stdin="it's $in")
    assert result.output == "nobody\n65534\n/nonexistent\nit's $in"
    process = poor.start("tty >/dev/null && id -un", user="nobody", pty=True)
    assert process.wait(60) == 0 and process.read().strip() == "nobody"


def test_where_there_is_no_way_nothing_runs(tmp_path: Path) -> None:
    with Poor(load_settings("local", cwd="/")) as env:
        env.lacks = (*Poor.lacks, "su")
        for run in (env.execute, env.execute_oneshot, env.start):
            with pytest.raises(UnsupportedError, match="may not become another"):
                run(f"touch {tmp_path}/ran", user="nobody")
    assert not list(tmp_path.iterdir())


def test_several_users_share_the_streams_that_a_target_allows(poor: Poor) -> None:
    users = ("nobody", "daemon", "root", None) * 3
    with ThreadPoolExecutor(len(users)) as threads:
        outputs = threads.map(lambda user: poor.execute_oneshot("id -u", user=user, timeout=120).output, users)
        assert list(outputs) == ["65534\n", "1\n", "0\n", "0\n"] * 3


def test_a_name_and_its_number_are_one_user(env: BaseEnvironment) -> None:
    shells = {env.execute_oneshot("echo $PPID $$", user=user, cwd="/").output for user in ("nobody", 65534, "65534")}
    assert len(shells) == 1


def test_what_it_prints_by_the_name_of_its_stream_comes(each_way: BaseEnvironment) -> None:
    result = each_way.execute("echo out >/dev/stdout; echo err >/dev/stderr", user="nobody", cwd="/", stderr="separate")
    assert (result.output, result.stderr) == ("out\n", "err\n")


def test_its_text_shows_in_no_process_list(each_way: BaseEnvironment) -> None:
    word = unique("text")
    each_way.execute(f"export SECRET={word}")
    process = each_way.start(f": {word}; cat", user="nobody", cwd="/", session_env=True)
    assert running(each_way, word) == 0
    process.close_stdin()
    assert process.wait(60) == 0


def test_it_waits_for_its_turn_and_can_be_interrupted(env: BaseEnvironment) -> None:
    order: list[object] = []
    first = threading.Thread(target=lambda: order.append(env.execute("touch began; sleep 1; echo first").output))
    first.start()
    assert wait_until(lambda: env.execute_oneshot("ls began").ok)
    results = []
    second = threading.Thread(
        target=lambda: results.append(
            env.execute("echo second; sleep 1000", user="nobody", cwd="/", on_output=order.append)
        )
    )
    second.start()
    assert wait_until(lambda: "second\n" in order) and env.busy
    env.interrupt()
    second.join()
    assert order == ["first\n", "second\n"] and results[0].interrupted and not env.busy


def test_a_session_of_a_name_begins_it_with_what_that_has(env: BaseEnvironment) -> None:
    session = env.session("build")
    session.execute("cd /usr; export KEPT=1")
    assert session.execute("pwd; echo $KEPT; id -u", user="nobody").output == "/usr\n1\n65534\n"


def test_a_variable_of_its_own_identity_is_not_the_sessions(each_way: BaseEnvironment) -> None:
    each_way.execute("export HOME=/mine MAIL=/mine USER=me OTHER=1")
    result = each_way.execute("echo $HOME $USER $OTHER ${MAIL-none}; cd; pwd", user="nobody", cwd="/")
    assert result.output.startswith("/nonexistent nobody 1 none\n")


def test_hooks_are_told_who_it_is(env: BaseEnvironment) -> None:
    def before_command(request: CommandRequest) -> str | None:
        return "not as root" if request.user == "root" else None

    env.before_command = before_command
    with pytest.raises(DeniedError, match="not as root"):
        env.execute("true", user="root")
    assert env.execute("id -u", user=65534, cwd="/").output == "65534\n"


def test_an_event_ends_it(env: BaseEnvironment, nap: str) -> None:
    interrupt = threading.Event()
    result = env.execute(
        f"echo on; setsid sleep {nap}",
        user="nobody",
        cwd="/",
        on_output=lambda _: interrupt.set(),
        interrupt=interrupt,
    )
    assert result.interrupted and running(env, nap) == 0
