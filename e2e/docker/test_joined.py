"""Environments in the container of another program, such as a service of compose."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest
from docker.models.containers import Container
from targets.engines import PYTHON_IMAGE, require_docker

from environments import (
    BaseEnvironment,
    EnvironmentLostError,
    EnvironmentStartError,
    create_environment,
)
from environments.conformance.check import wait_until
from environments.docker import DockerEnvironment

Join = Callable[..., BaseEnvironment]


@pytest.fixture(scope="module")
def service() -> Iterator[Container]:
    """Start a foreign container with its own user, directory and limit, and without an init process that reaps."""
    engine = require_docker()
    container = engine.containers.run(
        PYTHON_IMAGE,
        ["sleep", "10000"],
        name=f"service-{secrets.token_hex(4)}",
        user="1000",
        working_dir="/srv/app",
        environment={"OF_SERVICE": "yes"},
        labels={"com.docker.compose.service": f"web-{secrets.token_hex(4)}"},
        mem_limit="64m",
        detach=True,
    )
    yield container
    container.remove(force=True)
    engine.close()


@pytest.fixture
def join(service: Container) -> Iterator[Join]:
    """Make environments in the service's container; clean them up at the end."""
    made: list[BaseEnvironment] = []

    def make(**settings: object) -> BaseEnvironment:
        made.append(create_environment("docker", **{"container": service.name, **settings}))
        return made[-1]

    yield make
    for env in made:
        env.cleanup()


def processes_of(container: Container) -> list[str]:
    """Return the commands of a container's processes, without zombies."""
    listed = container.top(ps_args="-o pid,stat,args")["Processes"]
    return [arguments for _, state, arguments in listed if not state.startswith("Z")]


def test_commands_have_the_user_directory_and_variables_of_the_container(join, service):
    env = join()
    assert env.execute('id -u; pwd; echo "$OF_SERVICE"').output == "1000\n/srv/app\nyes\n"
    assert env.target.id == service.id
    assert env.capabilities.enforced_limits == {"container_memory"}
    assert not [target for target in DockerEnvironment.list_targets() if target.id == service.id]
    result = env.execute("python3 -c 'bytearray(200 << 20)'", timeout=60)
    assert result.exit_code == 137
    assert "its own limit is 64 MB" in result.note


def test_the_settings_replace_user_and_directory_and_add_variables(join, service):
    env = join(user="0", cwd="/usr", env={"MINE": "too"})
    assert env.execute('id -u; pwd; echo "$OF_SERVICE $MINE"').output == "0\n/usr\nyes too\n"
    assert env.target.enter[3:7] == ("--user", "0", "--workdir", "/usr")
    with pytest.raises(EnvironmentStartError, match="/srv/none cannot be entered"):
        join(cwd="/srv/none").execute("true")
    assert service.exec_run(["test", "-e", "/srv/none"]).exit_code == 1


def test_cleanup_leaves_the_container_running_and_nothing_else_in_it(service):
    service.reload()
    before = service.attrs["State"]["StartedAt"]
    with (
        create_environment("docker", container=service.id[:12]) as env,
        create_environment("docker", container=service.name) as other,
    ):
        env.execute("setsid sleep 1000 & (sleep 1000 &) ; echo kept >/tmp/file", stdin="something")
        env.execute("env -i setsid sleep 1000 <&- >&- 2>&- 29>&- &")
        env.start("sleep 1000")
        assert other.execute("cat /tmp/file").output == "kept\n"
        assert not (env.owns_all_processes or env.stop_ends_all)
    service.reload()
    assert (service.status, service.attrs["State"]["StartedAt"]) == ("running", before)
    assert wait_until(lambda: processes_of(service) == ["sleep 10000"])
    assert service.exec_run(["sh", "-c", "cd /tmp; echo *"]).output == b"file\n"
    assert list(service.labels) == ["com.docker.compose.service"]


def test_a_container_that_is_restarted_is_lost_and_joined_again(join, service):
    env, idle = join(), join()
    env.execute("cat; cd /usr", stdin="something")  # standard input makes a scratch directory
    idle.execute("true")
    with pytest.raises(EnvironmentLostError, match=service.id[:12]):
        env.execute("echo begun; sleep 1000", on_output=lambda _: service.restart(timeout=0))
    with pytest.raises(EnvironmentLostError, match=service.id[:12]):
        idle.execute("true")
    assert env.execute("pwd").output == "/usr\n"
    assert idle.execute("pwd").output == "/srv/app\n"
    env.cleanup()
    idle.cleanup()
    assert wait_until(lambda: processes_of(service) == ["sleep 10000"])
    assert b"hermes-" not in service.exec_run(["ls", "/tmp"]).output


def test_a_container_that_is_not_running_is_an_error_with_the_remedy(join, service):
    service.pause()
    try:
        with pytest.raises(EnvironmentStartError, match=f"paused; go on with `docker unpause {service.name}`"):
            join().execute("true")
    finally:
        service.unpause()
    service.stop(timeout=0)
    try:
        with pytest.raises(EnvironmentStartError, match=f"does not run .*`docker start {service.name}`"):
            join().execute("true")
    finally:
        service.start()
    with pytest.raises(EnvironmentStartError, match="no container no-such-one to join; `docker ps --all`"):
        join(container="no-such-one").execute("true")
    with pytest.raises(EnvironmentStartError, match=f"the service of that name runs in {service.name}$"):
        join(container=service.labels["com.docker.compose.service"]).execute("true")
