"""Uses of an environment by Harbor's agents, verifiers and artifact collectors, on the plug."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths
from place import PLACE

from environments import EnvironmentStartError, SettingsError, UnsupportedError
from environments.errors import TargetFileNotFoundError
from hermes_env.plugs.harbor import HermesEnvironment

GIVEN = {name: value for name, value in PLACE.settings.items() if name != "image"}


def environment(folder: Path, **more: object) -> HermesEnvironment:
    """Make an environment as a trial does. `config` is the task's section [environment]."""
    config = {"docker_image": PLACE.settings["image"], **more.pop("config", {})}
    here = folder / "environment"
    here.mkdir(exist_ok=True)
    return HermesEnvironment(
        environment_dir=here,
        environment_name="checks",
        session_id=f"checks__{secrets.token_hex(4)}__env",
        trial_paths=TrialPaths(folder / "trial"),
        task_env_config=EnvironmentConfig(**config),
        **{name: value for name, value in {**GIVEN, **more}.items() if value is not None},
    )


@pytest_asyncio.fixture(scope="module")
async def env(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HermesEnvironment]:
    folder = tmp_path_factory.mktemp("trial")
    config = {"workdir": "/app", "env": {"OF_TASK": "task", "BOTH": "task"}}
    made = environment(
        folder,
        config=config,
        network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK),
        auto_mounts=[{"type": "bind", "source": str(folder), "target": "/logs/agent"}],
    )
    await made.start(force_build=False)
    yield made
    await made.stop(delete=True)


