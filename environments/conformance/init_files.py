"""Line 1: what a session begins with, by `login_shell` and `init_files`."""

from __future__ import annotations

from environments.conformance.check import Check, Subject, expect, expect_output, unique
from environments.errors import EnvironmentStartError


def a_session_begins_with_its_init_files(subject: Subject) -> None:
    """Before its first command, and in its own shell; one that is missing, or ends the shell, is an error."""
    name = unique("V")
    path = f"/tmp/{name}.sh"
    with subject.make(login_shell=True, init_files=(path,), init_timeout=100) as env:  # the user's own may take long
        place = env.cwd
        for text, said in ((None, "does not exist"), ("echo last words; exit 3", "last words")):
            if text:
                env.write_bytes(path, text.encode())
            try:
                result = env.execute("echo ran")
            except EnvironmentStartError as error:
                expect(path in str(error) and said in str(error), f"the error says {said!r}, and of which file", error)
            else:
                expect(False, f"with the init file {text!r} no command runs", result)
        text = f"export {name}='a b'; {name}() {{ echo \"$1 ${name}\"; }}; cd /; cat; echo noise; set -eu\n"
        env.write_bytes(path, text.encode())
        expect_output(env, f"{name} x; false; pwd", f"x a b\n{place}\n")
        for run in (env.execute_oneshot, env.session("other").execute):
            result = run(f'echo "${name}"', timeout=60)
            expect(result.output == "a b\n", "what it exports is there beside the session, and in others", result)
        env.execute(f"rm {path}; export {name}=own; exit 0")
        expect_output(env, f'echo "${name}"', "own\n")


CHECKS = (Check(1, a_session_begins_with_its_init_files),)
