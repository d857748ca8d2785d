"""Line 1: state kept between the commands of a session, and the initial state of a session."""

from __future__ import annotations

from environments.conformance.check import (
    Subject,
    beside,
    check,
    expect,
    expect_output,
    expect_raised,
    running,
    unique,
    wait_until,
)
from environments.errors import EnvironmentStartError, TerminalError


@check(1)
def the_session_keeps_its_working_directory(subject: Subject) -> None:
    env, name = subject.env, unique("d ir\n'\"$x")
    home = env.cwd
    env.write_bytes(f"/tmp/{name}/f", b"")
    quoted = name.replace("'", "'\\''")
    result = env.execute(f"cd '/tmp/{quoted}'")
    expect(result.cwd == f"/tmp/{name}", "the result names the new directory", result)
    expect(env.cwd == f"/tmp/{name}", "the environment names it", env.cwd)
    expect_output(env, "ls", "f\n")
    expect_output(env, f"cd '{home}' && rm -r '/tmp/{quoted}'", "")


@check(1)
def the_session_keeps_exports_and_variables(subject: Subject) -> None:
    env, name = subject.env, unique("V")
    env.execute(f"export {name}='a b\n\"c\"'; plain_{name}=5")
    expect_output(env, f'printf %s "${name}-$plain_{name}"', 'a b\n"c"-5')
    env.execute(f"unset {name} plain_{name}")


@check(1)
def the_session_keeps_functions_aliases_and_options(subject: Subject) -> None:
    env, name = subject.env, unique("f")
    if not env.capabilities.persistent_session:
        return
    env.execute(f"{name}() {{ echo function; }}; alias a{name}='echo alias'; set -f")
    expect_output(env, f"{name}; a{name}; echo *", "function\nalias\n*\n")
    env.execute(f"unset -f {name}; unalias a{name}; set +f")


@check(1)
def exit_gives_its_code_and_keeps_cwd_and_exports(subject: Subject) -> None:
    env, name = subject.env, unique("V")
    home = env.cwd
    result = env.execute(f"cd /tmp; export {name}='x\ny'; exit 3")
    expect(result.exit_code == 3, "exit 3 gives 3", result)
    expect(not result.timed_out and not result.interrupted, "it was neither timed out nor interrupted", result)
    expect_output(env, f'pwd; printf %s "${name}"', "/tmp\nx\ny")
    env.execute(f"unset {name}; cd '{home}'")


@check(1)
def each_of_these_gives_its_own_result_and_the_next_command_works(subject: Subject) -> None:
    """Each command would end, block or silence a shell as part of the shell's own script."""
    env = subject.env
    for command, code, output in (
        ("exec echo replaced", 0, "replaced\n"),
        ("exec sh -c 'exit 7'", 7, ""),
        ("set -e; false; echo no", 1, ""),
        ("exec >/dev/null; echo lost", 0, ""),
        ("exec 1>&- 2>&-", 0, ""),
        ("exec 0</dev/null; cat", 0, ""),
        ("kill -9 $$", 137, ""),
        ("kill -TERM $$; sleep 1", 143, ""),
        ("sh -c 'kill -USR1 $PPID'; sleep 1; echo no", 138, ""),
        ("exit 0", 0, ""),
        ("printf() { echo no; }; cd() { echo no; }; echo fine", 0, "fine\n"),
        ("command() { echo no; }; echo fine", 0, "fine\n"),
        ("alias if='echo no' '{'='echo no' while='echo no'; echo fine", 0, "fine\n"),
        ("PWD=/no/such/place; echo fine", 0, "fine\n"),
        ("PATH=; echo fine", 0, "fine\n"),
        ("IFS=x; echo fine", 0, "fine\n"),
        ("trap 'echo bye' EXIT; exit 4", 4, "bye\n"),
        ("trap '' TERM; echo fine", 0, "fine\n"),
        ("set -u; echo fine", 0, "fine\n"),
        ("false", 1, ""),
        ("", 0, ""),
        ("# only a comment", 0, ""),
        ("echo a # comment", 0, "a\n"),
        ("echo a &\nwait", 0, "a\n"),
    ):
        result = env.execute(command, timeout=60)
        expect((result.exit_code, result.output) == (code, output), f"{command!r} gives {code} and {output!r}", result)
        after = env.execute("set +eu; echo after", timeout=60)
        expect(after.output == "after\n", f"the command after {command!r} works", after)
        env.execute(
            "unset -f printf cd command 2>/dev/null; unset IFS; trap - EXIT TERM; unalias if '{' while 2>/dev/null"
        )
        env.execute("PATH=/usr/local/bin:/usr/bin:/bin")


