"""A hook decides about a command before the command has any effect. A hook that fails denies."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from targets.plain_local import PlainLocal

from environments import BaseEnvironment, CallCancelledError, DeniedError, load_settings
from environments.approvals import Allow, Ask, CommandRequest, Deny, destructive_commands
from environments.approvals.hooks import MAX_QUESTIONS
from environments.cancellation import CancelScope

Make = Callable[..., BaseEnvironment]
WAYS = {
    "session": lambda env: env.execute("touch made"),
    "oneshot": lambda env: env.execute_oneshot("touch made"),
    "background": lambda env: env.start("touch made").wait(60),
}


def was_made(env: BaseEnvironment) -> bool:
    return env.internal.execute("test -e made && rm made").ok


def denial_of(env: BaseEnvironment, command: str = "true") -> str:
    with pytest.raises(DeniedError) as denial:
        env.execute(command)
    return str(denial.value)


def test_a_denied_command_is_not_run_and_the_error_has_the_reason(make: Make) -> None:
    env = make(before_command=lambda request: Deny("not on a Sunday"))
    for run in WAYS.values():
        with pytest.raises(DeniedError, match="not on a Sunday") as denial:
            run(env)
        assert denial.value.reason == "not on a Sunday"
        assert not was_made(env)


def test_a_hook_receives_the_command(make: Make) -> None:
    seen: list[CommandRequest] = []
    env = make(before_command=seen.append, task_id="t7")
    for way, run in WAYS.items():
        run(env)
        assert was_made(env)
        assert seen.pop() == CommandRequest("touch made", env.settings.cwd, "local", "t7", way)
    assert seen == []


def test_a_hook_receives_the_directory_of_the_session(make: Make) -> None:
    seen: list[str | None] = []
    env = make(before_command=lambda request: seen.append(request.cwd))
    env.execute("mkdir sub; cd sub")
    env.execute("true")
    env.execute("true", cwd="/tmp")
    env.execute("true")
    assert seen == [env.settings.cwd, f"{env.settings.cwd}/sub", "/tmp", f"{env.settings.cwd}/sub"]


def test_a_denial_starts_no_target(make: Make) -> None:
    env = make(before_command=lambda request: False)
    denial_of(env)
    assert not env.life.generation


def test_these_answers_allow(make: Make) -> None:
    env = make()
    for answer in (None, True, Allow()):
        env.gate.before_command = lambda request, answer=answer: answer
        assert env.execute("echo ran").output == "ran\n"


def test_all_other_answers_deny(make: Make) -> None:
    env = make()
    for answer in (False, "use make", "", 0, 1, [], object(), Deny("no"), Ask("sure?"), Allow, Ask):
        env.gate.before_command = lambda request, answer=answer: answer
        assert ("use make" in denial_of(env)) == (answer == "use make"), "a plain text is the reason"
    env.gate.before_command = None
    assert env.execute("true").ok


def test_a_hook_that_raises_denies_without_its_secrets(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the key is sk-live-1")

    for env in (make(before_command=fail), make(before_command=lambda request: Ask("?"), approve=fail)):
        caplog.clear()
        reason = denial_of(env)
        assert "RuntimeError" in reason and "sk-live-1" not in reason
        assert "the key is sk-live-1" in caplog.text, "the reason is in the log"


def test_a_denial_does_not_wait_for_the_session_lock(make: Make, nap: str) -> None:
    begun = threading.Event()
    env = make(before_command=lambda request: "sleep" in request.command)
    thread = threading.Thread(
        target=env.execute, args=(f"echo begun; sleep {nap}",), kwargs={"on_output": lambda text: begun.set()}
    )
    thread.start()
    assert begun.wait(60)
    try:
        denial_of(env)
    finally:
        env.cleanup()
        thread.join(60)


def test_a_hook_is_called_under_no_lock_so_that_it_can_run_commands_itself(make: Make) -> None:
    env = make()
    env.gate.before_command = lambda request: env.internal.execute("test -d .git").ok or "this is no repository"
    assert "no repository" in denial_of(env)
    env.internal.execute("mkdir .git")
    assert env.execute("true").ok
    env.gate.before_command = lambda request: env.execute("true").ok
    assert denial_of(env), "a hook that calls itself without end denies"


def test_a_hook_of_a_command_is_called_in_the_callers_thread_and_approve_in_one_of_its_own(make: Make) -> None:
    threads: list[threading.Thread] = []

    def before_command(request: CommandRequest) -> Ask:
        threads.append(threading.current_thread())
        return Ask("?")

    def approve(request: object, question: str) -> bool:
        threads.append(threading.current_thread())
        return True

    assert make(before_command=before_command, approve=approve).execute("true").ok
    asking, answering = threads
    assert asking is threading.current_thread()
    assert answering is not asking


def test_files_and_internal_commands_are_not_asked_about(make: Make) -> None:
    env = make(before_command=lambda request: False)
    env.write_bytes("a file", b"x")
    assert env.read_bytes("a file") == b"x"
    assert env.internal.execute("echo own").output == "own\n"
    assert env.internal.start("exit 7").wait(60) == 7


def test_hooks_hold_for_other_backends(make: Make) -> None:
    make()  # sets up a user without settings
    with PlainLocal(load_settings("local")) as env:
        env.gate.before_command = lambda request: False
        denial_of(env)


# Asking.


def test_approval_decides_where_a_hook_asks(make: Make) -> None:
    asked, answers = [], []

    def approve(request: CommandRequest, question: str) -> object:
        asked.append((request.command, question))
        return answers[-1]

    env = make(before_command=lambda request: Ask("really?"), approve=approve)
    for answer in (True, Allow()):
        answers.append(answer)
        assert env.execute("true").ok
    for answer in (False, None, "no", Ask("again?"), 1, [], Deny("never")):
        answers.append(answer)
        denial_of(env)
    assert asked == [("true", "really?")] * len(answers)


def test_asking_without_approve_denies_and_names_it(make: Make) -> None:
    with pytest.raises(DeniedError, match=r"needs approval .really.* no `approve` is set"):
        make(before_command=lambda request: Ask("really?")).execute("true")


def test_an_answer_that_does_not_come_in_time_is_a_denial(make: Make, configure: Callable[[str], None]) -> None:
    configure("approvals: {commands: ask, timeout: 0.01}")
    answer = threading.Event()
    env = make(approve=lambda request, question: answer.wait(60))
    assert "it was not approved within 0.01 s" in denial_of(env)
    reasons = [denial_of(env) for _ in range(MAX_QUESTIONS + 1)]
    assert "questions wait" in reasons[-1], "questions without an answer do not pile up"
    assert sum(thread.name == "hermes-approval" for thread in threading.enumerate()) <= MAX_QUESTIONS
    answer.set()


def test_cancelling_ends_the_wait_for_an_answer(make: Make) -> None:
    answer = threading.Event()
    scopes: list[CancelScope] = []

    def approve(request: object, question: str) -> bool:
        scopes[-1].cancel()
        return answer.wait(60)

    env = make(before_command=lambda request: Ask("?"), approve=approve)
    for way, run in WAYS.items():
        scopes.append(CancelScope())
        with scopes[-1].active():
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


def test_an_answer_after_the_cancelling_counts_for_nothing(make: Make) -> None:
    for answer in (True, False):
        scope = CancelScope()
        env = make(
            before_command=lambda request: Ask("?"),
            approve=lambda request, question, scope=scope, answer=answer: (scope.cancel(), answer)[1],
        )
        with scope.active():
            assert env.execute("true").interrupted


# The policy as a hook.


def test_the_policy_asks_about_destructive_commands_alone(make: Make) -> None:
    asked = []
    env = make(before_command=destructive_commands(), approve=lambda request, question: asked.append(question))
    assert env.execute("mkdir x && rm -rf x").ok
    denial_of(env, "rm -rf ~/.ssh/nothing-here ~")
    assert asked == ["it removes a home directory"]


def test_the_policy_can_deny_and_takes_no_other_decision(make: Make) -> None:
    env = make(before_command=destructive_commands("deny"), approve=lambda request, question: True)
    assert "git push --force" in denial_of(env, "git push --force")
    with pytest.raises(ValueError, match="allowed: 'ask', 'deny'"):
        destructive_commands("allow")  # type: ignore[arg-type]
