"""What is in a file's way is said by the type of an error. Moving files is no line of the contract of its own."""

from __future__ import annotations

import errno
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path

from environments.base import BaseEnvironment
from environments.conformance.check import Check, Subject, expect, expect_output, unique
from environments.errors import (
    TargetFileError,
    TargetFileExistsError,
    TargetFileNotFoundError,
    TargetIsADirectoryError,
    TargetNotADirectoryError,
    TargetPermissionError,
    TerminalError,
)

Act = Callable[[], object]


def what_is_in_a_files_way_is_told_by_type(subject: Subject) -> None:
    """By each call in the same way, and without the words of the target's programs."""
    env, name = subject.env, unique("/tmp/dir")
    env.write_bytes(f"{name}/file", b"x")
    with tempfile.TemporaryDirectory() as here:
        folder = Path(here)
        (folder / "source").write_bytes(b"x")
        for kind, number, path, acts in _cases(env, name, folder):
            for act in acts:
                _expect_error(subject, kind, number, path, act)
        expect(sorted(path.name for path in folder.iterdir()) == ["source"], "nothing is made here")
    left = sorted(entry.name for entry in env.list_dir(name))
    expect(left == ["file"], "nothing is made there", left)
    env.remove(name, recursive=True)


def _cases(
    env: BaseEnvironment, name: str, here: Path
) -> tuple[tuple[type[TargetFileError], int, str, tuple[Act, ...]], ...]:
    missing, through, file = f"{name}/none", f"{name}/file/none", f"{name}/file"
    source, target = here / "source", here / "target"
    reading = (
        env.read_bytes,
        lambda path: env.read_bytes(path, limit=1),
        lambda path: env.get_file(path, target),
        lambda path: env.get_dir(path, target),
        env.stat,
        env.list_dir,
        env.remove,
    )
    writing = (
        lambda path: env.write_bytes(path, b"x"),
        lambda path: env.write_bytes(path, bytes(100_000)),
        lambda path: env.put_file(source, path),
        lambda path: env.put_dir(here, path),
        env.mkdir,
    )
    return (
        (TargetFileNotFoundError, errno.ENOENT, missing, _on(missing, reading)),
        (
            TargetFileNotFoundError,
            errno.ENOENT,
            f"{missing}/none",
            (lambda: env.mkdir(f"{missing}/none", parents=False),),
        ),
        (TargetNotADirectoryError, errno.ENOTDIR, through, _on(through, (*reading, *writing))),
        (TargetNotADirectoryError, errno.ENOTDIR, file, _on(file, (reading[3], reading[5], writing[3]))),
        (TargetIsADirectoryError, errno.EISDIR, name, _on(name, (*reading[:3], reading[6], *writing[:3]))),
        (TargetIsADirectoryError, errno.EISDIR, f"{missing}/", _on(f"{missing}/", writing[:3])),
        (TargetFileExistsError, errno.EEXIST, file, _on(file, (writing[4],))),
        (TargetFileExistsError, errno.EEXIST, name, (lambda: env.mkdir(name, exist_ok=False),)),
    )


def _on(path: str, calls: tuple[Callable[[str], object], ...]) -> tuple[Act, ...]:
    return tuple(lambda call=call: call(path) for call in calls)


def what_a_user_may_not_do_is_told_by_type(subject: Subject) -> None:
    """Where the target's user is not root, whom modes do not hold."""
    env, name = subject.env, unique("/tmp/dir")
    if env.execute_oneshot("id -u").output == "0\n":
        return
    env.execute_oneshot(f"mkdir -p {name}/shut {name}/fixed; echo x >{name}/secret; cd {name}")
    env.execute_oneshot(f"cd {name}; echo x >shut/file; echo x >fixed/file; chmod 0 shut secret; chmod 555 fixed")
    try:
        for path, acts in (
            (f"{name}/secret", (env.read_bytes,)),
            (f"{name}/shut/file", (env.read_bytes, env.stat, env.exists, env.remove, env.list_dir, env.mkdir)),
            (f"{name}/shut", (env.list_dir,)),
            (f"{name}/fixed/new", (env.mkdir, lambda path: env.write_bytes(path, b"x"))),
            (f"{name}/fixed/new/new", (env.mkdir, lambda path: env.write_bytes(path, b"x"))),
            (f"{name}/fixed/file", (env.remove,)),
            (f"{name}/fixed", (lambda path: env.remove(path, recursive=True),)),
        ):
            for act in acts:
                _expect_error(subject, TargetPermissionError, errno.EACCES, path, lambda act=act, path=path: act(path))  # type: ignore[misc]
    finally:
        env.execute_oneshot(f"chmod -R u+rwx {name}; rm -rf {name}")


def a_file_that_cannot_be_written_ends_nothing_else(subject: Subject) -> None:
    """As what runs there ends with a shell of ours that ends with the program."""
    env, name = subject.env, unique("/tmp/dir")
    env.execute_oneshot(f"mkdir {name}; mkfifo {name}/pipe")
    process = env.start("sleep 321")
    with tempfile.TemporaryDirectory() as here:
        source = Path(here, "file")
        source.write_bytes(b"x" * 100_000)
        try:
            env.put_file(source, f"{name}/pipe")
        except TerminalError:
            pass
        else:
            expect(False, "it is not written")
        expect_output(env, "sleep 2; echo on", "on\n")
        expect(process.running, "what runs beside runs on", process.poll())
    process.kill()
    env.remove(name, recursive=True)


def _expect_error(subject: Subject, kind: type[TargetFileError], number: int, path: str, act: Act) -> None:
    try:
        act()
    except TargetFileError as error:
        expect(type(error) is kind, f"{path} raises {kind.__name__}", error)
        expect(error.errno == number and error.filename == path, "errno and filename are set", error)
        backend = subject.env.settings.env
        expect(path in str(error) and repr(backend) in str(error), "path and backend are named", str(error))
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  # which is our own
        expect((type(again), str(again), again.errno) == (kind, str(error), number), "it can be pickled", again)
    else:
        expect(False, f"{path} raises {kind.__name__}")


CHECKS = tuple(
    Check(5, run)
    for run in (
        what_is_in_a_files_way_is_told_by_type,
        what_a_user_may_not_do_is_told_by_type,
        a_file_that_cannot_be_written_ends_nothing_else,
    )
)
