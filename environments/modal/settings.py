"""What can be set of Modal's sandboxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from environments.errors import SettingsError
from environments.settings import BackendSettings, EnvironmentSettings
from environments.variables import check_names, for_target

if TYPE_CHECKING:
    from pydantic import Field, PositiveInt


@dataclass(frozen=True, slots=True, kw_only=True)
class ModalSettings(BackendSettings):
    """The settings of backend `modal`."""

    prefix: ClassVar[str] = "modal_"
    enforces: ClassVar[frozenset[str]] = frozenset({"container_cpu", "container_memory"})

    image: str | None = None
    """Image, as a registry calls it, or the id (`im-...`) of one that Modal has; Modal's own Debian with Python if not
    set."""
    dockerfile_commands: tuple[str, ...] = ()
    """Lines of a Dockerfile that are built on the image, such as `["RUN apt-get update"]`."""
    app: str = "hermes-environments"
    """The app that sandboxes belong to; created if missing."""
    sandbox_timeout: Annotated[int, Field(ge=1, le=86_400)] = 86_400
    """Seconds a sandbox may live, at most a day. It ends earlier with the environment."""
    idle_timeout: PositiveInt | None = None
    """Seconds without a process in it after which Modal ends a sandbox; the warm shells are such processes."""
    gpu: str | None = None
    """GPU to reserve, such as `T4` or `A100:2`."""
    region: tuple[str, ...] = ()
    """Regions the sandbox may run in; any if empty."""
    volumes: tuple[str, ...] = ()
    """Modal volumes, each `name:/path` or with `:ro` behind it; a missing one is created."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for everything that runs in the sandbox."""
    forward_env: tuple[str, ...] = ()
    """Names of variables of this process, set there, as a secret, to the value they have here."""
    network: bool = True
    """Whether the sandbox has a network."""

    def target_variables(self) -> Mapping[str, str]:
        """Return the variables of `env` and `forward_env`, see `BackendSettings`."""
        return for_target(self.env, self.forward_env)

    def refuse(self, settings: EnvironmentSettings) -> None:
        """Refuse what cannot be, see `BackendSettings`."""
        check_names("modal_env and modal_forward_env", (*self.env, *self.forward_env))
        for volume in self.volumes:
            name, path, mode = volume_parts(volume)
            if not name or not path.startswith("/") or mode not in ("", "ro"):
                raise SettingsError(f"modal_volumes: {volume!r} should be `name:/path` or `name:/path:ro`")


def volume_parts(text: str) -> tuple[str, str, str]:
    """Take an entry of `volumes` apart: name, path and mode."""
    name, _, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    return name, path, mode
