"""What a hook says of a command holds before the command has any effect, and whatever goes wrong is a denial."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from targets.plain_local import PlainLocal

from environments import BaseEnvironment, CallCancelledError, DeniedError
from environments.approvals import Allow, Ask, CommandRequest, Deny, destructive_commands
from environments.approvals.asking import MAX_QUESTIONS
from environments.cancellation import CancelScope

Make = Callable[..., BaseEnvironment]
WAYS = [
    (lambda env: env.execute("touch made"), "session"),
    (lambda env: env.execute_oneshot("touch made"), "oneshot"),
    (lambda env: env.start("touch made").wait(60), "background"),
]
every_way = pytest.mark.parametrize(("run", "way"), WAYS, ids=[way for _, way in WAYS])


def was_made(env: BaseEnvironment) -> bool:
    return env.execute_own("test -e made").ok


@every_way
def test_a_denied_command_is_not_run_and_the_reason_is_told(make: Make, run: Callable, way: str) -> None:
    env = make(before_command=lambda request: Deny("not on a Sunday"))
    with pytest.raises(DeniedError, match="not on a Sunday") as denial:
        run(env)
    assert denial.value.reason == "not on a Sunday"
    assert not was_made(env)


@every_way
def test_a_hook_sees_what_is_about_to_run(make: Make, run: Callable, way: str) -> None:
    seen: list[CommandRequest] = []
    env = make(before_command=seen.append, task_id="t7")
    run(env)
    assert was_made(env)
    assert seen == [CommandRequest("touch made", env.settings.cwd, "local", "t7", way)]


def test_a_hook_sees_the_directory_that_the_session_is_in(make: Make) -> None:
    seen: list[str | None] = []
    env = make(before_command=lambda request: seen.append(request.cwd))
    env.execute("mkdir sub; cd sub")
    env.execute("true")
    env.execute("true", cwd="/tmp")
    env.execute("true")
    assert seen == [env.settings.cwd, f"{env.settings.cwd}/sub", "/tmp", f"{env.settings.cwd}/sub"]


def test_a_denial_starts_no_target(make: Make) -> None:
    env = make(before_command=lambda request: False)
    with pytest.raises(DeniedError):
        env.execute("true")
    assert not env.life.ever_started


@pytest.mark.parametrize("answer", [None, True, Allow()])
def test_these_answers_allow(make: Make, answer: object) -> None:
    assert make(before_command=lambda request: answer).execute("echo ran").output == "ran\n"


@pytest.mark.parametrize("answer", [False, "no", "", 0, 1, [], object(), Deny("no"), Ask("sure?"), Allow, Ask])
def test_all_other_answers_deny(make: Make, answer: object) -> None:
    with pytest.raises(DeniedError):
        make(before_command=lambda request: answer).execute("true")


def test_a_plain_text_is_the_reason(make: Make) -> None:
    with pytest.raises(DeniedError, match="use make instead"):
        make(before_command=lambda request: "use make instead").execute("true")


def test_a_hook_that_raises_denies_without_its_secrets(make: Make) -> None:
    def before_command(request: CommandRequest) -> None:
        raise RuntimeError("the key is sk-live-1")

    with pytest.raises(DeniedError, match="RuntimeError") as denial:
        make(before_command=before_command).execute("true")
    assert "sk-live-1" not in str(denial.value)


def test_a_hook_can_be_set_and_taken_away_later(make: Make) -> None:
    env = make()
    env.execute("true")
    env.before_command = lambda request: False
    with pytest.raises(DeniedError):
        env.execute("true")
    env.before_command = None
    assert env.execute("true").ok


def test_a_denial_does_not_wait_for_the_sessions_turn(make: Make, nap: str) -> None:
    begun = threading.Event()
    env = make(before_command=lambda request: "sleep" in request.command)
    thread = threading.Thread(
        target=env.execute, args=(f"echo begun; sleep {nap}",), kwargs={"on_output": lambda text: begun.set()}
    )
    thread.start()
    assert begun.wait(60)
    try:
        with pytest.raises(DeniedError):
            env.execute("true")
    finally:
        env.cleanup()
        thread.join(60)


def test_a_hook_is_called_under_no_lock_so_that_it_can_run_commands_itself(make: Make) -> None:
    env = make()
    env.before_command = lambda request: env.execute_own("test -d .git").ok or "this is no repository"
    with pytest.raises(DeniedError, match="no repository"):
        env.execute("true")
    env.execute_own("mkdir .git")
    assert env.execute("true").ok


def test_a_hook_that_asks_itself_without_end_denies(make: Make) -> None:
    env = make()
    env.before_command = lambda request: env.execute("true").ok
    with pytest.raises(DeniedError):
        env.execute("true")


def test_files_and_our_own_commands_are_not_asked_about(make: Make) -> None:
    env = make(before_command=lambda request: False)
    env.write_bytes("a file", b"x")
    assert env.read_bytes("a file") == b"x"
    assert env.execute_own("echo own").output == "own\n"
    assert env.start_own("exit 7").wait(60) == 7


def test_a_backend_of_ones_own_is_asked_too(make: Make) -> None:
    make()  # for the settings of a user who has none
    from environments import load_settings

    env = PlainLocal(load_settings("local"))
    env.before_command = lambda request: False
    with pytest.raises(DeniedError):
        env.execute("true")
    env.cleanup()


# Asking.


@pytest.mark.parametrize(
    ("answer", "runs"), [(True, True), (Allow(), True), (False, False), (None, False), ("no", False)]
)
def test_approval_decides_where_a_hook_asks(make: Make, answer: object, runs: bool) -> None:
    asked = []

    def approve(request: object, question: str) -> object:
        asked.append((request.command, question))
        return answer

    env = make(before_command=lambda request: Ask("really?"), approve=approve)
    if answer in (True, Allow()):
        assert env.execute("true").ok
    else:
        with pytest.raises(DeniedError):
            env.execute("true")
    assert asked == [("true", "really?")]


@pytest.mark.parametrize("answer", [Ask("again?"), 1, [], Deny("never")])
def test_all_other_answers_of_approval_deny(make: Make, answer: object) -> None:
    with pytest.raises(DeniedError):
        make(before_command=lambda request: Ask("?"), approve=lambda request, question: answer).execute("true")


def test_asking_with_nobody_there_denies_and_says_so(make: Make) -> None:
    with pytest.raises(DeniedError, match=r"needs approval .really.* nobody"):
        make(before_command=lambda request: Ask("really?")).execute("true")


def test_approval_that_raises_denies_without_its_secrets(make: Make) -> None:
    def approve(request: object, question: str) -> bool:
        raise OSError("token sk-live-2")

    with pytest.raises(DeniedError, match="OSError") as denial:
        make(before_command=lambda request: Ask("?"), approve=approve).execute("true")
    assert "sk-live-2" not in str(denial.value)


def test_an_answer_that_does_not_come_in_time_is_a_denial(make: Make, configure: Callable[[str], None]) -> None:
    configure("approvals: {commands: ask, timeout: 0.2}")
    answer = threading.Event()
    env = make(approve=lambda request, question: answer.wait(60))
    with pytest.raises(DeniedError, match=r"nobody approved it within 0.2 s"):
        env.execute("true")
    answer.set()


@every_way
def test_cancelling_ends_the_wait_for_an_answer(make: Make, run: Callable, way: str) -> None:
    asked, answer, scope = threading.Event(), threading.Event(), CancelScope()

    def approve(request: object, question: str) -> bool:
        asked.set()
        return answer.wait(60)

    env = make(before_command=lambda request: Ask("?"), approve=approve)
    threading.Thread(target=lambda: (asked.wait(60), scope.cancel())).start()
    with scope.active():
        if way == "background":
            with pytest.raises(CallCancelledError, match="cancelled"):
                run(env)
        else:
            assert run(env).interrupted
    answer.set()
    assert not was_made(env)


def test_the_event_of_a_call_ends_the_wait_for_an_answer(make: Make) -> None:
    interrupt, answer = threading.Event(), threading.Event()

    def approve(request: object, question: str) -> bool:
        interrupt.set()
        return answer.wait(60)

    env = make(before_command=lambda request: Ask("?"), approve=approve)
    for execute in (env.execute, env.execute_oneshot, env.session("build").execute):
        assert execute("touch made", interrupt=interrupt).interrupted
        interrupt.clear()
    answer.set()
    assert not was_made(env)


@pytest.mark.parametrize("answer", [True, False])
def test_an_answer_of_one_who_noticed_the_cancelling_counts_for_nothing(make: Make, answer: bool) -> None:
    scope = CancelScope()

    def approve(request: object, question: str) -> bool:
        scope.cancel()
        return answer

    env = make(before_command=lambda request: Ask("?"), approve=approve)
    with scope.active():
        assert env.execute("true").interrupted


def test_questions_that_nobody_answers_do_not_pile_up(make: Make, configure: Callable[[str], None]) -> None:
    configure("approvals: {commands: ask, timeout: 0.001}")
    answer = threading.Event()
    env = make(approve=lambda request, question: answer.wait(60))
    reasons = []
    for _ in range(MAX_QUESTIONS + 2):
        with pytest.raises(DeniedError) as denial:
            env.execute("true")
        reasons.append(denial.value.reason)
    assert "questions wait" in reasons[-1]
    assert sum(thread.name == "hermes-approval" for thread in threading.enumerate()) <= MAX_QUESTIONS
    answer.set()


# The policy as a hook.


def test_the_policy_asks_about_destructive_commands_alone(make: Make) -> None:
    asked = []
    env = make(before_command=destructive_commands(), approve=lambda request, question: asked.append(question))
    assert env.execute("mkdir x && rm -rf x").ok
    with pytest.raises(DeniedError):
        env.execute("rm -rf ~/.ssh/nothing-here ~")
    assert asked == ["it removes a home directory"]


def test_the_policy_can_deny(make: Make) -> None:
    env = make(before_command=destructive_commands("deny"), approve=lambda request, question: True)
    with pytest.raises(DeniedError, match="git push --force"):
        env.execute("git push --force")


def test_the_policy_refuses_another_decision() -> None:
    with pytest.raises(ValueError, match="allowed: 'ask', 'deny'"):
        destructive_commands("allow")  # type: ignore[arg-type]


def test_a_denial_holds_in_a_container_and_starts_none(docker_environment: Make) -> None:
    env = docker_environment(task_id="denied")
    env.before_command = lambda request: request.command == "true"
    with pytest.raises(DeniedError):
        env.execute("touch /made")
    assert not env.life.ever_started
    assert env.execute("true").ok
    assert not env.execute_own("test -e /made").ok
