"""What actors are told of the batch and of environments, brought together where the driver is."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from environments.errors import SettingsError
from environments.tasks import TaskSettings
from hermes_env.batch.engine import Plan, Work
from hermes_env.batch.kinds import Kind
from hermes_env.batch.ray_host import Making, Setup, configured, installed_version


def making_of(kind: Kind) -> Making:
    """Return how an environment of a kind is made on any node: by the settings, variables and hooks that hold here.

    Raises:
        SettingsError: A hook cannot be sent to another machine.
    """
    hooks = TaskSettings(kind.settings).hooks if not hasattr(kind.settings, "env_passthrough") else {}
    variables = {name: os.environ.get(name) for name in kind.loaded.env_passthrough}
    return Making(kind.loaded, variables, _pickled(dict(hooks), "a hook") if hooks else b"")


def setup_of(plan: Plan, base: Kind) -> Setup:
    """Return what an actor has to know.

    Args:
        plan: The batch's.
        base: The kind of environments of tasks that have no settings of their own.

    Raises:
        SettingsError: The work, or a hook, cannot be sent to another machine, or `config.yaml` cannot be read.
    """
    work = _pickled_work(plan.work) if plan.work else b""
    return Setup(installed_version(), configured(), making_of(base), work, plan.timeout, plan.uses)


def _pickled_work(work: Work) -> bytes:
    """Pickle Python code with the module that it is in, if that is a file of the user's own, which no node has."""
    cloudpickle: Any = _cloudpickle()
    module = sys.modules.get(getattr(work, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or _is_installed(module.__name__):
        return _pickled(work, "the work")
    cloudpickle.register_pickle_by_value(module)
    try:
        return _pickled(work, "the work")
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _is_installed(name: str) -> bool:
    spec = find_spec(name.partition(".")[0])
    if spec is None or spec.origin is None:
        return True
    places = {Path(path).name for path in Path(spec.origin).parts}
    return bool(places & {"site-packages", "dist-packages"}) or spec.origin.startswith(sys.base_prefix + os.sep)


def _cloudpickle() -> ModuleType:
    from ray import cloudpickle

    return cloudpickle


def _pickled(what: object, called: str) -> bytes:
    cloudpickle: Any = _cloudpickle()
    try:
        data: bytes = cloudpickle.dumps(what)
    except Exception as error:  # whatever somebody's objects raise
        raise SettingsError(
            f"{called} cannot be sent to another machine: {error}; have it make there what it needs, such as a "
            "connection or a lock"
        ) from error
    return data
