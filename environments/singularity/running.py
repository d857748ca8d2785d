"""Starting an instance with its writable layer."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from environments.errors import EnvironmentStartError, TerminalError
from environments.settings import EnvironmentSettings
from environments.singularity.client import Client
from environments.singularity.instance import Instance, new_name, records, remove
from environments.singularity.options import refusal, refuse_ignored_binds, refuse_limits_without_effect
from environments.singularity.overlay import Overlay
from environments.starting import current_start, unstoppable


@dataclass(frozen=True, slots=True)
class Running:
    """An instance that runs."""

    instance: Instance
    made_of: tuple[str, ...]
    """The image, and the options that it was started with."""

    @classmethod
    def begun(cls, client: Client, settings: EnvironmentSettings, options: Sequence[str], image: str) -> Running:
        """Start an instance.

        Args:
            client: The engine.
            settings: Say what the writable layer is.
            options: Those of `start_options`.
            image: What is started.

        Raises:
            EnvironmentStartError: It does not start.
            SettingsError: The settings contradict each other, or what was kept.
            UnsupportedError: A setting cannot be had here.
        """
        overlay = Overlay(client, settings, image)
        name = new_name(settings.task_id)
        current_start().tell("starting an instance")
        try:
            instance = _started(client, settings, name, [*options, *overlay.options], image)
        except BaseException:
            with unstoppable():
                with contextlib.suppress(TerminalError):
                    remove(name, client.machine)
                overlay.release()
            raise
        overlay.release()
        return cls(instance, (image, *options))


def _started(client: Client, settings: EnvironmentSettings, name: str, options: Sequence[str], image: str) -> Instance:
    outcome = client.run("--quiet", "instance", "start", *options, image, name)
    found = records(client, name) if outcome.ok else []
    if not found:
        why = f"{outcome.reason}{outcome.advice}"
        start_error = EnvironmentStartError(f"backend 'singularity' cannot start {image}: {why}")
        raise refusal(settings, outcome.text) or start_error
    refuse_ignored_binds(settings, outcome.text)
    refuse_limits_without_effect(settings, found[0].pid, client.machine)
    return Instance(client, found[0])
