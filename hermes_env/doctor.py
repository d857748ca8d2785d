"""`hermes-env doctor`: which backends are ready, and what the others need."""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Literal

import typer

from environments.model_view import plain
from hermes_env.options import Backend, Cwd, Settings, Verbose, settings_from

State = Literal["ready", "found", "unset", "missing", "failed"]
COLOURS: dict[State, str] = {
    "ready": "green",
    "found": "cyan",
    "unset": "yellow",
    "missing": "yellow",
    "failed": "red",
}
TRIAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about one backend."""

    backend: str
    state: State
    detail: str
    """What it offers; or what is missing, and the command that mends it."""


def doctor(backend: Backend = None, cwd: Cwd = None, assignments: Settings = None, verbose: Verbose = 0) -> None:
    """Show which backends are ready, and what the others need.

    A command is run on this machine and on the configured backend (or on the one given by --backend). Of the
    others the client library and the engine, host or credentials are looked for, and nothing is started, because
    that may cost money. The exit code is 0 when the configured backend is ready, else 1.
    """
    from environments import backend_names, load_settings
    from environments.settings import CONFIG_FILE, hermes_home

    options = settings_from(assignments, cwd=cwd)
    configured = load_settings(backend, **options).env
    config = hermes_home() / CONFIG_FILE
    typer.echo(f"settings  {config}{'' if config.exists() else ' (not there: defaults and TERMINAL_* hold)'}")
    typer.echo(f"backend   {configured}\n")
    ready = False
    for name in dict.fromkeys([*backend_names(), configured]):
        if name == configured:
            finding = try_backend(name, backend, options, verbose)
            ready = finding.state == "ready"
        elif name == "local":
            # A configured working directory is the other backend's, and need not be here.
            with TemporaryDirectory() as folder:
                finding = try_backend(name, name, {"cwd": folder, "sandbox": "none"})
        else:
            finding = look_for_backend(name)
        state = typer.style(f"{finding.state:<9}", fg=COLOURS[finding.state])
        typer.echo(f"{name:<12} {state} {plain(finding.detail)}")
    raise typer.Exit(0 if ready else 1)


def look_for_backend(name: str) -> Finding:
    """Find out whether a backend has its client library and what else it needs here. Nothing is started."""
    from environments import MissingExtraError, SettingsError, TerminalError, load_settings
    from environments.registry import backend_class

    try:
        backend = backend_class(name)
    except MissingExtraError as error:
        return Finding(name, "missing", str(error))
    except SettingsError as error:
        return Finding(name, "failed", str(error))
    try:
        found = backend.probe(load_settings(name))
    except SettingsError as error:
        return Finding(name, "unset", str(error))
    except TerminalError as error:
        return Finding(name, "missing", str(error))
    except Exception as error:  # of a backend installed apart, which is no reason to say nothing of the others
        return Finding(name, "failed", f"{type(error).__name__}: {error}")
    return Finding(name, "found", "; ".join(filter(None, [found, f"try it with: hermes-env doctor --backend {name}"])))


def try_backend(name: str, backend: str | None, options: dict[str, object], verbose: int = 0) -> Finding:
    """Find out whether a backend works, by running a command on it.

    Args:
        name: The backend's name.
        backend: The name as it was given on the command line; None when the settings chose it.
        options: Settings from the command line.
        verbose: Whether each step of the start is told.
    """
    from environments import MissingExtraError, TerminalError, create_environment
    from environments.registry import backend_class
    from hermes_env.progress import ShownProgress

    try:
        with (
            ShownProgress(verbose) as shown,
            create_environment(backend, on_progress=shown.tell, **options) as environment,
        ):
            result = environment.internal.execute("true", timeout=TRIAL_SECONDS)
            capabilities = environment.capabilities
            found = backend_class(environment.settings.env).probe(environment.settings)
    except MissingExtraError as error:
        return Finding(name, "missing", str(error))
    except TerminalError as error:
        return Finding(name, "failed", str(error))
    if not result.ok:
        return Finding(name, "failed", f"`true` ended with exit code {result.exit_code}: {result.output.strip()}")
    offers = [f"shell: {capabilities.shell}"]
    offers += ["pty"] if capabilities.pty else []
    offers += [] if capabilities.persistent_session else ["no persistent session"]
    offers += [f"limits: {', '.join(sorted(capabilities.enforced_limits))}"] if capabilities.enforced_limits else []
    offers += [found] if found else []
    return Finding(name, "ready", "; ".join(offers))
