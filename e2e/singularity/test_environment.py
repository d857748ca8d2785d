"""Features of Apptainer and Singularity on a real engine."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from targets.singularity_engine import SingularityEngine, unprivileged_user

from code_execution import execute_code
from environments.errors import (
    EnvironmentLostError,
    EnvironmentStartError,
    SettingsError,
    TerminalError,
    UnsupportedError,
)
from environments.inventory import collect_garbage
from environments.legacy import DEFAULT_LIMITS
from environments.singularity import options as singularity_options
from environments.singularity.client import Client, ProgramResult
from environments.singularity.instance import orphans, records, remove


def open_descriptors() -> set[str]:
    return {link.name for link in Path("/proc/self/fd").iterdir() if link.exists()}


def kill_instance() -> None:
    for record in records(Client.find()):
        process = os.pidfd_open(record.pid)
        os.kill(record.pid, signal.SIGKILL)
        select.select([process], [], [], 60)
        os.close(process)


def test_an_instance_killed_while_idle_is_detected_and_replaced(engine: SingularityEngine) -> None:
    with engine.make() as env:
        env.execute("cd /usr")
        kill_instance()
        with contextlib.suppress(EnvironmentLostError):
            assert env.execute("echo one").output == "one\n"
        assert env.execute("pwd").output == "/usr\n"
        assert env.execute_oneshot("echo three").output == "three\n"
        assert len(records(Client.find())) == 1


def test_nothing_is_left_after_cleanup(engine: SingularityEngine) -> None:
    descriptors = open_descriptors()
    with engine.make(container_disk=64) as env:
        env.execute("setsid sleep 1000 & echo x >/tmp/file")
        env.start("sleep 1000")
        env.execute_oneshot("true")
        name = records(Client.find())[0].name
    assert records(Client.find()) == []
    assert engine.files() == []
    assert list((engine.state / "tmp").iterdir()) == []
    assert subprocess.run(["pgrep", "-f", name], check=False, capture_output=True).stdout == b""
    mounts = Path("/proc/self/mounts").read_text()
    assert not [place for place in (engine.state, engine.images.sandbox) if str(place) in mounts]
    assert open_descriptors() - descriptors == set()  # descriptors of other tests may have been closed meanwhile


def test_variables_files_and_mounts_of_this_machine_stay_out(
    engine: SingularityEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOST_TOKEN", "s3cret-a")
    monkeypatch.setenv("APPTAINERENV_HOST_TOKEN", "s3cret-b")
    monkeypatch.setenv("SINGULARITYENV_HOST_TOKEN", "s3cret-c")
    monkeypatch.setenv("APPTAINER_BIND", f"{tmp_path}:/opt")
    monkeypatch.chdir(tmp_path)  # the client warns that the container lacks this directory
    (tmp_path / "file").write_text("x")
    with engine.make() as env:
        assert "s3cret" not in env.execute("env").output
        assert "s3cret" not in env.execute_oneshot("env; cat /proc/1/environ").output
        assert env.execute(f"cat {tmp_path}/file").exit_code != 0
        assert env.execute("ls -A /opt ~ | grep -v :").output.strip() == ""
        assert env.execute("id -u").output == f"{os.getuid()}\n"
        assert env.execute('[ "$PWD" = "$HOME" ] && [ -w . ]').ok
        result = env.execute("echo out; echo err >&2; touch /written ~/written /tmp/written", stderr="separate")
        assert (result.output, result.stderr) == ("out\n", "err\n"), "the client's warnings are no output"
    assert not Path("/written").exists()
    assert not (engine.images.sandbox / "written").exists()


def test_settings_add_mounts_variables_and_a_directory(
    engine: SingularityEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = 's3cret, with "quotes" $HOME $(echo x) and\nlines'
    monkeypatch.setenv("ASKED_FOR", secret)
    here = engine.state / "shared"
    here.mkdir()
    (here / "file").write_text("from here")
    with engine.make(
        env_passthrough=["ASKED_FOR", "NOT_SET_HERE"],
        singularity_binds=[f"{here}:/mnt/rw", f"{here}:/mnt/ro:ro"],
        singularity_network=False,
        cwd="/usr/lib",
    ) as env:
        assert env.execute("pwd").output == "/usr/lib\n"
        assert env.execute('printf %s "$ASKED_FOR"').output == secret
        assert env.execute_oneshot('printf %s "$ASKED_FOR"; env | grep -c NOT_SET_HERE').output == f"{secret}0\n"
        listed = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
        assert "s3cret" not in listed
        assert env.execute("cat /mnt/ro/file; touch /mnt/rw/new").output == "from here"
        assert env.execute("touch /mnt/ro/no").exit_code != 0
        assert env.execute("tail -n +3 /proc/net/dev | cut -d: -f1").output.split() == ["lo"]
        with pytest.raises(UnsupportedError, match="has no network"):
            env.address(80)
        env.execute("mkdir -p /opt/project && cd /opt/project && export GIVEN=yes")
        code = "import os; from hermes_tools import terminal; print(os.getcwd(), terminal('echo $GIVEN')['output'])"
        result = execute_code(code, env=env, mode="project")
        assert (result.status, result.output.split()) == ("success", ["/opt/project", "yes"])
    assert sorted(here.iterdir()) == [here / "file", here / "new"]


def test_a_full_disk_is_an_error_and_not_the_end(engine: SingularityEngine) -> None:
    with engine.make(container_disk=64) as env:
        assert "container_disk" in env.capabilities.enforced_limits
        for path in ("/big", "/tmp/big"):
            filled = env.execute(f"dd if=/dev/zero of={path} bs=1M count=200")
            assert "No space left on device" in filled.output
            with pytest.raises(TerminalError, match="No space left on device"):
                env.write_bytes("/opt/file", b"x" * 2_000_000)
            assert env.execute(f"rm {path}; echo on").output == "on\n"


def test_a_read_only_root_and_an_image_file_can_be_worked_in(engine: SingularityEngine) -> None:
    with engine.make(image=str(engine.images.sif), singularity_read_only=True) as env:
        assert "Read-only file system" in env.execute("touch /usr/x").output
        assert env.execute("cat", stdin="a" * 100_000).output == "a" * 100_000
        with pytest.raises(TerminalError, match="Read-only file system"):
            env.write_bytes("/usr/x", b"x")
        assert execute_code("print(1)", env=env).output == "1\n"


def test_kept_files_are_there_again_for_the_same_task(engine: SingularityEngine) -> None:
    with engine.make(container_persistent=True, task_id="a") as env:
        env.execute("echo kept | tee /opt/file ~/file /tmp/file; rm /etc/debian_version")
    with engine.make(container_persistent=True, task_id="a") as env:
        assert env.execute("cat /opt/file ~/file /tmp/file").output == "kept\n" * 3
        assert env.execute("ls /etc/debian_version").exit_code != 0
        with engine.make(container_persistent=True, task_id="b") as other:
            assert other.execute("ls /opt /tmp").output == "/opt:\n\n/tmp:\n"
        another = engine.make(container_persistent=True, task_id="a", binds=["/:/host:ro"])
        with another, pytest.raises(EnvironmentStartError, match="in use by another environment"):
            another.execute("true")


def test_environments_of_one_process_share_an_instance_over_kept_files(engine: SingularityEngine, nap: str) -> None:
    first, second = (engine.make(container_persistent=True, task_id="a") for _ in range(2))
    with second:
        with first:
            name = first.execute("echo kept >/opt/file; export WHO=first; hostname").output
            assert second.execute("hostname; cat /opt/file; echo $WHO").output == f"{name}kept\n\n"
            mine = second.start(f"sleep {nap}1")
            first.start(f"sleep {nap}2")
            assert first.execute(f"setsid sleep {nap}3 & sleep 60", timeout=1).timed_out
        assert mine.running
        shown = second.execute("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").output
        assert (shown.count(f"sleep {nap}1"), shown.count(f"sleep {nap}2"), shown.count(f"sleep {nap}3")) == (1, 0, 0)
        kill_instance()
        with pytest.raises(EnvironmentLostError):
            second.execute("true")
        assert second.execute("cat /opt/file").output == "kept\n"
    with engine.make(container_persistent=True, task_id="a", binds=["/:/host:ro"]) as third:
        assert third.execute("cat /opt/file").output == "kept\n", "the last environment released the files"


def test_a_default_limit_is_enforced_or_a_warning(
    engine: SingularityEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("environments.log._warned", set())
    for name, value in DEFAULT_LIMITS.items():
        monkeypatch.setenv(f"TERMINAL_{name.upper()}", str(value))
    with engine.make() as env:
        held = env.capabilities.enforced_limits
        assert env.execute("echo here").output == "here\n"
    passed_over = {name for name in DEFAULT_LIMITS if re.search(f"does not enforce [^:]*{name}", caplog.text)}
    assert (held | passed_over, held & passed_over) == (DEFAULT_LIMITS.keys(), set())
    monkeypatch.setattr(Client, "run", _without_file_systems(Client.run))
    with engine.make() as env:
        assert env.capabilities.enforced_limits == held - {"container_disk"}
    assert "does not enforce container_disk" in caplog.text
    with engine.make(container_disk=51200) as env, pytest.raises(UnsupportedError, match="container_disk"):
        env.execute("true")


def _without_file_systems(run: Callable[..., ProgramResult]) -> Callable[..., ProgramResult]:
    """Return a `Client.run` whose overlay command fails, as without mkfs."""

    def refusing(client: Client, *arguments: str, **options: Any) -> ProgramResult:
        return run(client, *(["overlay", "--no-such-option"] if "overlay" in arguments else arguments), **options)

    return refusing


def test_kept_files_may_have_a_limit_which_stays_as_it_is(engine: SingularityEngine) -> None:
    with engine.make(container_persistent=True, container_disk=64) as env:
        assert "No space left" in env.execute("echo kept >/opt/file; dd if=/dev/zero of=/big bs=1M count=99").output
    with engine.make(container_persistent=True, container_disk=64) as env:
        assert env.execute("cat /opt/file").output == "kept\n"
    for disk in (None, 128):
        env = engine.make(container_persistent=True, container_disk=disk)
        with env, pytest.raises(SettingsError, match="container_disk"):
            env.execute("true")


def test_limits_of_memory_processes_and_cores_hold(engine: SingularityEngine) -> None:
    with engine.make(container_memory=200, container_pids=40, container_cpu=0.5) as env:
        assert env.capabilities.enforced_limits == {"container_memory", "container_pids", "container_cpu"}
        greedy = env.execute("python3 -c 'print(len(bytearray(400_000_000)))'")
        assert (greedy.output.count("400000000"), greedy.exit_code) == (0, 137)
        assert greedy.note and "container_memory is 200 MB" in greedy.note
        assert env.execute("sh -c 'kill -9 $$'").note is None
        forked = env.execute("for i in $(seq 60); do sleep 1 & done; wait")
        assert "fork" in forked.output
        busy = "import time; b = time.time(); c = time.process_time()\nwhile time.time() - b < 2: pass\n"
        share = env.execute(f"python3 -c '{busy}print(time.process_time() - c)'")
        assert float(share.output) < 1.5
        assert env.execute("echo on").output == "on\n"
    with engine.make(container_cpu=10_000) as env, pytest.raises(UnsupportedError, match="container_cpu here: cpus"):
        env.execute("true")


def test_an_unprivileged_user_has_all_features_but_limits(
    engine: SingularityEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with unprivileged_user(engine.images.program, monkeypatch):
        with engine.make(singularity_network=False) as env:
            assert env.execute("id -u").output != "0\n"
            assert env.execute("echo x >file && cat $PWD/file && touch /y").output == "x\n"
            assert execute_code("print(1)", env=env).output == "1\n"
        assert records(Client.find()) == []
        for setting in ("container_memory", "container_pids", "container_cpu"):
            refused = pytest.raises(UnsupportedError, match=rf"{setting} here: .*cgroups.*Leave {setting} unset")
            with engine.make(**{setting: 1}) as env, refused:
                env.execute("true")


def test_a_refused_start_names_the_reason_and_leaves_nothing(
    engine: SingularityEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(singularity_options, "_GPU_DRIVER", engine.state / "none")
    (engine.state / "root" / "bin").mkdir(parents=True)
    (engine.state / "noise.sif").write_bytes(os.urandom(4096))
    uri = "docker://127.0.0.1:9/none:latest"
    rows: list[tuple[dict[str, object], type[TerminalError], str]] = [
        ({"container_disk": 10}, UnsupportedError, "container_disk below 64 MB"),
        ({"singularity_gpu": True}, UnsupportedError, "gpu: no NVIDIA"),
        ({"singularity_read_only": True, "container_persistent": True}, SettingsError, "read_only leaves nothing"),
        ({"singularity_binds": ["/nonexistent-x:/mnt"]}, SettingsError, "binds: "),
        ({"image": str(engine.state / "root")}, EnvironmentStartError, "build --sandbox NEW_DIRECTORY"),
        ({"image": "/nonexistent.sif"}, EnvironmentStartError, "there is no image /nonexistent.sif"),
        ({"image": str(engine.state / "noise.sif")}, EnvironmentStartError, "cannot start"),
        ({"image": uri}, EnvironmentStartError, f"cannot pull {uri}: .*refused"),
    ]
    for settings, kind, words in rows:
        with engine.make(**settings) as env, pytest.raises(kind, match=words):
            env.execute("true")
    assert list((engine.state / "hermes").rglob("*.*")) == []
    assert records(Client.find()) == []


def test_disabled_user_namespaces_are_an_error_with_the_remedy(
    engine: SingularityEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a user namespace that maps no ids, a user may make no further namespace.
    with (
        unprivileged_user(engine.images.program, monkeypatch, within="unshare --user"),
        engine.make() as env,
        pytest.raises(EnvironmentStartError) as caught,
    ):
        env.execute("true")
    message = str(caught.value)
    assert "not allowed to create user namespace" in message and "user.max_user_namespaces" in message
    assert "\x1b" not in message and "exit status" not in message


def test_apptainer_and_singularity_are_both_found(engine: SingularityEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("apptainer", "singularity"):
        folder = engine.state / f"with_{name}"
        folder.mkdir()
        (folder / name).symlink_to(engine.images.program.resolve())
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin:/usr/sbin:/sbin")
        assert Client.find().program == shutil.which(name)
    with engine.make() as env:
        assert env.execute("echo x").output == "x\n"


OWNER = """
import sys
from environments import create_environment
env = create_environment("singularity", image=sys.argv[1])
env.execute("setsid sleep 1000 &")
print("ready", flush=True)
env.execute("sleep 1000", timeout=1000)
"""


@pytest.fixture
def run_owner(engine: SingularityEngine) -> Callable[[], None]:
    """Return a function that starts an instance in another process and kills the process."""

    def run() -> None:
        argv = [sys.executable, "-c", OWNER, str(engine.images.sandbox)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
            try:
                assert owner.stdout
                assert owner.stdout.readline() == "ready\n"
                assert orphans() == []
            finally:
                owner.kill()

    return run


@pytest.mark.alone("garbage")
def test_the_instance_of_a_killed_owner_is_found_and_removed(
    engine: SingularityEngine, run_owner: Callable[[], None]
) -> None:
    with engine.make() as living:
        living.execute("true")
        run_owner()
        (orphan,) = orphans()
        (removed,) = [line for line in collect_garbage() if line.startswith("singularity: ")]
        assert orphan.rsplit("-", 2)[1] in removed
        assert orphans() == []
        assert living.execute("echo on").output == "on\n"
        assert subprocess.run(["pgrep", "-f", orphan], check=False, capture_output=True).stdout == b""
    remove(orphan)  # a second removal is harmless
    assert engine.files() == []


@pytest.mark.alone("garbage")
def test_a_stale_record_with_the_pid_of_another_process_ends_no_process(
    engine: SingularityEngine, run_owner: Callable[[], None]
) -> None:
    run_owner()
    (orphan,) = orphans()
    (record,) = records(Client.find(), orphan)
    (file,) = (path for path in engine.files() if path.name == f"{orphan}.json")
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        original = file.read_text()
        file.write_text(original.replace(str(record.pid), str(bystander.pid)))
        with pytest.raises(TerminalError, match="still listed"):
            remove(orphan)
        assert bystander.poll() is None
        bystander.kill()
    file.write_text(original)
    remove(orphan)
