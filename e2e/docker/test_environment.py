from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path

import docker
import pytest
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE

from environments import EnvironmentStartError, UnsupportedError


def test_a_container_is_hardened_by_default(docker_environment, container_of):
    env = docker_environment()
    status = env.execute("cat /proc/self/status").output
    assert "NoNewPrivs:\t1" in status
    kept = int(status.partition("CapEff:")[2].split()[0], 16)
    cap_net_raw, cap_sys_admin, cap_mknod, cap_chown = 13, 21, 27, 0
    assert not kept & (1 << cap_net_raw | 1 << cap_sys_admin | 1 << cap_mknod)
    assert kept & 1 << cap_chown
    host = container_of(env).attrs["HostConfig"]
    assert (host["CapDrop"], host["Init"], host["PidsLimit"], host["Privileged"]) == (["ALL"], True, 256, False)
    assert (host["Memory"], host["MemorySwap"]) == (4096 << 20, 4096 << 20)


def test_tmp_is_in_memory_and_programs_run_from_it(docker_environment):
    env = docker_environment()
    assert env.execute("stat -f -c %T /tmp").output == "tmpfs\n"
    assert env.execute("cp /bin/true /tmp/mine && /tmp/mine").ok


def test_tmp_has_a_limit_of_its_own(docker_environment):
    env = docker_environment(docker_tmp_size=2)
    assert "No space left" in env.execute("head -c 3M /dev/zero >/tmp/file").output
    assert env.execute("rm /tmp/file; echo fine").output == "fine\n"


