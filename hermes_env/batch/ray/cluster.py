"""The Ray cluster of a batch: one that is joined, or one of its own on this machine."""

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
"""Variables of Ray's token authentication: whether it is used, and the token."""
REACHED_IN = 10.0
"""Seconds until a cluster has to answer. Ray itself waits for minutes, and then ends the process."""
PROBED_IN = 20.0
"""Seconds for a Python that imports Ray and connects once, which takes half a second."""
PLACED_BY = ("SPREAD", "DEFAULT")
LITTLE_CPU = 0.01
"""The default of `num_cpus`: Ray spreads only actors that take something."""
SHORT_FOLDER = "/tmp/ray"  # noqa: S108  # Ray's own default
"""The folder of logs and sockets of a Ray of ours, if that of temporary files has a long name."""
_MOST_SAID = 300
"""Characters of an error of Ray that are kept."""
_SIGACTION_SIZE = 256
"""Bytes; more than the structure has on any system."""
_SET_BY_RAY = (MODE, TOKEN, "PYTHONBREAKPOINT")
"""Variables that Ray sets in a process that joins it, and that its later children would inherit."""
_OPTIONS = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
"""Options of an actor, and the names that nodes have for them."""
_CONNECT = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"


def ray_library() -> ModuleType:
    """Return Ray. Raises MissingExtraError where it is not installed."""
    try:
        import ray
    except ImportError:
        raise missing_library("a batch with the engine ray", "ray", "ray") from None
    return ray


class Cluster:
    """A Ray that this process has joined. `leave` it in the end.

    Args:
        address: `HOST:PORT` of a cluster's head, `auto` for the cluster that this machine is part of, or None for a Ray
            of our own here, which ends with `leave`. A cluster that this process has joined before is used, and stays
            joined.

    Raises:
        SettingsError: The address is wrong, or there is no cluster here.
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
            raise SettingsError(f"this process has joined the Ray at {joined}; leave out the address, or give that one")

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
                    f"no Ray cluster was found at address {address!r}; start one by `ray start --head`, or give the "
                    f"HOST:PORT of one: {_in_a_line(error)}"
                ) from error
            except (RuntimeError, self._ray.exceptions.RayError) as error:  # such as another version
                raise EnvironmentStartError(f"Ray could not be joined: {_in_a_line(error)}") from error

    def _start(self) -> Path:
        """Start a Ray of our own, and return the folder of its logs and sockets."""
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
        """Leave the cluster, and end one of our own. A cluster that was joined before stays joined."""
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
        resources: The resources that it takes: `num_cpus`, `num_gpus`, `memory` in bytes, or any other that nodes have
            by name; and `scheduling_strategy`, `SPREAD` over the nodes or Ray's `DEFAULT`.
        nodes: The resources of the nodes.

    Raises:
        SettingsError: A value is wrong, or no node has as much.
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
        told = repr(option) if option else f"{unknown!r}{closest(unknown, there | options.keys())}"
        return SettingsError(f"no node of the Ray cluster has {told}; start one that does, or see `ray status`")
    wanted = ", ".join(f"{name} {plain_number(amount)}" for name, amount in asked.items())
    return SettingsError(
        f"no node of the Ray cluster has {wanted}, which one environment takes; take less, or start one that does"
    )


def _check_address(address: str | None) -> None:
    """Check that something listens at an address, which takes Ray itself minutes."""
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
            f"nothing answers at {address!r}, where the Ray cluster should be: {error}; see whether its head runs, and "
            "whether this machine may connect to it"
        ) from error


def _short_folder() -> str | None:
    """Return the folder of Ray's sockets if its own choice would make their paths too long."""
    return SHORT_FOLDER if len(tempfile.gettempdir()) > len(SHORT_FOLDER) else None


def _in_a_line(error: Exception) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}..."


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the program's handler of SIGTERM.

    Ray sets a handler that leaves no time to clean up, and one below Python that prints a stack trace.
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
    """Set variables in the block unless they are set, and restore those that Ray sets there."""
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
    """Return whether the cluster at an address asks for a token.

    A process of its own asks: at a wrong address, Ray's library retries for a minute, prints errors, and may end the
    process.

    Args:
        address: HOST:PORT.

    Raises:
        EnvironmentStartError: The address is not that of a cluster's head.
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
        raise _no_head(address, "it does not speak as one") from error
    if done.returncode == 0:
        return False
    if "Unauthenticated" in done.stderr:
        return True
    raise _no_head(address, (done.stderr.strip().splitlines() or ["it said nothing"])[-1])


def _no_head(address: str, why: str) -> EnvironmentStartError:
    return EnvironmentStartError(
        f"what answers at {address!r} is not the head of a Ray cluster: {why}; give the address that nodes were "
        "started with, by `ray start --address`"
    )


# Parts of Ray without a public interface.


def _be_quiet() -> None:
    """Keep Ray's messages off the terminal: errors of an actor are in the results of its tasks."""
    worker = _module("worker")
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False  # messages of nodes are printed on stdout otherwise


def _found_at(address: str) -> str:
    """Return the HOST:PORT of an address.

    Args:
        address: HOST:PORT, or `auto` for the cluster that this machine is part of, or that RAY_ADDRESS names.

    Raises:
        ConnectionError: This machine is part of no cluster.
        ValueError: The address is wrong.
    """
    found: str | None = _module("services").canonicalize_bootstrap_address(address)
    if found is None:
        raise ConnectionError
    return found


def _use_token_if(asked: bool) -> None:
    """Send the user's token to the cluster if it is asked for, and no token otherwise.

    Ray itself sends one to a cluster found as `auto` if any Ray on this machine has made a token, and never to an
    address. If the cluster expects the other, no actor ever starts.
    """
    if _knows_tokens():
        os.environ[MODE] = "token" if asked else "disabled"
        _read_token_anew()


def _use_own_token() -> None:
    """Have the next Ray that is started use a token of its own, unless the user has chosen.

    Ray itself would write one to the user's home. Each head that is started later would ask for it, and refuse nodes.
    """
    if MODE not in os.environ and _knows_tokens():
        os.environ.update({MODE: "token", TOKEN: os.environ.get(TOKEN) or secrets.token_hex(32)})
        _read_token_anew()


def _read_token_anew() -> None:
    """Have Ray read the variables again, which it caches."""
    if _knows_tokens():
        raylet = import_module("ray._raylet")
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def _knows_tokens() -> bool:
    """Return whether this version of Ray has tokens."""
    return hasattr(import_module("ray._raylet"), "AuthenticationTokenLoader")


@contextlib.contextmanager
def _listening_locally() -> Iterator[None]:
    """Have a Ray that is started in the block listen at 127.0.0.1, as it does on systems without clusters.

    Otherwise it listens on all networks, and runs any code that is sent to it.
    """
    constants = _module("ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _session_folder() -> Path:
    """Return the folder of logs and sockets of the Ray that this process has started."""
    return Path(_module("worker").global_worker.node.get_session_dir_path())


def _module(name: str) -> Any:  # noqa: ANN401
    return import_module(f"ray._private.{name}")
