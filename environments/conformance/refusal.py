"""Line 10: refusal of unsupported requests: limits, bad arguments, users, ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from environments.base import BaseEnvironment
from environments.conformance.check import (
    Subject,
    check,
    expect,
    expect_output,
    expect_raised,
    running,
    unique,
    wait_until,
)
from environments.errors import UnsupportedError
from environments.target import TargetKind

PORT = 8000
NUMBERS = (65534, 65533)
"""User ids without an account in most targets. One of them may be the target's own user."""
_HARD = "a b\n'c' \"$HOME\" `id` \\ *\n\n"
_WHO = "id -u; echo $HOME; echo $USER $LOGNAME"


@check(10)
def a_limit_that_cannot_be_enforced_is_refused(subject: Subject) -> None:
    for name, value in subject.refused_settings.items():
        with (
            expect_raised(UnsupportedError, f"{name} raises UnsupportedError") as raised,
            subject.make(**{name: value}) as env,
        ):
            env.execute("true")
        expect(name in str(raised[0]), f"the error names {name}", raised)


@check(10)
def a_limit_that_is_enforced_is_declared(subject: Subject) -> None:
    both = subject.env.capabilities.enforced_limits & set(subject.refused_settings)
    expect(not both, "no setting is both enforced and refused", both)


@check(10)
def bad_arguments_are_refused_and_harm_nothing(subject: Subject) -> None:
    env = subject.env
    acts: tuple[Callable[[BaseEnvironment], object], ...] = (
        lambda env: env.execute("echo \0"),
        lambda env: env.execute("echo", timeout=0),
        lambda env: env.execute("echo", timeout=-1),
        lambda env: env.execute("echo", cwd=""),
        lambda env: env.execute("echo", stderr="apart"),  # type: ignore[arg-type]
        lambda env: env.execute_oneshot("echo \0"),
        lambda env: env.start("echo \0"),
    )
    for act in acts:
        with expect_raised(ValueError, "it raises ValueError"):
            act(env)
    expect_output(env, "echo fine", "fine\n")


@check(10)
def the_target_says_what_it_is(subject: Subject) -> None:
    target = subject.env.target
    expect(bool(target.backend) and target.kind in get_args(TargetKind), "it has a backend and a kind", target)
    expect(subject.env.target == target, "it is the same each time", subject.env.target)
    expect(all(isinstance(word, str) and word for word in target.enter), "the way in is a program's arguments", target)
    line = str(target)
    expect(target.backend in line and "\n" not in line, "it is one line that names the backend", line)


@check(10)
def a_port_has_an_address_or_is_refused(subject: Subject) -> None:
    env = subject.env
    try:
        address = env.address(PORT)
    except UnsupportedError as error:
        expect(repr(env.settings.env) in str(error), "the error names the backend", str(error))
        return
    expect(bool(address.host) and 0 < address.port < 65536, "there is a host and a port", address)
    expect(str(address).endswith(f":{address.port}"), "as text it is both", str(address))
    expect(address.url.startswith(("http://", "https://")), "there is a URL", address.url)


@check(10)
def a_user_is_had_or_refused(subject: Subject) -> None:
    env = subject.env
    own = env.execute_oneshot("id -u", timeout=60).output.strip()
    mine = env.execute_oneshot("id -u", user=own, timeout=60)
    expect(mine.output == f"{own}\n", "its own user is always had", mine)
    _expect_refused(env.execute, "true", own)
    if (number := _another(env)) is None:
        for run in (env.execute_oneshot, env.start, _in_session(env)):
            _expect_refused(run, "true", next(each for each in NUMBERS if str(each) != own))
        return
    names = ("root", "nobody") if _knows(env, "nobody") else ("root",)
    for user in (number, str(number), *names):
        result = env.execute_oneshot(_WHO, user=user, cwd="/", timeout=60)
        uid, home, called = _entry(env, str(user))
        expect(result.output == f"{uid}\n{home}\n{called} {called}\n", f"user {user!r} runs it", result)
        beside = env.execute_oneshot("id -u; cat", user=user, cwd="/", stdin="in", timeout=60)
        expect(beside.output == f"{uid}\nin", "also beside the session", beside)
    process = env.start("id -u; cat", user=number, cwd="/")
    process.write("in")
    process.close_stdin()
    expect(process.wait(60) == 0 and process.read() == f"{number}\nin", "and in the background")


@check(10)
def a_user_that_is_none_is_refused(subject: Subject) -> None:
    name = unique("/tmp/none")
    for run in (subject.env.execute_oneshot, subject.env.start, _in_session(subject.env)):
        _expect_refused(run, f"touch {name}", "no_such_user")
    expect_output(subject.env, f"ls {name} 2>/dev/null | wc -l", "0\n")


