"""hermes-agent: the environment of the terminal tool, and `execute_code`, configured by hermes-agent's variables."""

from __future__ import annotations

import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.peers.scripts import CALLING, PRINTING, TIMED
from benchmarks.peers.serving import serve

TASK = "benchmark"
_opened: list[Any] = []


def open_place(place: str, image: str = "", ssh: dict[str, str] | None = None, make: bool = True) -> None:
    """Make the environment of a place, as the terminal tool does, or only prepare."""
    logging.disable(logging.WARNING)
    os.environ |= {
        "TERMINAL_ENV": place,
        "TERMINAL_CWD": "/tmp",
        "TERMINAL_CONTAINER_PERSISTENT": "false",
        "TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES": "false",
        # No limits: ours has no limits either, and some machines cannot set limits.
        "TERMINAL_CONTAINER_CPU": "0",
        "TERMINAL_CONTAINER_MEMORY": "0",
        "TERMINAL_CONTAINER_DISK": "0",
        f"TERMINAL_{place.upper()}_IMAGE": image,
    }
    if ssh:
        os.environ |= {f"TERMINAL_SSH_{name.upper()}": ssh[name] for name in ("host", "user", "port", "key")}
        _use_config(ssh["config"])
    if make:
        _opened.append(_made())


def _use_config(config: str) -> None:
    """Give hermes-agent's ssh its own configuration, so that no host key is written to this user's file."""
    from tools.environments.ssh import SSHEnvironment

    build = SSHEnvironment._build_ssh_command

    def with_config(self: Any, *arguments: Any, **named: Any) -> list[str]:
        program, *rest = build(self, *arguments, **named)
        return [program, "-F", config, *rest]

    SSHEnvironment._build_ssh_command = with_config


def _made() -> Any:
    """Have the terminal tool make its environment: the environment for scripts would leave its container behind."""
    from tools.terminal_tool import _active_environments, _resolve_container_task_id, terminal_tool

    result = json.loads(terminal_tool("true", task_id=TASK))
    if result["exit_code"] != 0:
        raise RuntimeError(json.dumps(result))
    return _active_environments[_resolve_container_task_id(TASK)]


def command(text: str = "true") -> int:
    """Run a command in the session, and return the length of its output."""
    result = _opened[0].execute(text)
    if result["returncode"] != 0:
        raise RuntimeError(result["output"])
    return len(result["output"])


def script(code: str = PRINTING) -> str:
    """Run a script by the model's tool for scripts."""
    from tools.code_execution_tool import execute_code

    result = json.loads(execute_code(code, task_id=TASK))
    if result.get("status") != "success":
        raise RuntimeError(json.dumps(result))
    return str(result["output"])


def script_with_call() -> str:
    """Run a script with a tool call."""
    return script(CALLING)


def tool_calls(calls: int) -> Any:
    """Return the seconds of each call, as measured in the script.

    hermes-agent has no empty tool. The nearest is a file that `read_file` refuses to read again.
    """
    call = 'from hermes_tools import read_file\ndef call():\n    read_file("/etc/hostname")\n'
    return json.loads(script(call + TIMED.format(calls=calls)))


def life() -> None:
    """Make an environment, run its first command, and remove the environment."""
    from tools.terminal_tool import _resolve_container_task_id, cleanup_vm

    env = _made()  # with a first command
    cleanup_vm(_resolve_container_task_id(TASK))
    _wait_for_cleanup(env)


def _wait_for_cleanup(env: Any) -> None:
    if hasattr(env, "wait_for_cleanup"):
        env.wait_for_cleanup()


def at_once(environments: int, seconds: float) -> float:
    """Return the commands a second of several environments, with a thread each."""
    import time

    from tools.environments.local import LocalEnvironment

    while len(_opened) < environments:
        _opened.append(LocalEnvironment(cwd="/tmp"))
    end = time.perf_counter() + seconds

    def work(env: Any) -> int:
        done = 0
        while time.perf_counter() < end:
            env.execute("true")
            done += 1
        return done

    began = time.perf_counter()
    with ThreadPoolExecutor(environments) as threads:
        done = sum(threads.map(work, _opened[:environments]))
    return done / (time.perf_counter() - began)


def close() -> None:
    """Remove everything."""
    from tools.terminal_tool import cleanup_all_environments

    for env in _opened:
        env.cleanup()
        _wait_for_cleanup(env)
    cleanup_all_environments()


if __name__ == "__main__":
    serve(
        {
            "open": open_place,
            "command": command,
            "script": script,
            "script_with_call": script_with_call,
            "tool_calls": tool_calls,
            "life": life,
            "at_once": at_once,
            "close": close,
        }
    )
