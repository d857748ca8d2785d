"""Uses of a sandbox by inspect_ai that the self-check does not check."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest
import pytest_asyncio
import yaml
from inspect_ai.log import read_eval_log
from inspect_ai.util import ComposeConfig, OutputLimitExceededError, SandboxEnvironment, sandbox_service
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy
from inspect_ai.util._sandbox.limits import override_max_exec_output_size
from place import PLACE

from environments import SettingsError
from hermes_env.plugs.inspect_ai import HermesSandboxConfig, HermesSandboxEnvironment

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)

CALL_SERVICE = """
import asyncio, sys
sys.path.append("/var/tmp/sandbox-services/adder")
from adder import call_adder
print(call_adder("add", a=2, b=40))
"""


@pytest.fixture(scope="module")
def config_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "sandbox.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(dict(PLACE.settings)))))
    return path


@pytest_asyncio.fixture(scope="module")
async def box(config_file: Path) -> AsyncIterator[SandboxEnvironment]:
    started = await HermesSandboxEnvironment.sample_init("task", str(config_file), {})
    yield started["default"]
    await HermesSandboxEnvironment.sample_cleanup("task", str(config_file), started, False)


def test_inspect_eval_runs_a_task_whose_model_calls_bash(config_file: Path, tmp_path: Path) -> None:
    task = Path(__file__).with_name("mocked_task.py")
    argv = [Path(sys.executable).with_name("inspect"), "eval", task.name, "--sandbox", f"hermes:{config_file}"]
    done = subprocess.run(
        [*argv, "--log-dir", tmp_path, "--display", "plain"],
        cwd=task.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counted_by_bash(tmp_path)


def counted_by_bash(folder: Path) -> None:
    (path,) = folder.glob("*.eval")
    log = read_eval_log(str(path))
    assert log.status == "success", log.error
    assert log.results and log.results.scores[0].metrics["accuracy"].value == 1
    assert log.samples and "It has 3 lines." in log.samples[0].output.completion


COMPOSE = """
services:
  default:
    image: {image}
    init: true
    command: sh -c 'echo $$MARK > /tmp/begun; exec sleep 1000'
    working_dir: /work
    environment: [MARK=set]
    volumes: ["./data:/data:ro"]
    network_mode: none
    mem_limit: 256m
    cpus: 0.5
