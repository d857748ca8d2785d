"""`write_file` and `patch` refuse denied files in a minimal image."""

from __future__ import annotations

from collections.abc import Callable

from targets.engines import MINIMAL_IMAGE

from environments.docker import DockerEnvironment
from hermes_tools.files.read_file import read_file
from hermes_tools.files.write_file import write_file
from hermes_tools.patch.patch import patch


def is_refused(answer: object) -> bool:
    return "is not written: " in dict(answer).get("error", "")  # type: ignore[call-overload]


def test_denied_files_are_refused_without_bash_and_the_usual_tools(
    docker_environment: Callable[..., DockerEnvironment],
) -> None:
    env = docker_environment(image=MINIMAL_IMAGE, write_safe_root="/")
    env.execute("cd; mkdir -p .ssh work/sub; ln -s ../.ssh/config work/link; echo one >work/a; cd work")
    env.execute("ln -s ../../.ssh/config sub/link; echo one >../.netrc; ln ../.netrc alias")
    for path in ("~/.bashrc", "link", "sub/link", "alias", "../.ssh/new/x", "/etc/sudoers.d/mine"):
        answer = write_file(env, path, "x")
        assert is_refused(answer), answer
    assert patch(env, "a", "one", "two")["replacements"] == 1
    assert is_refused(patch(env, mode="patch", patch="*** Begin Patch\n*** Move File: a -> ../.ssh/a\n*** End Patch"))
    assert write_file(env, "b/c", "x")["created"]
    assert read_file(env, "a")["content"] == "     1|two\n"
