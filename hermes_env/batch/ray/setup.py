"""The setup of actors: settings, variables, hooks and code of a batch, pickled by the driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from environments.errors import SettingsError
from environments.extras import DISTRIBUTION
from environments.settings import EnvironmentSettings
from environments.sources import read_config_section
from environments.tasks import TaskSettings
from hermes_env.batch.engine import Plan, Work
from hermes_env.batch.task_types import TaskType

SECTIONS = ("approvals", "code_execution", "web")
"""The sections of `config.yaml` read on the node of a task: all but the settings of the environment."""


def installed_version() -> str:
    """Return the version of this package; empty if not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""


def configured() -> dict[str, dict[str, object]]:
    """Return these sections of this node's `config.yaml`. Raises SettingsError if the file cannot be read."""
    return {name: read_config_section(name)[0] for name in SECTIONS}


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """The settings, variables and hooks of an environment. Can be pickled."""

    settings: EnvironmentSettings
    """All settings of the driver."""
    variables: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    """The passed-through variables, with the driver's values."""
    hooks: bytes = field(default=b"", repr=False)
    """The hooks of `create_environment`, pickled by Ray."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The arguments of an actor. Can be pickled."""

    version: str
    """The driver's version of this package."""
    sections: Mapping[str, Mapping[str, object]] = field(repr=False)
    """The driver's `configured()`."""
    spec: EnvironmentSpec
    """The environments of tasks without their own settings."""
    work: bytes = field(repr=False)
    """The Python code for tasks, pickled by Ray; empty without code."""
    timeout: float | None
    """Default time limit of a task in seconds."""
    uses: int
    """The number of tasks per environment."""


def spec_of(task_type: TaskType) -> EnvironmentSpec:
    """Return the spec of an environment for any node, from the driver's settings, variables and hooks.

    Raises:
        SettingsError: A hook cannot be sent to another machine.
    """
    settings = task_type.settings
    hooks = {} if isinstance(settings, EnvironmentSettings) else TaskSettings(settings).hooks
    variables = {name: os.environ.get(name) for name in task_type.loaded.env_passthrough}
    return EnvironmentSpec(task_type.loaded, variables, _pickled(dict(hooks), "a hook") if hooks else b"")


def setup_of(plan: Plan, base: TaskType) -> Setup:
    """Return the arguments of the actors of a batch.

    Args:
        plan: The batch.
        base: The type of tasks without their own settings.

    Raises:
        SettingsError: The work or a hook cannot be sent to another machine, or `config.yaml` cannot be read.
    """
    work = _pickled_work(plan.work) if plan.work else b""
    return Setup(installed_version(), configured(), spec_of(base), work, plan.timeout, plan.uses)


def _pickled_work(work: Work) -> bytes:
    """Pickle Python code. A module that is not installed is pickled too, because no node has the file."""
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
    folders = set(Path(spec.origin).parts)
    return bool(folders & {"site-packages", "dist-packages"}) or spec.origin.startswith(sys.base_prefix + os.sep)


def _cloudpickle() -> ModuleType:
    from ray import cloudpickle

    return cloudpickle


def _pickled(value: object, called: str) -> bytes:
    cloudpickle: Any = _cloudpickle()
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:  # the user's objects may raise anything
        raise SettingsError(
            f"{called} cannot be sent to another machine: {error}; create objects such as connections and locks "
            "inside the function"
        ) from error
    return data


def unpickled(data: bytes) -> Any:  # noqa: ANN401  # any object of the user
    """Return an object pickled by the driver."""
    return _cloudpickle().loads(data)
