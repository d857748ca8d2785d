"""What is said of this machine and of a sandbox on it, and where their ports are."""

from __future__ import annotations

import os
import subprocess

import pytest
from targets.engines import require_bubblewrap

from environments import TerminalError, UnsupportedError, create_environment
from environments.target import this_machine


def test_this_machine_is_named_and_its_ports_are_its_own():
    with create_environment("local") as env:
        target = env.target
        assert (target.backend, target.kind, target.host) == ("local", "machine", this_machine())
        assert str(target) == f"local: machine {this_machine()}; enter it with `bash`"
        assert (str(env.address(80)), env.address(80).url) == ("127.0.0.1:80", "http://127.0.0.1:80")
    with pytest.raises(TerminalError, match="cleaned up"):
        env.target  # noqa: B018 - it is looked up


def test_a_sandbox_is_entered_by_root_alone():
    require_bubblewrap()
    with create_environment("local", sandbox="bubblewrap") as env:
        env.execute("cd /usr; touch /tmp/of-the-sandbox")
        target = env.target
        assert (target.kind, target.host) == ("sandbox", this_machine())
        if os.geteuid() != 0:
            assert target.enter == ()
            return
        got = subprocess.run([*target.enter, "-c", "pwd; ls -d /tmp/of-*"], capture_output=True, text=True, check=True)
        assert got.stdout == "/usr\n/tmp/of-the-sandbox\n"


def test_a_port_of_a_sandbox_needs_a_network():
    require_bubblewrap()
    with create_environment("local", sandbox="bubblewrap", local_sandbox_network=True) as env:
        assert str(env.address(80)) == "127.0.0.1:80"
    with (
        create_environment("local", sandbox="bubblewrap") as env,
        pytest.raises(UnsupportedError, match="local_sandbox_network"),
    ):
        env.address(80)
