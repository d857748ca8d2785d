"""`search_files` in containers: number of processes started by a call, and BusyBox's grep."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE
from targets.processes import newest_pid

from environments.docker import DockerEnvironment
from hermes_tools.search.search_files import search_files

CALLS: tuple[dict[str, object], ...] = (
    {"pattern": "needle"},
    {"pattern": "needle", "context": 2, "file_glob": "*.py"},
    {"pattern": "needle", "output_mode": "count"},
    {"pattern": "needle", "path": "a.py"},
    {"pattern": "*.py", "target": "files"},
)


@pytest.mark.parametrize("image", [PYTHON_IMAGE, MINIMAL_IMAGE])
def test_a_search_starts_no_more_than_a_oneshot_and_busybox_one_more(
    docker_environment: Callable[..., DockerEnvironment], image: str
) -> None:
    env = docker_environment(image=image)
    env.execute("mkdir -p /tmp/tree && cd /tmp/tree && echo needle | tee a.py b.py c.txt")
    look = min(-(newest_pid(env) - newest_pid(env)) for _ in range(3))
    # The program replaces the one-shot's shell. BusyBox's `find` runs grep. Threads have ids, too.
    most = look + (image == MINIMAL_IMAGE)
    for arguments in CALLS:
        started = []
        for _ in range(3):
            before = newest_pid(env)
            assert search_files(env, **arguments)["matches"]  # type: ignore[arg-type]
            started.append(newest_pid(env) - before - look)
        # At least one of three calls runs while no spare shell is being opened.
        assert min(started) <= most, (arguments, started)


def test_a_target_with_the_grep_of_busybox(docker_environment: Callable[..., DockerEnvironment]) -> None:
    env = docker_environment(image=MINIMAL_IMAGE)
    env.execute(
        "mkdir -p /tmp/tree/.git /tmp/tree/sub && cd /tmp/tree && echo needle >.git/config; echo needle >a:1:b; "
        "printf 'a\\nneedle\\nb\\n--\\nc\\nd-6-e\\nneedle' >2024-01-15-post.md; printf '\\0needle\\n' >sub/binary; "
        "echo 'Needle 5:2' >sub/c.txt"
    )
    result = search_files(env, "(?i)needle", context=1)
    assert result == {
        "matches": [
            {"path": "2024-01-15-post.md", "line": 2, "content": "needle", "before": ["a"], "after": ["b"]},
            {"path": "2024-01-15-post.md", "line": 7, "content": "needle", "before": ["d-6-e"], "after": []},
            {"path": "sub/c.txt", "line": 1, "content": "Needle 5:2", "before": [], "after": []},
        ],
        "total_count": 3,
        "truncated": False,
        "engine": "grep",
    }
    (found,) = search_files(env, "5:2", path="sub")["matches"]
    assert found == {"path": "sub/c.txt", "line": 1, "content": "Needle 5:2"}
    for mode, match in (("files_only", {"path": "sub/c.txt"}), ("count", {"path": "sub/c.txt", "count": 1})):
        assert search_files(env, "Needle", output_mode=mode, file_glob="*.{txt,md}")["matches"] == [match]
    (line,) = search_files(env, "^b", path="2024-01-15-post.md", context=1)["matches"]
    assert (line["before"], line["after"]) == (["needle"], ["--"])
    assert search_files(env, "(")["error"].startswith("grep refused the search: ")
    assert search_files(env, r"\d")["error"].startswith("the target has no ripgrep")
    assert search_files(env, "nothing of the kind")["matches"] == []
