"""Joining a sandbox of another program, and the description of any sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from standins.control import StandIn
from standins.daytona_client import client
from standins.in_process import Make
from targets.processes import processes_with

from environments import EnvironmentLostError, EnvironmentStartError
from environments.daytona import DaytonaEnvironment
from environments.daytona.service import sdk

NAME = "of-somebody-else"


@pytest.fixture
def sandbox(service: StandIn) -> Iterator[sdk.Sandbox]:
    """A sandbox of another program's."""
    sandbox = client().create(sdk.CreateSandboxFromSnapshotParams(name=NAME))
    yield sandbox
    sandbox.delete()


def test_nothing_of_ours_is_left_and_the_sandbox_runs_on(sandbox, make: Make, nap: str):
    labels = dict(sandbox.labels)
    env, other = make(sandbox=NAME), make(sandbox=sandbox.id)
    env.execute(f"setsid sleep {nap} & echo kept >~/file", stdin="something")
    env.start(f"sleep {nap}")
    assert other.execute("cat ~/file").output == "kept\n"
    assert not (env.owns_all_processes or env.stop_ends_all or env.capabilities.enforced_limits)
    assert sandbox.id not in [target.id for target in DaytonaEnvironment.list_targets()]
    env.cleanup()
    assert not processes_with(nap)
    other.cleanup()
    assert sandbox.process.exec("ls ~").result == "file\n"
    sandbox.refresh_data()
    assert (sandbox.state, sandbox.labels) == ("started", labels)


def test_a_sandbox_that_is_stopped_says_how_to_start_it(sandbox, make: Make):
    env = make(sandbox=NAME)
    env.execute("true")
    sandbox.stop()
    with pytest.raises(EnvironmentLostError, match="is stopped"):
        env.execute("true")
    with pytest.raises(EnvironmentStartError, match=f"it is stopped; start it with `daytona start {NAME}`"):
        env.execute("true")
    sandbox.start()
    assert env.execute("echo back").output == "back\n"
    with pytest.raises(EnvironmentStartError, match="no sandbox no-such-one to join"):
        make(sandbox="no-such-one").execute("true")


def test_the_target_has_the_sandboxs_id_and_a_port_its_preview_link(sandbox, make: Make):
    env = make(sandbox=NAME)
    target, address = env.target, env.address(8000)
    assert (target.kind, target.id, target.name, target.host) == ("sandbox", sandbox.id, NAME, "127.0.0.1")
    assert target.enter == ("daytona", "ssh", sandbox.id)
    assert address.url == f"https://8000-{sandbox.id}.preview.invalid"
    assert str(address) == f"8000-{sandbox.id}.preview.invalid:443"
    assert address.headers == {"X-Daytona-Preview-Token": f"preview-{sandbox.id}"}
    assert "preview-" not in repr(address)