@check(1)
def broken_syntax_is_an_error_of_its_own(subject: Subject) -> None:
    env = subject.env
    for command in ('echo "unclosed', "for", "if true; then", "echo )", "{ echo a", "cat <<END\nhere"):
        result = env.execute(command, timeout=60)
        closed_by_the_end = command.startswith("cat")  # the end of the text may close a here-document
        expect(closed_by_the_end or result.exit_code != 0, f"{command!r} fails", result)
        expect_output(env, "echo after", "after\n")


@check(1)
def a_directory_for_one_command_is_left_again(subject: Subject) -> None:
    env = subject.env
    home = env.cwd
    result = env.execute("pwd", cwd="/tmp")
    expect(result.output == "/tmp\n" and result.cwd == "/tmp", "the command ran there", result)
    expect_output(env, "pwd", f"{home}\n")
    result = env.execute("echo ran", cwd="/no/such/place")
    expect(result.exit_code != 0 and "ran\n" not in result.output, "without that directory it does not run", result)
    expect(env.cwd == home, "and the session has not moved", env.cwd)


@check(1)
def state_outlives_a_shell_that_is_killed(subject: Subject) -> None:
    env, name = subject.env, unique("V")
    home = env.cwd
    env.execute(f"export {name}='x\ny'; umask 027; cd /tmp")
    pid = env.execute("echo $$").output.strip()
    env.execute_oneshot(f"kill -9 {pid}; sleep 0.2")
    expect_output(env, f'printf %s "${name}"; pwd', "x\ny/tmp\n")
    expect(env.execute("umask").output.strip() in ("0027", "027"), "the umask lasts too")
    env.execute(f"unset {name}; umask 022; cd '{home}'")


@check(1)
def a_stopped_shell_goes_on_with_the_next_command(subject: Subject) -> None:
    """The time-out of the next command begins when the shell continues."""
    env, place = subject.env, unique("/tmp/ran")
    pid = env.execute("echo $$").output.strip()
    env.execute_oneshot(f"kill -STOP {pid}")
    result = env.execute(f"echo ran | tee -a {place}", timeout=1)
    expect((result.output, result.timed_out) == ("ran\n", False), "the command ran", result)
    expect_output(env, f"cat {place}; rm {place}", "ran\n")


@check(1)
def the_directory_is_where_the_shell_is(subject: Subject) -> None:
    env = subject.env
    home = env.cwd
    for command in ("cd /usr; PWD=/tmp", "cd /; unset PWD", "cd /tmp; readonly PWD", "cd /usr"):
        place = env.execute(f"{command} 2>/dev/null; command -p env pwd").output.strip()
        expect(env.cwd == place, f"{command!r} leaves the session there", (env.cwd, place))
        expect_output(env, "command -p env pwd", f"{place}\n")
        result = env.execute_oneshot("command -p env pwd")
        expect(result.output == f"{place}\n", "and what runs beside it", result)
    env.execute("exec true")
    env.execute(f"cd '{home}' 2>/dev/null")


@check(1)
def what_is_unset_stays_unset(subject: Subject) -> None:
    env = subject.env
    home = env.execute("echo $HOME").output.strip()
    env.execute("unset HOME; exit 0")
    expect_output(env, 'echo "${HOME-none}"', "none\n")
    env.execute(f"export HOME='{home}'")


@check(1)
def a_directory_that_is_gone_is_an_error(subject: Subject) -> None:
    with subject.make() as env:
        place = unique("/tmp/gone")
        env.execute(f"mkdir {place}; cd {place}; rmdir {place}; exit 1")
        for run in (env.execute, env.execute_oneshot):
            result = run("echo ran", timeout=60)
            expect(result.exit_code != 0 and "ran\n" not in result.output, "it does not run", result)
        expect_output(env, "cd /tmp && pwd", "/tmp\n")
        expect(env.cwd == "/tmp", "the session has left it", env.cwd)


@check(1)
def variables_for_one_command_are_its_own(subject: Subject) -> None:
    env, name = subject.env, unique("V")
    for run in (env.execute, env.execute_oneshot):
        command = f'true; printf %s "${name}"; sh -c \'printf %s "${name}"\''
        result = run(command, env={name: 'it\'s "1"\n'}, timeout=60)
        expect(result.output == 'it\'s "1"\n' * 2, "the command sees them, and what it starts", result)
    expect_output(env, f'echo "${{{name}-none}}"', "none\n")