@check(1)
def another_user_leaves_the_session_as_it_was(subject: Subject) -> None:
    env, name = subject.env, unique("V")
    home = env.cwd
    if (user := _another(env)) is None:
        return
    env.execute(f"cd /tmp; export {name}=kept")
    command = f"pwd; echo ${name}; cd /; export {name}=lost; exit 3"
    result = env.execute_oneshot(command, user=user, session_env=True, timeout=60)
    expect((result.output, result.exit_code, result.cwd) == ("/tmp\nkept\n", 3, "/tmp"), "it has what it has", result)
    with env.session(name, cwd="/tmp", user=user) as session:
        session.execute(f"export {name}=theirs; cd /", timeout=60)
        result = session.execute(f"id -u; pwd; echo ${name}", timeout=60)
        expect(result.output == f"{user}\n/\ntheirs\n", "its session keeps what it does", result)
    env.execute(f"mkdir -m 700 /tmp/{name} && cd /tmp/{name}")
    closed = env.execute_oneshot(f"touch /tmp/{name}_ran", user=user, timeout=60)
    expect(closed.exit_code != 0, "a directory that it cannot enter is the command's error", closed)
    expect_output(env, f"pwd; echo ${name}; ls -d /tmp/{name}*", f"/tmp/{name}\nkept\n/tmp/{name}\n")
    env.execute(f"cd '{home}'; rmdir /tmp/{name}; unset {name}")


@check(9)
def nothing_of_another_user_outlasts_a_time_out_or_the_end(subject: Subject) -> None:
    if (user := _another(subject.env)) is None:
        return
    word = unique("sleeper")
    sleeper = f"setsid sh -c 'echo $$; sleep 1000; : {word}'"
    with subject.make() as env:
        result = env.execute_oneshot(f"{sleeper} & sleep 1000", user=user, cwd="/", timeout=2)
        expect(result.timed_out and not result.survivors, "it is ended", result)
        there = f"[ -e /proc/{result.output.strip() or 'self'} ]"
        expect(wait_until(lambda: not env.execute_oneshot(there).ok, 2), "with all that it has started", result)
        process = env.start(sleeper, user=user, cwd="/", stdin="none")
        expect(
            wait_until(lambda: bool(process.read())) and process.poll() is None, "what is in the background is there"
        )
    expect(running(subject.env, word) == 0, "until the environment ends")


@check(3)
def what_the_session_exports_is_had_beside_it_on_request(subject: Subject) -> None:
    env, name = subject.env, unique("V")
    show = f'printf %s "$A{name}|${{B{name}-unset}}|${{HOME-unset}}"'
    home = env.execute_oneshot('printf %s "$HOME"', timeout=60).output
    env.execute(f'export A{name}="$(cat; echo x)" B{name}=2; A{name}=${{A{name}%x}}', stdin=_HARD)
    for wanted, change in ((f"{_HARD}|2|{home}", ":"), (f"{_HARD}|unset|unset", f"unset B{name} HOME")):
        env.execute(change)
        result = env.execute_oneshot(show, session_env=True, timeout=60)
        expect(result.output == wanted, "it is all there", result)
        process = env.start(show, session_env=True, stdin="none")
        expect(process.wait(60) == 0 and process.read() == wanted, "also in the background")
    result = env.execute_oneshot(show, session_env=True, env={f"A{name}": "given"}, timeout=60)
    expect(result.output == "given|unset|unset", "what is given for the command is not overruled", result)
    plain = env.execute_oneshot(f"echo $A{name}; echo $HOME", timeout=60)
    expect(plain.output == f"\n{home}\n", "without it nothing of the session is there", plain)
    env.execute(f"unset A{name}; export HOME='{home}'")


def _another(env: BaseEnvironment) -> int | None:
    """Return another user id for commands; None if the target does not support users.

    Raises:
        ConformanceError: The refusal is unjustified.
    """
    own = env.execute_oneshot("id -u", timeout=60).output.strip()
    number = next(each for each in NUMBERS if str(each) != own)
    try:
        env.execute_oneshot("true", user=number, cwd="/", timeout=60)
    except UnsupportedError:
        become = f"setpriv --reuid={number} --regid={number} --clear-groups true"
        mine = env.execute_oneshot(f'[ "$(id -u)" = 0 ] && {become}', timeout=60)
        expect(mine.exit_code != 0, "it is refused only where the target's user may not become another", mine)
        return None
    return number


def _in_session(env: BaseEnvironment) -> Callable[..., object]:
    """Return a function that runs a command in a user's session."""

    def run(command: str, user: str | int) -> object:
        with env.session(unique("session"), user=user) as session:
            return session.execute(command, timeout=60)

    return run


def _expect_refused(run: Callable[..., object], command: str, user: str | int) -> None:
    with expect_raised(UnsupportedError, "it is refused with UnsupportedError"):
        run(command, user=user)


def _knows(env: BaseEnvironment, user: str) -> bool:
    return env.execute_oneshot(f"grep -q ^{user}: /etc/passwd", timeout=60).ok


def _entry(env: BaseEnvironment, user: str) -> tuple[str, str, str]:
    """Return number, home and name of a user, from the target's /etc/passwd."""
    for line in env.execute_oneshot("cat /etc/passwd", timeout=60).output.splitlines():
        name, _, number, _, _, home, _ = line.split(":")
        if user in (name, number):
            return number, home, name
    return user, "/", user