def test_limits_are_those_of_the_settings(docker_environment, container_of):
    env = docker_environment(container_cpu=0.5, container_memory=64, container_pids=50)
    host = container_of(env).attrs["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (5e8, 64 << 20, 64 << 20, 50)
    assert env.capabilities.enforced_limits == {"container_cpu", "container_memory", "container_pids"}


def test_a_limit_of_zero_is_none(docker_environment, container_of):
    env = docker_environment(container_cpu=0, container_memory=0, container_disk=0, container_pids=0)
    host = container_of(env).attrs["HostConfig"]
    assert not any(host[name] for name in ("NanoCpus", "Memory", "PidsLimit"))
    assert env.capabilities.enforced_limits == frozenset()


def test_a_fork_bomb_ends_at_the_limit_of_processes(docker_environment):
    env = docker_environment(container_pids=30)
    bomb = "import os, time\nwhile True:\n    os.fork() or time.sleep(5)"
    assert "Resource temporarily unavailable" in env.execute(f"python3 -c '{bomb}'", timeout=30).output
    assert env.execute("echo still here").output == "still here\n"


def test_a_disk_limit_is_held_or_refused(docker_environment, engine):
    name = f"t-{secrets.token_hex(4)}"
    env = docker_environment(container_disk=100, task_id=name)
    if dict(engine.info()["DriverStatus"]).get("Backing Filesystem") == "xfs":
        assert not env.execute("head -c 200M /dev/zero >/big").ok
        return
    with pytest.raises(UnsupportedError, match=r"docker.*container_disk"):
        env.execute("true")
    assert not engine.containers.list(all=True, filters={"label": f"hermes-environments.task={name}"})


def test_gpus_that_are_not_there_are_refused(docker_environment, engine):
    if "nvidia" in engine.info()["Runtimes"]:
        assert docker_environment(docker_gpus="all").execute("true").ok
        return
    task = f"t-{secrets.token_hex(4)}"
    with pytest.raises(UnsupportedError, match="docker_gpus"):
        docker_environment(docker_gpus="all", task_id=task).execute("true")
    assert not engine.containers.list(all=True, filters={"label": f"hermes-environments.task={task}"})


def test_without_network_there_is_only_loopback(docker_environment):
    assert docker_environment(docker_network=False).execute("ls /sys/class/net").output == "lo\n"


def test_with_network_there_is_a_link(docker_environment):
    assert "eth0" in docker_environment().execute("ls /sys/class/net").output


def test_commands_run_as_the_given_user(docker_environment):
    assert docker_environment(docker_user="agent").execute("id -un").output == "agent\n"


def test_run_as_host_user_takes_the_ids_of_this_process(docker_environment):
    env = docker_environment(docker_run_as_host_user=True)
    assert env.execute("echo $(id -u):$(id -g)").output == f"{os.getuid()}:{os.getgid()}\n"


def test_volumes_are_mounted_and_read_only_ones_are(docker_environment, tmp_path: Path):
    (tmp_path / "rw").mkdir()
    (tmp_path / "ro").mkdir()
    env = docker_environment(docker_volumes=(f"{tmp_path}/rw:/data", f"{tmp_path}/ro:/fixed:ro"))
    assert env.execute("echo there >/data/file").ok
    assert (tmp_path / "rw" / "file").read_text() == "there\n"
    assert "Read-only file system" in env.execute("echo no >/fixed/file").output


@pytest.mark.parametrize("form", ["docker_volumes", "docker_extra_args"])
def test_a_mount_whose_source_is_not_there_is_an_error_and_nothing_is_made(form, docker_environment, tmp_path: Path):
    missing = tmp_path / "missing"
    volume = f"{missing}:/data"
    env = docker_environment(**{form: (volume,) if form == "docker_volumes" else ("-v", volume)})
    with pytest.raises(EnvironmentStartError, match=str(missing)):
        env.execute("true")
    assert not missing.exists()


def test_a_mistyped_mount_names_what_is_near(docker_environment, tmp_path: Path):
    (tmp_path / "datasets").mkdir()
    env = docker_environment(docker_volumes=(f"{tmp_path}/dataset:/data",))
    with pytest.raises(EnvironmentStartError, match=r"did you mean 'datasets'\?"):
        env.execute("true")


def test_a_named_volume_is_made_on_first_use(docker_environment, engine):
    name = f"t-{secrets.token_hex(4)}"
    env = docker_environment(docker_volumes=(f"{name}:/data",))
    try:
        assert env.execute("echo there >/data/file; cat /data/file").output == "there\n"
        env.cleanup()
    finally:
        engine.volumes.get(name).remove()


def test_the_working_directory_is_mounted_at_workspace(docker_environment, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    env = docker_environment(docker_mount_cwd_to_workspace=True)
    assert env.execute("pwd; cat file").output == "/workspace\nmine"


def test_variables_reach_commands_and_terminals(docker_environment, monkeypatch):
    monkeypatch.setenv("FORWARDED", "from here")
    monkeypatch.delenv("MISSING", raising=False)
    env = docker_environment(docker_env={"GIVEN": "a 'b'\nc"}, docker_forward_env=("FORWARDED", "MISSING"))
    ask = 'echo "$GIVEN|$FORWARDED|${MISSING-unset}"'
    assert env.execute(ask).output == "a 'b'\nc|from here|unset\n"
    assert env.execute_oneshot(ask).output == "a 'b'\nc|from here|unset\n"
    process = env.start('echo "$FORWARDED"', pty=True)
    process.wait(10)
    assert process.read() == "from here\r\n"


def test_a_secret_variable_is_nowhere_to_be_read_but_in_the_processes(docker_environment, container_of, monkeypatch):
    secret = secrets.token_hex(16)
    monkeypatch.setenv("API_TOKEN", secret)
    env = docker_environment(docker_forward_env=("API_TOKEN",), docker_env={"OTHER": secret})
    assert env.execute("echo $API_TOKEN").output.strip() == secret
    container = container_of(env)
    assert secret not in str(container.attrs)
    assert secret not in str(container.top())
    assert secret not in str([container.client.api.exec_inspect(each) for each in container.attrs["ExecIDs"]])
    assert secret not in repr(env) + repr(env.settings)


def test_extra_arguments_of_docker_run_are_passed_on(docker_environment, container_of):
    flags = (
        "--hostname",
        "--add-host=db:10.0.0.1",
        "--ulimit",
        "nofile=777:777",
        "-e",
        "FROM_FLAG=yes",
        "--shm-size=8m",
    )
    env = docker_environment(docker_extra_args=(*flags[:1], "shire", *flags[1:]))
    assert env.execute("hostname; ulimit -n; echo $FROM_FLAG; grep -c db /etc/hosts").output == "shire\n777\nyes\n1\n"
    env = docker_environment(docker_extra_args=("--publish", "127.0.0.1::8080", "--label=mine=1"))
    attrs = container_of(env).attrs
    assert attrs["NetworkSettings"]["Ports"]["8080/tcp"]
    assert attrs["Config"]["Labels"]["mine"] == "1"


def test_a_terminal_has_the_size_that_was_asked_for(docker_environment):
    process = docker_environment().start("stty size; read -r _; stty size", pty=True, rows=31, columns=97)
    process.resize(20, 60)
    process.write("\n")
    assert process.wait(10) == 0
    assert process.read().split()[-2:] == ["20", "60"]


def test_cleanup_removes_the_container(docker_environment, container_of):
    env = docker_environment()
    container = container_of(env)
    env.execute("(trap '' TERM; setsid sleep 1000) >/dev/null 2>&1 &")
    env.cleanup()
    with pytest.raises(docker.errors.NotFound):
        container.reload()


def test_large_files_go_both_ways_with_their_mode(docker_environment, tmp_path: Path):
    env = docker_environment(docker_user="agent")
    data = secrets.token_bytes(1 << 20) * 20
    local = tmp_path / "data"
    local.write_bytes(data)
    local.chmod(0o751)
    for place in ("/tmp/in memory", "/workspace/sub/on disk"):
        env.put_file(local, place)
        assert env.execute(f"stat -c '%a %U %s' '{place}'").output == f"751 agent {len(data)}\n"
        env.get_file(place, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == data
        assert (tmp_path / "back").stat().st_mode & 0o777 == 0o751


def test_an_image_without_bash_and_python_runs_commands(docker_environment):
    env = docker_environment(image=MINIMAL_IMAGE)
    assert env.capabilities.shell == "sh"
    env.execute("cd /opt; export KEPT=yes")
    assert env.execute("pwd; echo $KEPT; command -v bash python3").output == "/opt\nyes\n"
    assert env.execute("sleep 1000", timeout=0.5).timed_out
    process = env.start("stty size; read -r line; echo got $line", pty=True, rows=30, columns=90)
    process.write("hello\n")
    assert process.wait(10) == 0
    text = process.read()
    assert "30 90" in text and "got hello" in text


def test_twenty_one_shots_run_at_once(docker_environment):
    env = docker_environment()
    outputs: list[str] = []
    ask = threading.Barrier(20)

    def run(number: int) -> None:
        ask.wait()
        outputs.append(env.execute_oneshot(f"sleep 0.5; echo {number}").output)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, outputs)) == list(range(20))


def test_the_default_image_can_be_set_by_variable(monkeypatch, docker_environment):
    monkeypatch.setenv("TERMINAL_DOCKER_IMAGE", PYTHON_IMAGE)
    assert docker_environment(image=None).execute("python3 --version").output.startswith("Python 3")
