from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from environments import SettingsError, UnsupportedError, load_settings
from environments.docker.creation import container_options


def options(**settings: object):
    loaded = load_settings("docker", **settings)
    loaded.own.check(loaded)
    return container_options(loaded)


def test_the_fingerprint_distinguishes_containers_by_their_options():
    base = options().fingerprint("sha256:1")
    assert options().fingerprint("sha256:1") == base
    assert options(docker_env={"A": "1"}).fingerprint("sha256:1") == base, "variables are no part of the container"
    others = [
        options().fingerprint("sha256:2"),
        *(
            options(**{name: value}).fingerprint("sha256:1")
            for name, value in {
                "container_memory": 100,
                "docker_volumes": ["/a:/b"],
                "docker_network": False,
                "docker_user": "agent",
                "docker_tmp_size": 10,
                "docker_gpus": "all",
                "docker_extra_args": ["--hostname=x"],
            }.items()
        ),
    ]
    assert len({base, *others}) == len(others) + 1


REFUSED = [
    *(
        {"docker_volumes": [volume]}
        for volume in ("/only", "relative:not/absolute", ":/x", "/a:/b:ro:more", "rel/dir:/x")
    ),
    *(
        {"docker_extra_args": arguments}
        for arguments in (["--pids-limit=many"], ["--env"], ["--init=perhaps"], ["--ulimit=nofile=x"], ["--gpus=none"])
    ),
    {"docker_user": "agent", "docker_run_as_host_user": True},
    {"docker_network": False, "docker_extra_args": ["--network=host"]},
    {"docker_env": {"NOT A NAME": "x"}},
    {"docker_gpus": "some"},
]


def test_invalid_and_contradicting_values_are_refused():
    accepted = []
    for settings in REFUSED:
        with contextlib.suppress(SettingsError):
            options(**settings)
            accepted.append(settings)
    assert accepted == []


def test_a_volume_is_a_local_directory_or_a_volume_of_the_engine():
    (mount,) = options(docker_volumes=["~/data:/data"]).host["Mounts"]
    assert (mount["Source"], mount["Target"], mount["Type"]) == (f"{Path.home()}/data", "/data", "bind")
    made = options(docker_volumes=["cache:/data", "/src:/src:ro,rslave", "/label:/label:z"])
    assert made.host["Binds"] == ["cache:/data", "/label:/label:z"]
    (mount,) = made.host["Mounts"]
    assert mount["ReadOnly"] and mount["BindOptions"] == {"Propagation": "rslave"}


def test_memory_processes_and_tmp_are_limited_unless_a_setting_is_zero():
    rows = [
        ({}, 4096 << 20, 256, "size=2048m"),
        ({"container_memory": 300, "container_pids": 40}, 300 << 20, 40, "size=150m"),
        ({"container_memory": 0, "container_pids": 0}, None, None, "size=2048m"),
        ({"docker_tmp_size": 10}, 4096 << 20, 256, "size=10m"),
        ({"docker_tmp_size": 0}, 4096 << 20, 256, "mode=1777"),
        ({"docker_extra_args": ["--memory=1g", "--pids-limit=9"]}, 1 << 30, 9, "size=2048m"),
    ]
    for settings, memory, pids, tmp in rows:
        host = options(**settings).host
        limits = host.get("Memory"), host.get("MemorySwap"), host.get("PidsLimit")
        assert limits == (memory, memory, pids), settings
        assert host["Tmpfs"]["/tmp"].endswith(tmp), settings


def test_a_mount_at_tmp_replaces_the_default_mount():
    assert options(docker_volumes=["/a:/tmp"]).host["Tmpfs"] == {}
    assert options(docker_extra_args=["--tmpfs", "/tmp:size=1m"]).host["Tmpfs"] == {"/tmp": "size=1m"}


def test_a_flag_that_is_not_known_is_refused_without_its_value():
    with pytest.raises(UnsupportedError, match="--entrypoint") as caught:
        options(docker_extra_args=["--entrypoint=s3cret"])
    assert "s3cret" not in str(caught.value)


def test_capabilities_are_added_and_a_memory_flag_leaves_no_swap():
    made = options(docker_extra_args=["--cap-add=NET_RAW", "-m", "100m", "--cpus=1.5", "--gpus", "device=0,1"])
    assert "NET_RAW" in made.host["CapAdd"] and "CHOWN" in made.host["CapAdd"]
    assert made.host["CapDrop"] == ["ALL"]
    assert (made.host["Memory"], made.host["MemorySwap"]) == (100 << 20, 100 << 20)
    assert made.host["NanoCpus"] == 1_500_000_000
    assert made.host["DeviceRequests"][0]["DeviceIDs"] == ["0", "1"]


def test_a_variable_flag_without_a_value_forwards_and_no_value_shows_in_the_repr(monkeypatch):
    monkeypatch.setenv("HERE", "yes")
    assert options(docker_extra_args=["-e", "HERE", "--env=B=c=d"]).environment == {"HERE": "yes", "B": "c=d"}
    assert "s3cret" not in repr(options(docker_env={"A": "s3cret"}))
