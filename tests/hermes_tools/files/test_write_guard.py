"""`write_file` and `patch` refuse denied files, by any path or link to them."""

from __future__ import annotations

import contextlib
import itertools
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from environments import create_environment
from environments.base import BaseEnvironment
from environments.errors import SettingsError
from environments.local import LocalEnvironment
from environments.options import CheckedCommand
from environments.result import CommandResult
from environments.settings import WRITE_DENYLIST
from environments.shell.files import ShellFiles
from environments.shell.transfer import Runner
from environments.sources import load_settings
from hermes_tools.files.write_file import WriteResult, write_file
from hermes_tools.patch.patch import patch

Make = Callable[..., BaseEnvironment]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home behind a link, beside a working directory."""
    (tmp_path / "real home").mkdir()
    (tmp_path / "home").symlink_to("real home")
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "settings"))
    return tmp_path / "home"


@pytest.fixture(params=["own means", "shell"])
def make(request: pytest.FixtureRequest, home: Path) -> Iterator[Make]:
    """Makes an environment with its own file methods, or with files through the shell."""
    made: list[BaseEnvironment] = []

    def make(**settings: object) -> BaseEnvironment:
        env = create_environment("local", cwd=str(home.parent / "work"), **settings)
        made.append(env)
        if request.param == "shell":
            env.__dict__["files"] = ShellFiles(Runner(cast("LocalEnvironment", env)), "local")
        return env

    yield make
    for env in made:
        env.cleanup()


def refused(answer: object) -> bool:
    return "is not written: " in dict(answer).get("error", "")  # type: ignore[call-overload]


def test_a_denied_file_is_left_by_whatever_path_it_is_reached(make: Make, home: Path) -> None:
    work, env = home.parent / "work", make()
    (work / "to home").symlink_to(home)
    (work / "to ssh").symlink_to(home / ".ssh")
    (work / "to bashrc").symlink_to("../real home/.bashrc")
    (work / "to link to bashrc").symlink_to("to bashrc")
    paths = ["~/.bashrc", "~/.bashrc/", "../work/../home/.bashrc", "to bashrc", "to link to bashrc"]
    paths += ["~/.ssh/authorized_keys", "~/.ssh/new/deep/key", "~/./.ssh//config", "../home/.ssh/config"]
    paths += ["../real home/.ssh/config", "to home/.ssh/config", "to ssh/config", "../settings/config.yaml"]
    for are_there in (False, True):
        if are_there:
            (home / ".ssh").mkdir()
            for name in (".bashrc", ".ssh/config", ".ssh/authorized_keys"):
                (home / name).write_text("before\n")
        assert [path for path in paths if not refused(write_file(env, path, "after\n"))] == []
        assert "after\n" not in [file.read_text() for file in home.parent.rglob("*") if file.is_file()]


def test_a_refusal_names_the_place_and_the_setting(make: Make) -> None:
    error = "~/.ssh/config is not written: ~/.ssh is in the setting write_denylist"
    assert write_file(make(), "~/.ssh/config", "x") == {"path": "~/.ssh/config", "error": error}


def test_a_denied_file_that_is_a_link_is_left_and_so_is_what_it_leads_to(make: Make, home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "bashrc").write_text("before\n")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    env = make()
    assert refused(write_file(env, "~/.bashrc", "x"))
    assert refused(write_file(env, "~/dotfiles/bashrc", "x"))
    (home / "dotfiles" / "bashrc").unlink()
    assert refused(write_file(env, "~/.bashrc", "x"))
    assert not refused(write_file(env, "~/dotfiles/profile", "x"))


def test_a_denied_directory_below_a_link_is_left_before_it_is_made(make: Make, home: Path) -> None:
    (home.parent / "data").mkdir()
    (home / ".config").symlink_to("../data")
    assert refused(write_file(make(), "../data/fish/config.fish", "x"))
    assert not (home.parent / "data" / "fish").exists()


def test_an_unresolvable_path_is_not_written(make: Make, home: Path) -> None:
    env = make()
    (home.parent / "work" / "dangling").symlink_to("../real home/.aws/sub/x")
    for path in ("missing/../../real home/.bashrc", "dangling/x", "dangling"):
        assert refused(write_file(env, path, "x"))
    assert [file.name for file in home.iterdir()] == []


def test_other_files_are_written_as_before(make: Make, home: Path) -> None:
    env = make()
    (home.parent / "work" / "link to a").symlink_to("a")
    for path in ("link to a", "new/dir/b c", "~/.bashrc.d/mine", "~/notes", "-e", "a\nb", "*", "~/.sshx"):
        assert write_file(env, path, "x") == {"path": path, "bytes_written": 1, "created": True}


def test_patch_adds_changes_moves_and_deletes_no_denied_file(make: Make, home: Path) -> None:
    env = make()
    (home / ".profile").write_text("before\n")
    (home / "free").write_text("free\n")
    (home.parent / "work" / "link").symlink_to("../home/.profile")
    assert refused(patch(env, "~/.profile", "before", "after"))
    assert refused(patch(env, "link", "before", "after"))
    for section in (
        "*** Update File: ~/.profile\n-before\n+after\n",
        "*** Delete File: ../home/.profile\n",
        "*** Delete File: link\n",
        "*** Move File: ~/.profile -> gone\n",
        "*** Move File: ~/free -> ~/.ssh/authorized_keys\n",
        "*** Add File: ~/.ssh/rc\n+x\n",
        "*** Update File: ~/free\n-free\n+x\n*** Add File: ../real home/.netrc\n+x\n",
    ):
        answer = patch(env, mode="patch", patch=f"*** Begin Patch\n{section}*** End Patch")
        assert refused(answer), (section, answer)
    assert sorted(file.name for file in home.iterdir()) == [".profile", "free"]
    assert ((home / ".profile").read_text(), (home / "free").read_text()) == ("before\n", "free\n")


def test_a_file_with_a_second_name_that_is_denied_is_left(make: Make, home: Path) -> None:
    (home / ".netrc").write_text("before\n")
    (home.parent / "work" / "alias").hardlink_to(home / ".netrc")
    env = make()
    assert [refused(write_file(env, "alias", "after\n")) for _ in range(3)] == [True] * 3
    assert (home.parent / "work" / "alias").read_text() == (home / ".netrc").read_text() == "before\n"


def test_only_what_is_below_the_safe_root_is_written(make: Make, home: Path) -> None:
    work = home.parent / "work"
    (home / "file").write_text("x\n")
    (work / "out").symlink_to(home)
    (work / "link").symlink_to(home / "file")
    (home.parent / "to work").symlink_to("work")
    env = make(write_safe_root=str(home.parent / "to work"), write_denylist=[])
    for path in ("a", "sub/b", "../to work/c", str(work / "d")):
        assert "error" not in write_file(env, path, "x\n"), path
    for path in ("../e", "out/f", "link", "~/.bashrc", "../work2", "sub/../../g"):
        error = write_file(env, path, "x")["error"]
        assert error.endswith(f"not below {home.parent}/to work, which the setting write_safe_root allows alone"), error
    assert refused(patch(env, "link", "x", "y"))
    assert refused(patch(env, mode="patch", patch="*** Begin Patch\n*** Move File: a -> ../a\n*** End Patch"))
    assert patch(env, "a", "x", "y")["files_changed"] == 1


def test_a_safe_root_that_is_not_there_lets_nothing_be_written(make: Make) -> None:
    assert "not a directory of the target" in write_file(make(write_safe_root="/no such place"), "a", "x")["error"]


def test_an_empty_list_denies_our_own_settings_alone(make: Make, home: Path) -> None:
    env = make(write_denylist=[])
    assert "error" not in write_file(env, "~/.bashrc", "x")
    assert refused(write_file(env, "../settings/config.yaml", "x"))


def test_a_users_own_list_replaces_the_default(make: Make, home: Path) -> None:
    env = make(write_denylist=[str(home.parent / "work" / "kept"), "~/a b/"])
    assert refused(write_file(env, "kept", "x"))
    assert refused(write_file(env, "~/a b/c", "x"))
    assert "error" not in write_file(env, "kept.txt", "x")
    assert refused(write_file(make(write_denylist=["/"]), "a", "x"))
    assert refused(write_file(make(write_denylist=["~"]), "~/a", "x"))


def test_the_write_guard_does_not_bind_commands(make: Make, home: Path) -> None:
    assert make().execute("echo x >~/.bashrc").exit_code == 0
    assert (home / ".bashrc").exists()


def test_the_settings_come_from_variables_and_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_WRITE_DENYLIST", '["~/.x", "/y"]')
    monkeypatch.setenv("TERMINAL_WRITE_SAFE_ROOT", "/srv")
    settings = load_settings("local")
    assert (settings.write_denylist, settings.write_safe_root) == (("~/.x", "/y"), "/srv")
    with pytest.raises(SettingsError, match="write_denylist"):
        load_settings("local", write_denylist=["relative"])
    with pytest.raises(SettingsError, match="write_safe_root"):
        load_settings("local", write_safe_root="relative")


def test_the_usual_list_has_paths_that_can_be_compared() -> None:
    assert len(set(WRITE_DENYLIST)) == len(WRITE_DENYLIST)
    assert all(path.startswith(("~/", "/")) and not path.endswith("/") for path in WRITE_DENYLIST)


class _Through(Runner):
    """Runs each text in another shell."""

    shell = ""

    async def run(self, command: CheckedCommand) -> CommandResult:
        text = "".join((*command.functions, command.text))
        return await super().run(command._replace(text=f"{self.shell} -c {shlex.quote(text)}", functions=()))


@pytest.mark.parametrize("shell", ["dash", "bash --posix"])
def test_every_posix_shell_resolves_paths_alike(make: Make, home: Path, shell: str) -> None:
    env = make()
    runner = _Through(cast("LocalEnvironment", env))
    runner.shell = shell
    env.__dict__["files"] = ShellFiles(runner, "local")
    (home.parent / "work" / "to bashrc").symlink_to("../home/.bashrc")
    (home / ".bashrc").write_text("before\n")
    (home.parent / "work" / "alias").hardlink_to(home / ".bashrc")
    for path in ("~/.bashrc", "to bashrc", "~/.ssh/new/x", "../real home/.ssh/x", "alias"):
        answer = write_file(env, path, "after\n")
        assert refused(answer), answer
    assert write_file(env, f"new/a {shell}", "\x01\x7fé\n")["created"]
    assert (home.parent / "work" / "new" / f"a {shell}").read_bytes() == "\x01\x7fé\n".encode()


def test_no_file_lands_in_a_denied_directory_that_a_link_is_swapped_for(make: Make, home: Path) -> None:
    (home / ".ssh").mkdir()
    (home.parent / "other").mkdir()
    race, ended = home.parent / "work" / "race", threading.Event()
    env = make()

    def swap() -> None:
        for number in itertools.count():
            if ended.is_set():
                return
            with contextlib.suppress(OSError):
                race.rename(home.parent / f"old {number}")
            with contextlib.suppress(OSError):
                if number % 3:
                    race.symlink_to(home / ".ssh" if number % 3 == 1 else home.parent / "other")
                else:
                    race.mkdir()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        answers: list[WriteResult] = []
        while len(answers) < 40 or not (any(map(refused, answers)) and any("created" in answer for answer in answers)):
            assert len(answers) < 5000, "no swap came during a write"
            answers.append(write_file(env, f"race/{len(answers)}", "x"))
    finally:
        ended.set()
        thread.join()
    assert list((home / ".ssh").iterdir()) == []
