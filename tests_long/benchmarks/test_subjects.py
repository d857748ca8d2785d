"""The measured subjects, on a short run where one is cheap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from targets.engines import PYTHON_IMAGE, require_docker, require_sshd

from benchmarks import docker, engine, file_tools, lifecycle, local, output, ssh, startup
from benchmarks.growth import distance, environments, results
from benchmarks.measure import Measured, Timer, in_turn
from benchmarks.peers.peer import Package, Peer

FILE_TOOLS = (
    'read_file("read.txt"), local',
    'write_file("new.txt", "..."), local',
    'write_file("written.txt", "..."), local',
    'search_files("line 77 "), local',
    'search_files("line") in 45 files, local',
    'patch("patched.txt", "old", "new"), local',
)
NOT_INSTALLED = {"SWE-ReX 1.4.0": "it could not be installed: there is no index"}


@contextmanager
def no_peers(asked: Mapping[Package, object]) -> Iterator[tuple[dict[str, Peer], dict[str, str]]]:
    """Make all peers impossible to install."""
    yield {}, NOT_INSTALLED


@pytest.fixture
def one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit each measurement to one counted turn."""

    def in_one_turn(timers: Mapping[str, Timer], **more: object) -> Measured:
        missing = more.get("missing")
        assert missing is None or isinstance(missing, Mapping)
        return in_turn(timers, seconds=0, least_rounds=1, missing=missing)

    monkeypatch.setattr(engine, "SLOW_EVERY", 1)
    for module in (engine, file_tools, startup, lifecycle, distance):
        monkeypatch.setattr(module, "in_turn", in_one_turn)
    for module in (local, docker, lifecycle, ssh, environments, distance):
        monkeypatch.setattr(module, "opened_peers", no_peers)


@pytest.mark.usefixtures("one_turn")
def test_this_machine_is_measured_in_commands_tool_calls_and_scripts() -> None:
    rows = {row.what: row for row in local.rows()}
    assert set(rows) == {
        'execute("true"), local',
        'execute("true"), state reported, local',
        'execute("true"), beside a thread that computes, local',
        'execute_oneshot("true"), local',
        "tool call, local, socket",
        "tool call, local, file queue",
        'execute_code("print(1)"), local',
        "execute_code with a tool call, local",
        'session.execute("x = 1"), local',
        *FILE_TOOLS,
        *(f"{what}, at load" for what in FILE_TOOLS),
    }
    assert all(row.raw and row.ours and row.ratio for row in rows.values())
    assert rows['execute("true"), local'].goal == 4
    assert rows['execute("true"), local'].beside.keys() == {"`bash -lc`"}
    assert rows['execute("true"), local'].missing == NOT_INSTALLED
    assert rows['execute_code("print(1)"), local'].goal == 1.3
    assert rows["execute_code with a tool call, local"].goal == 1.6
    assert rows['session.execute("x = 1"), local'].goal == 5


@pytest.mark.usefixtures("one_turn")
def test_the_first_command_and_a_large_output_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "COMMAND", "head -c 1000000 /dev/zero")
    monkeypatch.setattr(output, "ROUNDS", 1)
    (first,) = startup.rows()
    (much,) = output.rows()
    assert first.goal == 5 and first.ratio
    assert much.goal == 1.3 and much.ratio
    assert "grew by" in much.note


@pytest.mark.usefixtures("one_turn")
def test_growth_is_measured_at_each_size_also_without_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "COUNTS", (1, 2))
    monkeypatch.setattr(environments, "ROUNDS", 1)
    monkeypatch.setattr(environments, "SECONDS", 0.02)
    monkeypatch.setattr(environments, "in_fresh_process", lambda measure: measure())
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    monkeypatch.setattr(results, "SIZES", (1_000, 10_000))
    charts = {chart.name: chart for module in (environments, results) for chart in module.charts()}
    assert set(charts) == {"environments", "results"}
    for chart in charts.values():
        for line in chart.lines:
            assert len(line.points) == 2, (chart.name, line.name)
            assert all(0 < point.low <= point.value <= point.high for point in line.points)


@pytest.mark.usefixtures("one_turn")
def test_a_container_is_measured_in_use_and_in_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    require_docker().close()
    for module in (docker, lifecycle):
        monkeypatch.setattr(module, "peer_arguments", lambda python: ({}, NOT_INSTALLED))
        monkeypatch.setattr(module, "docker_image", lambda: PYTHON_IMAGE)
    monkeypatch.setattr(engine, "FILE_SIZE", 1_000_000)
    monkeypatch.setattr(lifecycle, "ROUNDS", 1)
    monkeypatch.setattr(lifecycle, "READY", 1)
    rows = {row.what: row for row in [*docker.rows(), *lifecycle.rows()]}
    assert all(row.raw and row.ours for row in rows.values())
    assert rows['execute("true"), Docker'].beside.keys() == {"`docker exec`"}
    by_cat, by_python = rows["tool call, Docker, relay, beside a `cat`"], rows["tool call, Docker, relay"]
    assert by_cat.ours == by_python.ours and by_cat.raw != by_python.raw
    assert rows["put_file of 100 MB, Docker"].raw_is == "`docker cp`"
    assert rows["create, first command, cleanup, Docker"].missing == NOT_INSTALLED
    assert rows["first command from a pool, Docker"].limit == 0.02


@pytest.mark.usefixtures("one_turn")
def test_a_host_over_ssh_is_measured_here_and_at_each_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    require_sshd()
    monkeypatch.setattr(engine, "FILE_SIZE", 1_000_000)
    monkeypatch.setattr(distance, "ROUND_TRIPS", (0, 10))
    rows = {row.what: row for row in ssh.rows()}
    assert all(row.raw and row.ours for row in rows.values())
    assert rows['execute("true"), SSH'].beside.keys() == {"`ssh`, ControlMaster", "paramiko"}
    (commands,) = distance.charts()
    assert [line.name for line in commands.lines] == ["this package", "ssh, ControlMaster", "paramiko"]
    for line in commands.lines:
        near, far = line.points
        assert near.value > 0 and far.value > 0, line.name
