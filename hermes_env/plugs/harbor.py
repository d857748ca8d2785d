"""An environment for Harbor's trials on every backend that has images, see docs/agents.md."""

from __future__ import annotations

import dataclasses
import math
import os
import shlex
from functools import partial
from inspect import signature
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import COMPOSE_FILE_NAME, DOCKERFILE_NAME, should_use_prebuilt_docker_image
from harbor.models.task.config import NetworkMode
from harbor.models.trial.config import ResourceMode

from environments import load_settings
from hermes_env.aio import AsyncEnvironment
from hermes_env.plugs.root_upload import upload

_LIST = ["network_allowlist" + of for of in ("", "_hostnames", "_wildcard_hostnames", "_ipv4_addresses", "_ipv4_cidrs")]
_JOINED, _MADE = {"container", "instance", "sandbox"}, {"image", "build", "snapshot"}


class HermesEnvironment(BaseEnvironment):
    """Runs a trial of Harbor in one of our environments.

    Args:
        args: Harbor's arguments of all environments.
        backend: A backend's name; None is the configured backend.
        kwargs: Harbor's arguments by name, and settings of `create_environment`, which override the task's.

    Raises:
        SettingsError: A setting is unknown, or the value is wrong.
        ValueError: The backend lacks a feature that the task requires.
        FileNotFoundError: The task has no image for this backend.
    """

    def __init__(self, *args: object, backend: str | None = None, **kwargs: object) -> None:
        given = {name: kwargs.pop(name) for name in kwargs.keys() - signature(BaseEnvironment.__init__).parameters}
        loaded = load_settings(backend, **given)
        self._backend, kind = loaded.env, type(loaded.own)
        self._given = {name.removeprefix(kind.prefix): value for name, value in given.items()}
        self._can = {field.name for field in dataclasses.fields(kind)} if not _JOINED & self._given.keys() else set()
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "hermes"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        networks = dict.fromkeys(["disable_internet", *_LIST], "network" in self._can)
        return EnvironmentCapabilities(gpus="gpus" in self._can, **networks)

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        # All limits: a backend without one of them raises an error at the start.
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True, fractional_cpus=True)

    def _validate_definition(self) -> None:
        self._image(force_build=False)
        if self._host_mounts:
            raise ValueError("mounts are not supported; give the setting `volumes` or `binds` as an argument")

    def _image(self, force_build: bool) -> dict[str, object]:
        image, folder = self.task_env_config.docker_image, self.environment_dir
        if (_JOINED | _MADE) & self._given.keys():
            return {}
        if "image" not in self._can:
            raise ValueError(f"backend {self._backend!r} has no images, and a trial writes to /app, /tests and /logs")
        if image and should_use_prebuilt_docker_image(folder, docker_image=image, force_build=force_build):
            is_elsewhere = self._backend == "singularity" and "://" not in image and not Path(image).exists()
            return {"image": f"docker://{image}" if is_elsewhere else image}
        if "build" in self._can and (folder / DOCKERFILE_NAME).exists() and not (folder / COMPOSE_FILE_NAME).exists():
            return {"build": str(folder)}
        raise FileNotFoundError(f"{folder}: backend {self._backend!r} needs docker_image in the task's [environment]")

    def _limits(self) -> dict[str, object]:
        config, policy = self.task_env_config, self.network_policy
        networks = {NetworkMode.NO_NETWORK: "none", NetworkMode.ALLOWLIST: list(policy.allowed_hosts)}
        limit = partial(self._resource_limit_value, auto_mode=ResourceMode.LIMIT)
        asked = {"container_cpu": limit("cpu"), "container_memory": limit("memory")}
        asked |= {"gpus": str(config.gpus or "") or None, "network": networks.get(policy.network_mode)}
        return {name: value for name, value in asked.items() if value is not None}

    async def start(self, force_build: bool) -> None:
        asked = {"task_id": self.session_id, **self._image(force_build), **self._limits()}
        self.env = AsyncEnvironment(self._backend, **{**asked, **self._given})
        folders = shlex.join([self.task_env_config.workdir or "/", *self._mount_targets(writable_only=True)])
        made = await self.exec(f"mkdir -p -- {folders}", cwd="/", user="root")
        if made.return_code != 0:
            raise RuntimeError(f"cannot make the directories of the trial: {made.stderr}")
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        # Also without `delete`: the target ends with its process.
        if hasattr(self, "env"):  # the target has been started
            await self.env.cleanup()

    async def attach(self) -> None:
        enter = (await self.env.target).enter
        os.execvp(enter[0], enter)  # noqa: S606

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        # Outside the session, so that commands run side by side. A time-out ends the command with all its processes.
        cwd, env, user = cwd or self.task_env_config.workdir, self._merge_env(env), self._resolve_user(user)
        run = partial(self.env.execute_oneshot, stderr="separate", on_output=self._output_callback())
        result = await run(command, cwd=cwd, env=env, user=user, timeout=timeout_sec or math.inf)
        if result.timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return ExecResult(stdout=result.output, stderr=result.stderr, return_code=result.exit_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await upload(self.env, source_path, target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await upload(self.env, source_dir, target_dir)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        await self.env.get_file(source_path, target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await self.env.get_dir(source_dir, target_dir)
