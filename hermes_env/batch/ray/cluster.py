"""The Ray cluster of a batch: joined by address, or started on this machine."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from environments.errors import EnvironmentStartError, SettingsError
from environments.extras import missing_library
from environments.plain_number import plain_number
from environments.validation import closest

MODE, TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
"""Variables of Ray's token authentication: the mode, and the token."""
REACHED_IN = 10.0
"""Connection time-out in seconds for a cluster. Ray itself waits for minutes, and then ends the process."""
PROBED_IN = 20.0
"""Time-out in seconds for a Python process that imports Ray and connects once, usually in half a second."""
PLACED_BY = ("SPREAD", "DEFAULT")
LITTLE_CPU = 0.01
"""The default of `num_cpus`: Ray does not spread actors without resources."""
SHORT_FOLDER = "/tmp/ray"  # noqa: S108  # Ray's own default
"""The folder of logs and sockets of a local Ray if the temporary directory has a long path."""
_MAX_MESSAGE = 300
"""Characters of an error of Ray to keep."""
_SIGACTION_SIZE = 256
"""Bytes; more than the size of the structure on any system."""
_SET_BY_RAY = (MODE, TOKEN, "PYTHONBREAKPOINT")
"""Variables that Ray sets in a joining process. Later children would inherit them."""
_OPTIONS = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
"""Options of an actor, with the nodes' names for them."""
_CONNECT = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"


def ray_library() -> ModuleType:
    """Import Ray. Raises MissingExtraError if Ray is not installed."""
    try:
        import ray
    except ImportError:
        raise missing_library("a batch with the engine ray", "ray", "ray") from None
    return ray


class Cluster:
    """A Ray cluster joined by this process. Call `leave` at the end.

    Args:
        address: `HOST:PORT` of a cluster's head, `auto` for the cluster of this machine, or None to start a local Ray
            until `leave`. A cluster that this process has joined before is used, and stays joined.

    Raises:
        SettingsError: The address is wrong, or this machine is part of no cluster.
        EnvironmentStartError: The cluster does not answer, or has another version of Ray or Python.
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, address: str | None) -> None:
        self._ray: Any = ray_library()
        self._is_ours = not self._ray.is_initialized()
        self._folder: Path | None = None
        if self._is_ours:
            _check_address(address)
            self._join(address)
        elif address not in (None, "auto", joined := self._ray.get_runtime_context().gcs_address):
            raise SettingsError(f"this process has joined the Ray at {joined}; omit the address, or give {joined}")

    def _join(self, address: str | None) -> None:
        _be_quiet()
        with _own_signals(), _own_variables(RAY_USAGE_STATS_ENABLED="0"):
            try:
                if address is None:
                    self._folder = self._start()
                else:
                    found = _found_at(address)
                    _use_token_if(asks_for_token(found))
                    self._ray.init(address=found, log_to_driver=False, configure_logging=False)
            except (ConnectionError, ValueError) as error:
                raise SettingsError(
                    f"no Ray cluster was found at address {address!r}; start a cluster by `ray start --head`, or give "
                    f"the HOST:PORT of a cluster: {_in_a_line(error)}"
                ) from error
            except (RuntimeError, self._ray.exceptions.RayError) as error:  # such as another version
                raise EnvironmentStartError(f"Ray could not be joined: {_in_a_line(error)}") from error

    def _start(self) -> Path:
        """Start a local Ray, and return the folder of the logs and sockets."""
        _use_own_token()
        with _listening_locally():
            self._ray.init(
                address="local",
                include_dashboard=False,
                _temp_dir=_short_folder(),
                log_to_driver=False,
                configure_logging=False,
            )
        return _session_folder()

    @property
    def nodes(self) -> list[Mapping[str, float]]:
        """The resources of each live node, by name."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def leave(self) -> None:
        """Leave the cluster, and end a local Ray. A cluster joined before stays joined."""
        if self._is_ours:
            with _own_signals():
                self._ray.shutdown()
            _read_token_anew()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                latest = self._folder.with_name("session_latest")
                if latest.readlink() == self._folder:
                    latest.unlink()


def placement(resources: Mapping[str, float | str], nodes: list[Mapping[str, float]]) -> dict[str, Any]:
    """Return the options of an actor.

    Args:
        resources: The resources of the actor: `num_cpus`, `num_gpus`, `memory` in bytes, or any other resource of the
            nodes by name; and `scheduling_strategy`, `SPREAD` over the nodes or Ray's `DEFAULT`.
        nodes: The resources of the nodes.

    Raises:
        SettingsError: A value is wrong, or no node has enough resources.
    """
    amounts = {"num_cpus": LITTLE_CPU, **resources}
    strategy = amounts.pop("scheduling_strategy", "SPREAD")
    if strategy not in PLACED_BY:
        raise SettingsError(f"resources: scheduling_strategy is {strategy!r}; allowed: {', '.join(PLACED_BY)}")
    taken = {name: _checked_amount(name, amount) for name, amount in amounts.items()}
    asked = {_OPTIONS.get(name, name): amount for name, amount in taken.items() if amount}
    if not any(all(node.get(name, 0) >= amount for name, amount in asked.items()) for node in nodes):
        raise _nowhere(asked, nodes)
    own = {name: amount for name, amount in taken.items() if name in _OPTIONS}
    further = {name: amount for name, amount in taken.items() if name not in _OPTIONS}
    return {**own, "resources": further, "scheduling_strategy": strategy}


def _checked_amount(name: str, amount: object) -> float:
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < float("inf"):
        raise SettingsError(f"resources: {name} is {amount!r}; it should be a number, from 0 on")
    return amount


