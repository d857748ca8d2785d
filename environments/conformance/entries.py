"""Looking at, making and removing files and directories."""

from __future__ import annotations

import shlex

from environments.conformance.check import Check, Subject, expect, unique


def entries_are_listed_and_looked_at(subject: Subject) -> None:
    """With names of any bytes, and links as links."""
    env, name = subject.env, unique("/tmp/dir")
    env.mkdir(f"{name}/sub/deep", mode=0o750)
    env.write_bytes(f"{name}/-rf", b"12345")
    env.execute_oneshot(f"cd {name} && chmod 640 ./-rf && touch -d @1000000000 ./-rf && ln -s '//x -> y' 'li -> nk'")
    env.execute_oneshot(f"cd {name} && mkfifo pipe && ln -s sub near")
    for odd in ("a 'b' \"c\" $d", "two\nlines", "caf\udce9"):
        env.write_bytes(f"{name}/{odd}", b"")
    found = env.list_dir(name)
    names = [entry.name for entry in found]
    want = sorted(("-rf", "sub", "li -> nk", "pipe", "near", "a 'b' \"c\" $d", "two\nlines", "caf\udce9"))
    expect(names == want, f"the names are {want!r}", names)
    expect(all(entry.path == f"{name}/{entry.name}" for entry in found), "each has its path")
    by_name = {entry.name: entry for entry in found}
    kinds = {name: by_name[name].kind for name in ("-rf", "sub", "li -> nk", "pipe", "near")}
    wanted = {"-rf": "file", "sub": "directory", "li -> nk": "symlink", "pipe": "other", "near": "symlink"}
    expect(kinds == wanted, f"the kinds are {wanted}", kinds)
    file = by_name["-rf"]
    known = (file.size, file.mode, file.modified, file.uid)
    uid = int(env.execute_oneshot("id -u").output)
    expect(known == (5, 0o640, 1_000_000_000, uid), "size, mode, time and owner are known", file)
    expect(by_name["li -> nk"].link_target == "//x -> y", "so is what a link points to", by_name["li -> nk"])
    for odd in want:
        expect(env.stat(f"{name}/{odd}", follow_symlinks=False) == by_name[odd], f"{odd!r} is the same to stat")
    expect(env.stat(f"{name}/near").is_dir and env.stat(f"{name}/near").link_target is None, "a link is followed")
    modes = env.stat(f"{name}/sub/deep").mode, env.stat(f"{name}/sub").is_dir
    expect(modes == (0o750, True), "a directory is made with its parents and its mode", modes)
    env.remove(name, recursive=True)
    expect(not env.exists(name), "all of it is removed")


def what_is_removed_is_no_more_than_was_asked_for(subject: Subject) -> None:
    """A link and not what it points to; and nothing at all where there is nothing."""
    env, name = subject.env, unique("/tmp/dir")
    env.write_bytes(f"{name}/kept/file", b"x")
    env.execute_oneshot(
        f"cd {shlex.quote(name)} && ln -s kept link && ln -s none broken && mkdir top && ln -s ../kept top/in"
    )
    expect(env.exists(f"{name}/link") and not env.exists(f"{name}/broken"), "a link to nothing is not something")
    env.remove(f"{name}/link")
    env.remove(f"{name}/broken")
    env.remove(f"{name}/top", recursive=True)
    env.remove(f"{name}/none", missing_ok=True)
    for path in ("/", "//", "/tmp/..", "."):
        try:
            env.remove(path, recursive=True)
        except ValueError as error:
            expect(path in str(error), "the path is named", str(error))
        else:
            expect(False, f"{path} is not removed")
    left = [(entry.name, [inner.name for inner in env.list_dir(entry.path)]) for entry in env.list_dir(name)]
    expect(left == [("kept", ["file"])], "what links point to is kept", left)
    env.remove(name, recursive=True)


def the_beginning_of_a_file_is_read(subject: Subject) -> None:
    """And no more of it; also of what does not tell its size."""
    env, name = subject.env, unique("/tmp/file")
    data = bytes(range(256)) * 4000
    env.write_bytes(name, data)
    for limit in (0, 1, 100_000, 600_000, 2_000_000):
        expect(env.read_bytes(name, limit=limit) == data[:limit], f"{limit} bytes are read")
    version = env.read_bytes("/proc/version")
    expect(len(version) > 5 and env.read_bytes("/proc/version", limit=5) == version[:5], "/proc has its files", version)
    try:
        env.read_bytes(name, limit=-1)
    except ValueError as error:
        expect("limit" in str(error), "the limit is named", str(error))
    else:
        expect(False, "a limit below 0 is a ValueError")
    env.remove(name)


CHECKS = tuple(
    Check(5, run)
    for run in (
        entries_are_listed_and_looked_at,
        what_is_removed_is_no_more_than_was_asked_for,
        the_beginning_of_a_file_is_read,
    )
)
