"""Joining a sandbox of another program, and the description of any sandbox."""

from __future__ import annotations

import modal
import pytest
from standins.control import StandIn
from standins.in_process import Make
from targets.processes import processes_with

from environments import EnvironmentLostError, EnvironmentStartError, UnsupportedError
from environments.modal import ModalEnvironment


@pytest.fixture
def sandbox(service: StandIn) -> modal.Sandbox:
    """A sandbox of another program's."""
    client = modal.Client.from_env()
    app = modal.App.lookup("of-somebody-else", create_if_missing=True, client=client)
    sandbox = modal.Sandbox.create(app=app, client=client, encrypted_ports=[8000])
    yield sandbox
    sandbox.terminate()


def test_nothing_of_ours_is_left_and_the_sandbox_runs_on(sandbox, make: Make, nap: str):
    env, other = make(sandbox=sandbox.object_id), make(sandbox=sandbox.object_id, env={"MINE": "too"})
    env.execute(f"setsid sleep {nap} & echo kept >~/file", stdin="something")
    env.start(f"sleep {nap}")
    assert other.execute('cat ~/file; echo "$MINE"').output == "kept\ntoo\n"
    assert not (env.owns_all_processes or env.stop_ends_all or env.capabilities.enforced_limits)
    assert sandbox.object_id not in [target.id for target in ModalEnvironment.list_targets()]
    env.cleanup()
    assert not processes_with(nap)
    assert other.execute("ls ~").output == "file\n"
    other.cleanup()
    assert sandbox.poll() is None
    assert sandbox.get_tags() == {}


def test_a_sandbox_that_has_ended_is_lost_and_cannot_be_joined(sandbox, make: Make):
    env = make(sandbox=sandbox.object_id)
    env.execute("true")
    sandbox.terminate()
    with pytest.raises(EnvironmentLostError, match=f"{sandbox.object_id} has ended"):
        env.execute("true")
    with pytest.raises(EnvironmentStartError, match=r"it has ended \(\d+\), and cannot be restarted"):
        env.execute("true")
    with pytest.raises(EnvironmentStartError, match="no sandbox sb-00000000000000000000000000 to join"):
        make(sandbox=f"sb-{'0' * 26}").execute("true")


def test_the_target_has_the_sandboxs_id_and_a_port_the_sandboxs_tunnel(sandbox, make: Make):
    target = make(sandbox=sandbox.object_id).target
    assert (target.kind, target.id) == ("sandbox", sandbox.object_id)
    assert target.enter == ("modal", "shell", sandbox.object_id)
    assert target.host == "127.0.0.1"
    for env in (make(ports=[8000]), make(sandbox=sandbox.object_id)):
        address = env.address(8000)
        assert str(address) == f"{env.target.id}-8000.tunnel.invalid:443"
        assert address.url == f"https://{address.host}"
        with pytest.raises(UnsupportedError, match=r"without a tunnel to port 80; .*(ports|encrypted_ports)"):
            env.address(80)
