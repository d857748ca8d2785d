"""Environments in an instance of another program."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.processes import processes_with
from targets.singularity_engine import SingularityEngine

from environments import (
    BaseEnvironment,
    EnvironmentLostError,
    EnvironmentStartError,
    create_environment,
)
from environments.singularity import SingularityEnvironment
from environments.singularity.client import Client
from environments.singularity.instance import records
from environments.target import this_machine

NAME = "foreign-instance"
Join = Callable[..., BaseEnvironment]


def run_engine(engine: SingularityEngine, *arguments: object) -> None:
    subprocess.run([engine.images.program, "--quiet", *arguments], check=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def instance(engine: SingularityEngine) -> Iterator[str]:
    run_engine(engine, "instance", "start", "--contain", engine.images.sandbox, NAME)
    yield NAME
    run_engine(engine, "instance", "stop", "--all")


@pytest.fixture
def join(instance: str) -> Iterator[Join]:
    made: list[BaseEnvironment] = []

    def make(**settings: object) -> BaseEnvironment:
        made.append(create_environment("singularity", **{"instance": instance, **settings}))
        return made[-1]

    yield make
    for env in made:
        env.cleanup()


def test_cleanup_leaves_the_instance_running_and_nothing_else_in_it(
    join: Join, engine: SingularityEngine, nap: str
) -> None:
    (before,) = records(Client.find())
    env, other = join(), join()
    env.execute(f"setsid sleep {nap} & (sleep {nap} &) ; echo kept >/tmp/file", stdin="something")
    env.start(f"sleep {nap}")
    assert other.execute("cat /tmp/file").output == "kept\n"
    assert not (env.owns_all_processes or env.stop_ends_all or env.capabilities.enforced_limits)
    assert not [target for target in SingularityEnvironment.list_targets() if target.kind == "instance"]
    env.cleanup()
    assert not processes_with(nap)
    assert other.execute("echo /tmp/*").output == "/tmp/file\n"
    other.cleanup()
    assert records(Client.find()) == [before]


def test_an_instance_that_is_restarted_is_lost_and_joined_again(join: Join, engine: SingularityEngine) -> None:
    env = join()
    env.execute("cd /usr")
    run_engine(engine, "instance", "stop", NAME)
    with pytest.raises(EnvironmentLostError, match=f"instance {NAME} has ended, or was restarted"):
        env.execute("pwd")
    with pytest.raises(EnvironmentStartError, match=f"instance start IMAGE {NAME}` starts one"):
        env.execute("pwd")
    run_engine(engine, "instance", "start", engine.images.sandbox, NAME)
    assert env.execute("echo back").output == "back\n"


def test_a_target_names_the_command_that_enters_the_instance(join: Join, instance: str) -> None:
    env = join(cwd="/usr")
    target = env.target
    assert (target.kind, target.id, target.host) == ("instance", instance, this_machine())
    assert target.enter == (Path(Client.find().program).name, "shell", "--pwd", "/usr", f"instance://{instance}")
    got = subprocess.run(target.enter, input="pwd\n", capture_output=True, text=True, check=True)
    assert got.stdout == "/usr\n"
    assert str(env.address(80)) == "127.0.0.1:80"  # the instance shares this machine's network
