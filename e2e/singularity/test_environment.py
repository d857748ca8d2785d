"""What is particular to Apptainer and Singularity, on a real engine."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from targets.engines import require_singularity
from targets.singularity_engine import Engine, engine_in, unprivileged_user

from code_execution import execute_code
from environments.errors import (
    EnvironmentLostError,
    EnvironmentStartError,
    SettingsError,
    TerminalError,
    UnsupportedError,
)
from environments.garbage import collect_garbage
from environments.legacy import DEFAULT_LIMITS
from environments.singularity import options as singularity_options
from environments.singularity.client import Client, Outcome
from environments.singularity.instance import orphans, records, remove

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="limits need root under cgroups v1; run the tests as root")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    return engine_in(require_singularity(), tmp_path, monkeypatch)


def open_descriptors() -> set[str]:
    return {link.name for link in Path("/proc/self/fd").iterdir() if link.exists()}


def kill_instance() -> None:
    for record in records(Client.found()):
        process = os.pidfd_open(record.pid)
        os.kill(record.pid, signal.SIGKILL)
        select.select([process], [], [], 60)
        os.close(process)


def test_an_instance_killed_under_a_command_is_an_error_with_the_output_so_far(engine: Engine) -> None:
    with engine.make() as env:
        env.execute("cd /usr")
        killer: list[threading.Thread] = []

        def kill_soon(_: str) -> None:
            killer.append(threading.Thread(target=kill_instance))
            killer[-1].start()

        with pytest.raises(EnvironmentLostError, match=r"instance hermes-\S+ has ended") as lost:
            env.execute("echo begun; sleep 1000", on_output=kill_soon)
        killer[0].join()
        assert lost.value.output == "begun\n"
        assert env.execute("pwd").output == "/usr\n"
        assert len(records(Client.found())) == 1


def test_an_instance_killed_while_idle_is_noticed_and_replaced(engine: Engine) -> None:
    with engine.make() as env:
        env.execute("true")
        kill_instance()
        with contextlib.suppress(EnvironmentLostError):
            assert env.execute("echo one").output == "one\n"
        assert env.execute("echo two").output == "two\n"
        assert env.execute_oneshot("echo three").output == "three\n"


def test_nothing_is_left_after_cleanup(engine: Engine) -> None:
    descriptors = open_descriptors()
    with engine.make(container_disk=64) as env:
        env.execute("setsid sleep 1000 & echo x >/tmp/file")
        env.start("sleep 1000")
        env.execute_oneshot("true")
        name = records(Client.found())[0].name
    assert records(Client.found()) == []
    assert engine.files() == []
    assert list((engine.state / "tmp").iterdir()) == []
    assert subprocess.run(["pgrep", "-f", name], check=False, capture_output=True).stdout == b""
    mounts = Path("/proc/self/mounts").read_text()
    assert not [place for place in (engine.state, engine.images.sandbox) if str(place) in mounts]
    assert open_descriptors() - descriptors == set()  # some of other tests may have been closed meanwhile


def test_variables_of_this_machine_stay_out(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOST_TOKEN", "s3cret-a")
    monkeypatch.setenv("APPTAINERENV_HOST_TOKEN", "s3cret-b")
    monkeypatch.setenv("SINGULARITYENV_HOST_TOKEN", "s3cret-c")
    monkeypatch.setenv("APPTAINER_BIND", f"{tmp_path}:/opt")
    with engine.make() as env:
        assert "s3cret" not in env.execute("env").output
        assert "s3cret" not in env.execute_oneshot("env; cat /proc/1/environ").output
        assert env.execute("ls /opt").output == ""


def test_a_variable_passes_when_asked_for_and_not_by_way_of_the_process_list(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = 's3cret, with "quotes" $HOME $(echo x) and\nlines'
    monkeypatch.setenv("ASKED_FOR", secret)
    with engine.make(env_passthrough=["ASKED_FOR", "NOT_SET_HERE"]) as env:
        assert env.execute('printf %s "$ASKED_FOR"').output == secret
        assert env.execute_oneshot('printf %s "$ASKED_FOR"; env | grep -c NOT_SET_HERE').output == f"{secret}0\n"
        listed = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
        assert "s3cret" not in listed


def test_files_of_this_machine_stay_out(engine: Engine) -> None:
    here = engine.state / "file"
    here.write_text("x")
    with engine.make() as env:
        assert env.execute(f"cat {here}").exit_code != 0
        assert env.execute("ls -A ~").output == ""
        env.execute("touch /written ~/written /tmp/written")
    assert not Path("/written").exists()
    assert not (engine.images.sandbox / "written").exists()


def test_the_clients_warnings_are_no_output(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # which the container lacks, of which the client warns
    with engine.make() as env:
        result = env.execute("echo out; echo err >&2", stderr="separate")
        assert (result.output, result.stderr) == ("out\n", "err\n")
        assert env.execute_oneshot("pwd").output == f"{env.cwd}\n"


@pytest.mark.parametrize("cwd", [None, "/usr/lib"])
def test_a_session_starts_at_home_or_where_it_is_told_to(engine: Engine, cwd: str | None) -> None:
    with engine.make(cwd=cwd) as env:
        assert env.execute("pwd; [ -w . ]").output == f"{cwd or env.execute('echo $HOME').output.strip()}\n"


def test_an_image_file_works_like_a_sandbox(engine: Engine) -> None:
    with engine.make(image=str(engine.images.sif)) as env:
        env.write_bytes("/opt/data", bytes(range(256)) * 1000)
        assert env.read_bytes("/opt/data") == bytes(range(256)) * 1000


def test_a_script_runs_in_the_sessions_directory(engine: Engine) -> None:
    code = "import os; from hermes_tools import terminal; print(os.getcwd(), terminal('echo $GIVEN')['output'])"
    with engine.make() as env:
        env.execute("mkdir -p /opt/project && cd /opt/project && export GIVEN=yes")
        result = execute_code(code, env=env, mode="project")
    assert (result.status, result.output.split()) == ("success", ["/opt/project", "yes"])


def test_a_full_disk_is_an_error_and_not_the_end(engine: Engine) -> None:
    with engine.make(container_disk=64) as env:
        assert "container_disk" in env.capabilities.enforced_limits
        for path in ("/big", "/tmp/big"):
            filled = env.execute(f"dd if=/dev/zero of={path} bs=1M count=200")
            assert "No space left on device" in filled.output
            with pytest.raises(TerminalError, match="No space left on device"):
                env.write_bytes("/opt/file", b"x" * 2_000_000)
            assert env.execute(f"rm {path}; echo on").output == "on\n"


def test_a_read_only_root_can_be_worked_in(engine: Engine) -> None:
    with engine.make(singularity_read_only=True) as env:
        assert "Read-only file system" in env.execute("touch /usr/x").output
        assert env.execute("cat", stdin="a" * 100_000).output == "a" * 100_000
        with pytest.raises(TerminalError, match="Read-only file system"):
            env.write_bytes("/usr/x", b"x")
        assert execute_code("print(1)", env=env).output == "1\n"


def test_without_a_network_there_is_none(engine: Engine) -> None:
    with engine.make(singularity_network=False) as env:
        interfaces = env.execute("ls /sys/class/net; tail -n +3 /proc/net/dev | cut -d: -f1").output.split()
    assert interfaces[-1] == "lo"
    assert len(Path("/proc/net/dev").read_text().splitlines()) > 3, "there is one here"


def test_mounts_are_made_and_read_only_where_asked_for(engine: Engine) -> None:
    here = engine.state / "shared"
    here.mkdir()
    (here / "file").write_text("from here")
    with engine.make(singularity_binds=[f"{here}:/mnt/rw", f"{here}:/mnt/ro:ro"]) as env:
        assert env.execute("cat /mnt/ro/file; touch /mnt/rw/new").output == "from here"
        assert env.execute("touch /mnt/ro/no").exit_code != 0
    assert sorted(here.iterdir()) == [here / "file", here / "new"]


@pytest.mark.parametrize("bind", ["/usr", "/usr:relative", "/usr:/mnt:rx", "/nonexistent-x:/mnt", "/usr,/etc:/mnt"])
def test_a_mount_that_cannot_be_made_is_refused(engine: Engine, bind: str) -> None:
    with pytest.raises(SettingsError, match="singularity_binds"), engine.make(singularity_binds=[bind]) as env:
        env.execute("true")


def test_kept_files_are_there_again_for_the_same_task(engine: Engine) -> None:
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


def test_environments_of_one_process_share_an_instance_over_kept_files(engine: Engine, nap: str) -> None:
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
        assert third.execute("cat /opt/file").output == "kept\n", "the last of them gave the files free"


def test_default_limits_hold_or_are_passed_over(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("environments.sections._warned", set())
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


def _without_file_systems(run: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """An engine on a machine that lacks what makes file systems."""

    def refusing(client: Client, *arguments: str, **options: Any) -> Outcome:
        return run(client, *(["overlay", "--no-such-option"] if "overlay" in arguments else arguments), **options)

    return refusing


def test_kept_files_may_have_a_limit_which_stays_as_it_is(engine: Engine) -> None:
    with engine.make(container_persistent=True, container_disk=64) as env:
        assert "No space left" in env.execute("echo kept >/opt/file; dd if=/dev/zero of=/big bs=1M count=99").output
    with engine.make(container_persistent=True, container_disk=64) as env:
        assert env.execute("cat /opt/file").output == "kept\n"
    for disk in (None, 128):
        env = engine.make(container_persistent=True, container_disk=disk)
        with env, pytest.raises(SettingsError, match="container_disk"):
            env.execute("true")


@as_root
def test_limits_of_memory_processes_and_cores_hold(engine: Engine) -> None:
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


@as_root
@pytest.mark.parametrize("run", ["execute", "execute_oneshot"])
def test_a_fork_bomb_ends_with_its_time(engine: Engine, run: str) -> None:
    with engine.make(container_pids=100) as env:
        env.execute("cd /opt; kept=yes")
        for bomb in ("bomb() { bomb | bomb & }; bomb; sleep 1000", f"python3 -c '{FORKING}'"):
            result = getattr(env, run)(bomb, timeout=3)
            assert result.timed_out and not result.survivors
            assert env.execute("pwd; echo $kept; (echo forked)").output == "/opt\nyes\nforked\n"


FORKING = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.fork() or os.setsid()
    except OSError:
        pass
"""


