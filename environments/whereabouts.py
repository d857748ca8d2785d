"""Where an environment's target is, and where its ports can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from environments.errors import UnsupportedError
from environments.settings import EnvironmentSettings

if TYPE_CHECKING:
    from environments.address import Address
    from environments.target import Target


class Whereabouts:
    """The part of every environment that says where its target is."""

    settings: EnvironmentSettings

    @property
    def target(self) -> Target:
        """What and where the target is, and how a person gets in. Starts the environment when it has not been started.

        Raises what `execute` raises when the target cannot be started.
        """
        return self.find_target()

    def address(self, port: int) -> Address:
        """Return where a TCP port of the target can be reached from this process, whether something listens or not.

        Starts the environment when it has not been started. The address holds until the target is lost or the
        environment is cleaned up.

        Args:
            port: The port, as programs in the target know it.

        Returns:
            Host and port here, and a URL for what speaks HTTP. `str()` of it is `host:port`.

        Raises:
            UnsupportedError: The backend, or a target with these settings, has no way to that port.
            EnvironmentStartError: The target could not be started.
            TypeError: The port is no number.
            ValueError: There is no such port.
        """
        from environments.address import checked_port  # most never ask for one

        return self.find_address(checked_port(port))

    # What a backend answers.

    def find_target(self) -> Target:
        """Do what `target` says. A backend that does not override it tells its name, and nothing else."""
        from environments.target import Target  # most never ask for it

        return Target(self.settings.env, "machine", "")

    def find_address(self, port: int) -> Address:
        """Do what `address` says, for a port that there may be. A backend that can reach ports overrides it."""
        raise UnsupportedError(
            f"backend {self.settings.env!r} has no way to a port of its target; use one that has, or reach port {port} "
            "by a command in the target"
        )
