"""What a framework's configuration says of an environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel


class BackendConfig(BaseModel, extra="allow"):
    """A backend and its settings. All that is not named here is a setting of `create_environment`, by the same name.

    BackendConfig(backend="docker", image="python:3.12-slim", container_memory=2048)
    """

    backend: str | None = None
    """A backend's name; None is the one that is configured."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `create_environment`."""
        return {"backend": self.backend, **(self.model_extra or {})}

    @classmethod
    def read(cls, given: object) -> Self:
        """Return a configuration from what a framework was given: one of this class, or none.

        Text is the name of a YAML file that ends with `.yaml` or `.yml`, or else a backend's name.

        Raises:
            FileNotFoundError: There is no such file.
            TypeError: It is of another type.
        """
        if given is None or isinstance(given, cls):
            return given or cls()
        if not isinstance(given, str):
            raise TypeError(f"the configuration is a {type(given).__name__}; give a {cls.__name__}, or a file's name")
        if given.endswith((".yaml", ".yml")):
            return cls.model_validate(yaml.safe_load(Path(given).read_text("utf-8")) or {})
        return cls.model_validate({"backend": Path(given).name})  # inspect_ai puts a folder before all that it is given