@pytest.mark.parametrize("setting", ["container_memory", "container_pids", "container_cpu"])
def test_a_limit_that_the_engine_cannot_set_is_refused_by_name(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    env = engine.make(**{setting: 1})
    refused = pytest.raises(UnsupportedError, match=rf"{setting} here: .*cgroups.*Leave {setting} unset")
    with unprivileged_user(engine.images.program, monkeypatch), env, refused:
        env.execute("true")


@as_root
def test_more_cores_than_there_are_are_refused(engine: Engine) -> None:
    with engine.make(container_cpu=10_000) as env, pytest.raises(UnsupportedError, match="container_cpu here: cpus"):
        env.execute("true")


def test_an_unprivileged_user_has_it_all_but_limits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with unprivileged_user(engine.images.program, monkeypatch):
        with engine.make(singularity_network=False) as env:
            assert env.execute("id -u").output != "0\n"
            assert env.execute("echo x >file && cat $PWD/file && touch /y").output == "x\n"
            assert execute_code("print(1)", env=env).output == "1\n"
        assert records(Client.found()) == []


def test_a_disk_limit_too_small_for_a_file_system_is_refused(engine: Engine) -> None:
    with engine.make(container_disk=10) as env, pytest.raises(UnsupportedError, match="container_disk below 64 MB"):
        env.execute("true")
    assert engine.files() == []


def test_a_gpu_is_refused_where_there_is_no_driver(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(singularity_options, "_GPU_DRIVER", tmp_path / "none")
    with engine.make(singularity_gpu=True) as env, pytest.raises(UnsupportedError, match="singularity_gpu: no NVIDIA"):
        env.execute("true")


def test_keeping_files_and_a_read_only_root_contradict_each_other(engine: Engine) -> None:
    env = engine.make(singularity_read_only=True, container_persistent=True)
    with env, pytest.raises(SettingsError, match="singularity_read_only"):
        env.execute("true")


def test_a_plain_root_directory_is_refused_with_what_to_do(engine: Engine) -> None:
    (engine.state / "root" / "bin").mkdir(parents=True)
    env = engine.make(image=str(engine.state / "root"))
    with env, pytest.raises(EnvironmentStartError, match="build --sandbox NEW_DIRECTORY"):
        env.execute("true")


def test_an_image_that_is_not_there_or_no_image_is_named(engine: Engine) -> None:
    (engine.state / "noise.sif").write_bytes(os.urandom(4096))
    for image, why in (("/nonexistent.sif", "there is no image /nonexistent.sif"), ("noise.sif", "cannot start")):
        env = engine.make(image=str(engine.state / image))
        with env, pytest.raises(EnvironmentStartError, match=why):
            env.execute("true")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user, who may make no namespaces")
def test_user_namespaces_that_are_off_are_the_reason_and_it_says_what_helps(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a namespace of their own, in which they are nobody, a user may make no further one.
    with (
        unprivileged_user(engine.images.program, monkeypatch, within="unshare --user"),
        engine.make() as env,
        pytest.raises(EnvironmentStartError) as caught,
    ):
        env.execute("true")
    said = str(caught.value)
    assert "not allowed to create user namespace" in said and "user.max_user_namespaces" in said
    assert "\x1b" not in said and "exit status" not in said


def test_an_image_that_cannot_be_pulled_is_named_and_leaves_nothing(engine: Engine) -> None:
    uri = "docker://127.0.0.1:9/none:latest"
    with engine.make(image=uri) as env, pytest.raises(EnvironmentStartError, match=f"cannot pull {uri}: .*refused"):
        env.execute("true")
    assert list((engine.state / "hermes").rglob("*.*")) == []


@pytest.mark.parametrize("name", ["apptainer", "singularity"])
def test_either_program_will_do(engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = engine.state / "bin"
    folder.mkdir()
    (folder / name).symlink_to(engine.images.program.resolve())
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin:/usr/sbin:/sbin")
    assert Client.found().program == shutil.which(name)
    with engine.make() as env:
        assert env.execute("echo x").output == "x\n"


def test_a_missing_program_is_named_with_what_to_install(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(engine.state))
    with engine.make() as env, pytest.raises(EnvironmentStartError, match="install Apptainer"):
        env.execute("true")
    assert orphans() == []


OWNER = """
import sys
from environments import create_environment
env = create_environment("singularity", image=sys.argv[1])
env.execute("setsid sleep 1000 &")
print("ready", flush=True)
env.execute("sleep 1000", timeout=1000)
"""


@pytest.fixture
def run_owner(engine: Engine) -> Callable[[], None]:
    """Has another process start an instance, and kills that process."""

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
def test_the_instance_of_a_killed_owner_is_found_and_removed(engine: Engine, run_owner: Callable[[], None]) -> None:
    with engine.make() as living:
        living.execute("true")
        run_owner()
        (orphan,) = orphans()
        (removed,) = [line for line in collect_garbage() if line.startswith("singularity: ")]
        assert orphan in removed
        assert orphans() == []
        assert living.execute("echo on").output == "on\n"
        assert subprocess.run(["pgrep", "-f", orphan], check=False, capture_output=True).stdout == b""
    remove(orphan)  # again, which is harmless
    assert engine.files() == []


@pytest.mark.alone("garbage")
def test_a_record_whose_process_number_is_anothers_harms_nobody(engine: Engine, run_owner: Callable[[], None]) -> None:
    run_owner()
    (orphan,) = orphans()
    (record,) = records(Client.found(), orphan)
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