"""
DOCKER_ALONE = pytest.mark.skipif("docker" not in PLACE.tags, reason="a compose.yaml is of containers")


@pytest.fixture
def compose_file(tmp_path: Path) -> Path:
    path = tmp_path / "compose.yaml"
    path.write_text(COMPOSE.format(image=PLACE.settings.get("image")))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "there").write_text("from here\n")
    return path


@DOCKER_ALONE
async def test_a_compose_file_of_one_service_is_a_sandbox(compose_file: Path) -> None:
    await HermesSandboxEnvironment.task_init("task", str(compose_file))
    boxes = await HermesSandboxEnvironment.sample_init("task", str(compose_file), {})
    try:
        box = boxes["default"]
        looking = (
            "pwd; cat /data/there; echo $MARK; ls /sys/class/net; until [ -s /tmp/begun ]; do :; done; cat /tmp/begun"
        )
        assert (await box.exec(["sh", "-c", looking])).stdout == "/work\nfrom here\nset\nlo\nset\n"
        assert not (await box.exec(["touch", "/data/new"], timeout=30)).success
        ended = await box.exec(["sh", "-c", "head -c 600000000 /dev/zero | tail -c 600000000 | wc -c"], timeout=60)
        assert ended.stdout != "600000000\n"
    finally:
        await HermesSandboxEnvironment.sample_cleanup("task", str(compose_file), boxes, False)


@DOCKER_ALONE
@pytest.mark.parametrize("sandbox", ["hermes:compose.yaml", "hermes"], ids=["named", "found beside the task"])
def test_a_task_runs_in_the_service_of_its_compose_file(compose_file: Path, tmp_path: Path, sandbox: str) -> None:
    task = tmp_path / "mocked_task.py"
    task.write_text(Path(__file__).with_name("mocked_task.py").read_text().replace("__file__", repr(__file__)))
    argv = [Path(sys.executable).with_name("inspect"), "eval", task.name, "--sandbox", sandbox, "--display", "plain"]
    done = subprocess.run(
        [*argv, "--log-dir", tmp_path / "logs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counted_by_bash(tmp_path / "logs")


@DOCKER_ALONE
def test_a_compose_file_of_several_services_is_refused_with_a_sentence(compose_file: Path, tmp_path: Path) -> None:
    compose_file.write_text("services: {default: {image: x}, database: {image: y}}")
    task = tmp_path / "mocked_task.py"
    task.write_text(Path(__file__).with_name("mocked_task.py").read_text().replace("__file__", repr(__file__)))
    argv = [Path(sys.executable).with_name("inspect"), "eval", task.name, "--sandbox", "hermes", "--display", "plain"]
    done = subprocess.run(
        [*argv, "--log-dir", tmp_path / "logs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert "compose.yaml should have one service, but has: default, database" in said


async def test_a_compose_file_that_inspect_ai_has_read_is_the_same() -> None:
    config = HermesSandboxEnvironment.config_deserialize({"backend": "local"})
    assert config == HermesSandboxConfig(backend="local")
    assert HermesSandboxEnvironment.is_docker_compatible()
    read = ComposeConfig.model_validate({"services": {"default": {"image": "x", "x-default": True, "ports": ["80"]}}})
    with pytest.raises(SettingsError, match="'ports' is not supported"):
        await HermesSandboxEnvironment.task_init("task", read)


async def test_a_process_of_exec_remote_is_followed_and_answers(box: SandboxEnvironment) -> None:
    proxy = SandboxEnvironmentProxy(box)  # an evaluation wraps all sandboxes in such a proxy
    result = await proxy.exec_remote(["sh", "-c", "echo out; echo err >&2; exit 3"], stream=False)
    assert (result.stdout, result.stderr, result.returncode) == ("out\n", "err\n", 3)


async def test_a_service_answers_calls_from_the_sandbox(box: SandboxEnvironment) -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    called = anyio.Event()
    async with anyio.create_task_group() as group:
        ready = anyio.Event()
        group.start_soon(lambda: sandbox_service("adder", [add], called.is_set, box, started=ready))
        await ready.wait()
        answered = await box.exec(["python3", "-c", CALL_SERVICE], timeout=60)
        called.set()
    assert (answered.stdout, answered.stderr) == ("42\n", "")


async def test_a_command_ends_in_the_sandbox_when_nobody_awaits_it(box: SandboxEnvironment) -> None:
    nap = f"31.{secrets.randbelow(10**9):09}"
    looking = f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep {nap}'"
    async with anyio.create_task_group() as group:
        group.start_soon(box.exec, ["sleep", nap])
        while (await box.exec(["sh", "-c", looking])).stdout == "0\n":
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    with anyio.fail_after(30):
        while (await box.exec(["sh", "-c", looking])).stdout != "0\n":
            await anyio.sleep(0.05)


async def test_commands_side_by_side_take_no_thread_each(box: SandboxEnvironment) -> None:
    wait = "echo > begun-$0; until [ -e go ]; do sleep 0.1; done"
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(partial(box.exec, ["sh", "-c", wait, str(number)], concurrency=False))
        while (await box.exec(["sh", "-c", "ls begun-* 2> /dev/null | wc -l"])).stdout.strip() != "20":
            await anyio.sleep(0.05)
        with anyio.fail_after(30):
            while threading.active_count() >= 20:  # the workers that started the commands end after two idle seconds
                await anyio.sleep(0.05)
        await box.write_file("go", "")


async def test_too_much_output_is_an_error_that_has_the_beginning(box: SandboxEnvironment) -> None:
    with override_max_exec_output_size(1000), pytest.raises(OutputLimitExceededError) as caught:
        await box.exec(["sh", "-c", "echo first; yes | head -n 100000"])
    assert caught.value.truncated_output and caught.value.truncated_output.startswith("first\n")


async def test_a_time_out_tells_what_was_printed(box: SandboxEnvironment) -> None:
    with pytest.raises(TimeoutError) as caught:
        await box.exec(["sh", "-c", "echo begun; sleep 60"], timeout=2)
    assert caught.value.truncated_output == "begun\n"


async def test_a_person_gets_in_by_the_command_of_the_connection(box: SandboxEnvironment) -> None:
    connection = await box.connection()
    assert (connection.type, bool(connection.container)) == ("hermes", "docker" in PLACE.tags)
    # On any terminal: `script` provides a terminal, where installed.
    done = subprocess.run(
        ["script", "-qec", connection.command, "/dev/null"],
        input=b"echo in-$((6*7))\nexit\n",
        capture_output=True,
        check=False,
    )
    assert b"in-42" in done.stdout


@pytest.mark.skipif("docker" not in PLACE.tags, reason="there is no such program for it")
async def test_a_person_gets_in_as_another_user(box: SandboxEnvironment) -> None:
    connection = await box.connection(user="65534")
    done = subprocess.run(
        ["script", "-qec", connection.command, "/dev/null"], input=b"id -u\nexit\n", capture_output=True, check=False
    )
    assert b"65534" in done.stdout


async def test_a_sample_may_have_several_sandboxes_and_leaves_none_behind(tmp_path: Path) -> None:
    config = HermesSandboxConfig(**PLACE.settings, sandboxes={"default": {}, "other": {"cwd": "/tmp"}})
    assert hash(config) == hash(HermesSandboxEnvironment.config_deserialize(config.model_dump()))
    await HermesSandboxEnvironment.task_init("task", config)
    boxes = await HermesSandboxEnvironment.sample_init("task", config, {})
    assert list(boxes) == ["default", "other"]
    await boxes["default"].write_file("here.txt", "of the first")
    assert not (await boxes["other"].exec(["cat", "here.txt"])).success
    assert (await boxes["other"].exec(["pwd"])).stdout == "/tmp\n"
    place = (await boxes["default"].exec(["pwd"])).stdout.strip()
    await HermesSandboxEnvironment.sample_cleanup("task", config, boxes, False)
    if {"local", "ssh"} & set(PLACE.tags):
        assert not Path(place).exists()