async def test_a_commands_channels_and_exit_code_are_returned(env: HermesEnvironment) -> None:
    result = await env.exec("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.return_code) == ("out\n", "err\n", 3)


async def test_commands_run_in_the_tasks_directory_or_in_the_one_that_is_given(env: HermesEnvironment) -> None:
    assert (await env.exec("pwd")).stdout == "/app\n"
    assert (await env.exec("pwd", cwd="/usr")).stdout == "/usr\n"


async def test_variables_of_a_command_come_before_those_of_the_task(env: HermesEnvironment) -> None:
    with env.scoped_exec_env({"SCOPED": "agent"}):
        result = await env.exec('echo "$OF_TASK $BOTH $SCOPED"', env={"BOTH": "it's the command's"})
    assert result.stdout == "task it's the command's agent\n"
    assert (await env.exec('echo "[$SCOPED]"')).stdout == "[]\n"


async def test_a_command_runs_as_the_user_that_is_asked_for(env: HermesEnvironment) -> None:
    assert (await env.exec("id -u", user="root")).stdout == "0\n"
    if "singularity" in PLACE.tags:  # the image's users are the users of this machine
        return
    assert (await env.exec("id -u", user=65534)).stdout == "65534\n"
    with env.with_default_user("nobody"):
        assert (await env.exec("id -un")).stdout == "nobody\n"


async def test_a_command_that_takes_too_long_is_ended_with_its_children(env: HermesEnvironment) -> None:
    nap = f"31.{secrets.randbelow(10**9):09}"
    with pytest.raises(RuntimeError, match="timed out after 2 seconds"):
        await env.exec(f"sleep {nap} & sleep {nap}", timeout_sec=2)
    assert await naps(env, nap) == 0


async def test_a_command_that_nobody_awaits_any_more_is_ended(env: HermesEnvironment) -> None:
    nap = f"31.{secrets.randbelow(10**9):09}"
    running = asyncio.ensure_future(env.exec(f"sleep {nap}"))
    while not await naps(env, nap):
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(30):
        while await naps(env, nap):
            await asyncio.sleep(0.05)


async def naps(env: HermesEnvironment, nap: str) -> int:
    """Return the number of processes with the name."""
    counting = f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep {nap}'"
    return int((await env.exec(counting, user="root")).stdout)


async def test_output_is_told_as_it_comes_with_its_channel(env: HermesEnvironment) -> None:
    told = []
    first = asyncio.Event()

    async def callback(text: str, stream: str) -> None:
        told.append((text, stream))
        first.set()

    with env.scoped_output_callback(callback):
        running = asyncio.ensure_future(env.exec("echo out; while [ ! -e go ]; do sleep 0.05; done; echo err >&2"))
        await asyncio.wait_for(first.wait(), 30)
    assert not running.done()
    await env.exec("touch go", user="root")
    result = await running
    assert told == [("out\n", "stdout"), ("err\n", "stderr")]
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


async def test_a_folder_keeps_modes_and_links_both_ways(env: HermesEnvironment, tmp_path: Path) -> None:
    here, back = tmp_path / "here", tmp_path / "back"
    (here / "empty").mkdir(parents=True)
    (here / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (here / "run.sh").chmod(0o755)
    (here / "link").symlink_to("run.sh")
    await env.upload_dir(source_dir=here, target_dir="/only/root/may")  # only root can make this directory
    assert (await env.exec("/only/root/may/link")).stdout == "ran\n"
    await env.download_dir(source_dir="/only/root/may", target_dir=back)
    assert sorted(path.name for path in back.iterdir()) == ["empty", "link", "run.sh"]
    assert (back / "link").is_symlink() and (back / "run.sh").stat().st_mode & 0o777 == 0o755


async def test_a_file_comes_and_goes_byte_by_byte(env: HermesEnvironment, tmp_path: Path) -> None:
    here, back = tmp_path / "here", tmp_path / "not-there-yet" / "back"
    here.write_bytes(bytes(range(256)) * 1000)
    await env.upload_file(source_path=here, target_path="/only/for/root.bin")
    await env.download_file(source_path="/only/for/root.bin", target_path=back)
    assert back.read_bytes() == here.read_bytes()
    assert await env.is_file("/only/for/root.bin") and not await env.is_dir("/only/for/root.bin")


async def test_what_is_not_there_cannot_be_downloaded(env: HermesEnvironment, tmp_path: Path) -> None:
    with pytest.raises(TargetFileNotFoundError):
        await env.download_file("/app/no-such-file", tmp_path / "x")
    with pytest.raises(TargetFileNotFoundError):
        await env.download_dir("/app/no-such-folder", tmp_path / "y")


async def test_logs_are_picked_by_patterns(env: HermesEnvironment, tmp_path: Path) -> None:
    made = await env.exec("cd /logs/agent && mkdir -p deep && echo 1 > a.log && echo 2 > deep/b.log && echo 3 > c.bin")
    assert made.return_code == 0, made.stderr
    await env.download_dir_filtered(
        source_dir="/logs/agent", target_dir=tmp_path / "some", include=["*.log"], exclude=["a.*"]
    )
    assert [path.name for path in (tmp_path / "some").rglob("*") if path.is_file()] == ["b.log"]
    await env.download_dir_with_exclusions(source_dir="/logs/agent", target_dir=tmp_path / "most", exclude=["*.bin"])
    assert {path.name for path in (tmp_path / "most").rglob("*") if path.is_file()} == {"a.log", "b.log"}
    await env.empty_dirs(["/logs/agent"])
    assert (await env.exec("ls -A /logs/agent")).stdout == ""


async def test_a_task_without_network_has_none(env: HermesEnvironment) -> None:
    assert (await env.exec("ls /sys/class/net")).stdout.split() == ["lo"]


async def test_a_task_with_a_list_of_hosts_reaches_these_alone(tmp_path: Path) -> None:
    policy = NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["127.0.0.2", "*.example.org"])
    listed = environment(tmp_path, network_policy=policy)
    get = "python3 -c \"import urllib.request as u; print(u.urlopen('http://{}/').status)\" 2>&1 | tail -1"
    server = await asyncio.start_server(answer_once, "127.0.0.2", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        await listed.start(force_build=False)
        assert (await listed.exec("ls /sys/class/net")).stdout.split() == ["lo"]
        assert (await listed.exec(get.format(f"127.0.0.2:{port}"))).stdout == "200\n"
        assert "403: other.example is not in the list" in (await listed.exec(get.format("other.example"))).stdout
    finally:
        await listed.stop(delete=True)
        server.close()


async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    writer.close()


async def test_a_person_gets_in(env: HermesEnvironment) -> None:
    way_in = (await env.env.target).enter
    done = subprocess.run(
        ["script", "-qec", " ".join(way_in), "/dev/null"],
        input=b"echo in-$((6*7))\nexit\n",
        capture_output=True,
        check=False,
    )
    assert b"in-42" in done.stdout


async def test_limits_hold(tmp_path: Path) -> None:
    limited = environment(tmp_path, config={"cpus": 0.5, "memory_mb": 96})
    try:
        await limited.start(force_build=False)
        result = await limited.exec("head -c 300000000 /dev/zero | tail -c 300000000 | wc -c")
    finally:
        await limited.stop(delete=True)
    assert result.stdout != "300000000\n"


def test_what_cannot_be_held_or_had_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mounts"):
        environment(tmp_path, mounts=[{"type": "bind", "source": "/tmp", "target": "/data"}])
    with pytest.raises(ValueError, match="no images"):
        environment(tmp_path, **{**dict.fromkeys(GIVEN), "backend": "local"})
    with pytest.raises(SettingsError, match="no_such"):
        environment(tmp_path, no_such_setting=1)
    with pytest.raises(RuntimeError, match="Windows"):
        environment(tmp_path, config={"os": "windows"})
    (tmp_path / "environment" / "docker-compose.yaml").touch()
    with pytest.raises(FileNotFoundError, match="docker_image"):
        environment(tmp_path, config={"docker_image": None})


async def test_a_dockerfile_is_built_where_there_is_docker(tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    image = PLACE.settings["image"]
    (tmp_path / "environment" / "Dockerfile").write_text(f"FROM {image}\nWORKDIR /built\nRUN echo yes > there\n")
    if "docker" not in PLACE.tags:
        with pytest.raises(FileNotFoundError, match="docker_image"):
            environment(tmp_path, config={"docker_image": None})
        return
    built = environment(tmp_path, config={"docker_image": None})
    try:
        await built.start(force_build=False)
        assert (await built.exec("cat there; pwd")).stdout == "yes\n/built\n"
    finally:
        await built.stop(delete=True)


async def test_a_target_that_cannot_be_started_is_an_error_and_stops_all_the_same(tmp_path: Path) -> None:
    missing = environment(
        tmp_path, config={"docker_image": "/no/such/image.sif" if "singularity" in PLACE.tags else "e2e-no-such:image"}
    )
    with pytest.raises((EnvironmentStartError, UnsupportedError)):
        await missing.start(force_build=False)
    await missing.stop(delete=True)
    await environment(tmp_path).stop(delete=True)