@check(1)
def a_directory_may_be_relative_or_of_the_home(subject: Subject) -> None:
    env, name = subject.env, unique("d")
    home = env.cwd
    env.execute(f"cd /tmp; mkdir -p {name}/sub; cd {name}")
    for run in (env.execute, env.execute_oneshot):
        result = run("pwd", cwd="sub", timeout=60)
        expect(result.output == f"/tmp/{name}/sub\n", "a relative one is the session's", result)
        expect(result.cwd == f"/tmp/{name}/sub", "and the result says so", result)
        expect(run("pwd", cwd="~").output == env.execute_oneshot("cd; pwd").output, "~ is the home")
    env.execute(f"cd '{home}'; rm -r /tmp/{name}")


@check(1)
def a_session_of_a_name_has_a_state_of_its_own(subject: Subject) -> None:
    env = subject.env
    before = env.execute("unset NAMED; pwd", timeout=60).output
    with env.session("build", cwd="/") as build, env.session("other") as other:
        expect_output(build, "pwd; cd /tmp; export NAMED=build; plain=1; f() { echo f; }", "/\n")
        expect_output(other, "export NAMED=other; exit 3", "", 3)
        expect(env.session("build") is build and build.cwd == "/tmp", "the same name is the same session", build.cwd)
        expect_output(build, "f; echo $NAMED $plain; pwd", "f\nbuild 1\n/tmp\n")
        expect_output(other, "echo $NAMED $plain", "other\n")
        expect_output(env, "echo $NAMED; pwd", f"\n{before}")
    with expect_raised(TerminalError, "one that was closed takes no command"):
        build.execute("true")
    with env.session("build") as again:
        expect_output(again, "echo $NAMED", "\n")


@check(4)
def sessions_run_side_by_side_and_are_interrupted_alone(subject: Subject) -> None:
    env, file, word = subject.env, unique("/tmp/meeting"), unique()
    with env.session("build") as build, env.session("other") as other:
        with beside(
            lambda: build.execute(f"while [ ! -e {file} ]; do sleep 0.1; done; echo met", timeout=60)
        ) as results:
            expect_output(other, f": >{file}; echo made", "made\n")
        expect(results[0].output == "met\n", "both ran at once", results[0])
        with beside(
            lambda: build.execute(f"plain=1; sh -c ': {word}; sleep 1000; :'; echo after", timeout=60)
        ) as results:
            begun = wait_until(lambda: running(env, word) > 0)
            env.interrupt()
            other.interrupt()
            expect_output(other, f"rm {file}; echo goes on", "goes on\n")
            expect(begun and build.busy and not results, "an interrupt of others leaves it")
            build.interrupt()
        expect(results[0].interrupted and results[0].exit_code == 130, "its own ends it", results[0])
        expect(not build.busy and running(env, word) == 0, "and nothing is left of the command")


@check(9)
def a_session_that_is_closed_leaves_nothing(subject: Subject) -> None:
    env, behind, word = subject.env, unique(), unique()
    env.execute("kept=1", timeout=60)
    session = env.session("closed")
    session.execute(f"sh -c ': {behind}; sleep 1000; :' >/dev/null 2>&1 &", timeout=60)
    with beside(lambda: session.execute(f"sh -c ': {word}; sleep 1000; :'", timeout=60)) as results:
        expect(wait_until(lambda: running(env, behind) > 0 and running(env, word) > 0), "both run")
        session.close()
    expect(results[0].interrupted, "the command was interrupted", results[0])
    expect(wait_until(lambda: running(env, behind) + running(env, word) == 0, 2), "nothing is left")
    expect_output(env, "echo $kept; unset kept", "1\n")


@check(1)
def a_session_begins_with_its_init_files(subject: Subject) -> None:
    """An init file is an error if missing, or if the shell ends."""
    name = unique("V")
    path = f"/tmp/{name}.sh"
    with subject.make(login_shell=True, init_files=(path,), init_timeout=100) as env:  # the user's profile may be slow
        place = env.cwd
        for text, said in ((None, "does not exist"), ("echo last words; exit 3", "last words")):
            if text:
                env.write_bytes(path, text.encode())
            with expect_raised(EnvironmentStartError, f"with the init file {text!r} no command runs") as raised:
                env.execute("echo ran")
            error = str(raised[0])
            expect(path in error and said in error, f"the error says {said!r}, and of which file", error)
        text = f"export {name}='a b'; {name}() {{ echo \"$1 ${name}\"; }}; cd /; cat; echo noise; set -eu\n"
        env.write_bytes(path, text.encode())
        expect_output(env, f"{name} x; false; pwd", f"x a b\n{place}\n")
        for run in (env.execute_oneshot, env.session("other").execute):
            result = run(f'echo "${name}"', timeout=60)
            expect(result.output == "a b\n", "what it exports is there beside the session, and in others", result)
        env.execute(f"rm {path}; export {name}=own; exit 0")
        expect_output(env, f'echo "${name}"', "own\n")