def _nowhere(asked: Mapping[str, float], nodes: list[Mapping[str, float]]) -> SettingsError:
    there = {name for node in nodes for name in node if not name.startswith("node:")}
    unknown = next((name for name in asked if name not in there), None)
    if unknown is not None:
        options = {option: name for option, name in _OPTIONS.items() if name in there}
        option = next((option for option, name in _OPTIONS.items() if name == unknown), None)
        shown = repr(option) if option else f"{unknown!r}{closest(unknown, there | options.keys())}"
        return SettingsError(f"no node of the Ray cluster has {shown}; start such a node, or see `ray status`")
    wanted = ", ".join(f"{name} {plain_number(amount)}" for name, amount in asked.items())
    return SettingsError(
        f"no node of the Ray cluster has {wanted} for an environment; request less, or start such a node"
    )


def _check_address(address: str | None) -> None:
    """Check that a server listens at an address. Ray itself takes minutes for this."""
    if address in (None, "auto"):
        return
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise SettingsError(
            f"the address of a Ray cluster is {address!r}; give the HOST:PORT of its head, such as 10.0.0.1:6379, or "
            "'auto' on a machine that is part of it"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_IN).close()
    except (OSError, OverflowError) as error:
        raise EnvironmentStartError(
            f"the Ray cluster at {address!r} does not answer: {error}; check that its head runs, and that this machine "
            "may connect to the head"
        ) from error


def _short_folder() -> str | None:
    """Return a folder for Ray's sockets if Ray's default would make their paths too long."""
    return SHORT_FOLDER if len(tempfile.gettempdir()) > len(SHORT_FOLDER) else None


def _in_a_line(error: Exception) -> str:
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}..."


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the program's handler of SIGTERM.

    Ray sets a Python handler without time for clean-up, and a C handler that prints a stack trace.
    """
    sigaction, kept = ctypes.CDLL(None).sigaction, ctypes.create_string_buffer(_SIGACTION_SIZE)
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    sigaction(signal.SIGTERM, None, kept)
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)
        sigaction(signal.SIGTERM, kept, None)


@contextlib.contextmanager
def _own_variables(**variables: str) -> Iterator[None]:
    """Set unset variables in the block, and afterwards restore these and the ones set by Ray."""
    before = {name: os.environ.get(name) for name in (*variables, *_SET_BY_RAY)}
    os.environ.update({name: value for name, value in variables.items() if before[name] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def asks_for_token(address: str) -> bool:
    """Return True if the cluster at an address requires a token.

    A child process connects: at a wrong address, Ray's library retries for a minute, prints errors, and may end the
    process.

    Args:
        address: HOST:PORT.

    Raises:
        EnvironmentStartError: The address is not a cluster's head.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _CONNECT, address],
            env={**os.environ, "RAY_AUTH_MODE": "disabled"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBED_IN,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _no_head(address, "the server does not answer as a head") from error
    if done.returncode == 0:
        return False
    if "Unauthenticated" in done.stderr:
        return True
    raise _no_head(address, (done.stderr.strip().splitlines() or ["no message"])[-1])


def _no_head(address: str, why: str) -> EnvironmentStartError:
    return EnvironmentStartError(
        f"the server at {address!r} is not the head of a Ray cluster: {why}; give the address of `ray start "
        "--address` on the nodes"
    )


# Parts of Ray without a public interface.


def _be_quiet() -> None:
    """Keep Ray's messages off the terminal: errors of an actor are in the results of its tasks."""
    worker = _module("worker")
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False  # otherwise messages of nodes are printed to stdout


def _found_at(address: str) -> str:
    """Return the HOST:PORT of an address.

    Args:
        address: HOST:PORT, or `auto` for the cluster of this machine or of RAY_ADDRESS.

    Raises:
        ConnectionError: This machine is part of no cluster.
        ValueError: The address is wrong.
    """
    found: str | None = _module("services").canonicalize_bootstrap_address(address)
    if found is None:
        raise ConnectionError
    return found


def _use_token_if(asked: bool) -> None:
    """Send the user's token to the cluster only if the cluster requires a token.

    Ray itself sends a token to a cluster found as `auto` if any Ray on this machine has made a token, and never to an
    address. With the wrong choice no actor ever starts.
    """
    if _knows_tokens():
        os.environ[MODE] = "token" if asked else "disabled"
        _read_token_anew()


def _use_own_token() -> None:
    """Give the local Ray a new token, unless the user has set the mode.

    Ray itself would write a token to the user's home. Each head started later would require this token, and refuse
    nodes.
    """
    if MODE not in os.environ and _knows_tokens():
        os.environ.update({MODE: "token", TOKEN: os.environ.get(TOKEN) or secrets.token_hex(32)})
        _read_token_anew()


def _read_token_anew() -> None:
    """Clear Ray's cache of the variables."""
    if _knows_tokens():
        raylet = import_module("ray._raylet")
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def _knows_tokens() -> bool:
    """Return True if this version of Ray has tokens."""
    return hasattr(import_module("ray._raylet"), "AuthenticationTokenLoader")


@contextlib.contextmanager
def _listening_locally() -> Iterator[None]:
    """Make a Ray started in the block listen on 127.0.0.1, as on systems without clusters.

    Otherwise Ray listens on all networks, and runs any received code.
    """
    constants = _module("ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _session_folder() -> Path:
    """Return the folder of logs and sockets of the local Ray."""
    return Path(_module("worker").global_worker.node.get_session_dir_path())


def _module(name: str) -> Any:  # noqa: ANN401
    return import_module(f"ray._private.{name}")
