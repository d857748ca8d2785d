"""`hermes-env doctor`: the state of each backend, remedies, and the number of targets."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from tempfile import TemporaryDirectory
from typing import Literal

import typer

from environments import (
    EnvironmentStartError,
    MissingExtraError,
    SettingsError,
    TerminalError,
    backend_names,
    create_environment,
    load_settings,
)
from environments.extras import DISTRIBUTION, distributions
from environments.found_target import Use
from environments.inventory import take_inventory
from environments.model_view import plain
from environments.registry import backend_class, backend_settings_class
from environments.settings import CONFIG_FILE, hermes_home
from hermes_env.cli.inventory import reason, with_display
from hermes_env.cli.ls import USES
from hermes_env.cli.options import AsJson, Backend, Cwd, Settings, Verbose, settings_from
from hermes_env.progress import InventoryDisplay, StartDisplay

State = Literal["works", "found, not tried", "missing extra", "not set up", "not found", "failed"]
COLOURS: Mapping[State, str] = {
    "works": "green",
    "found, not tried": "cyan",
    "missing extra": "yellow",
    "not set up": "yellow",
    "not found": "yellow",
    "failed": "red",
}
TRIAL_SECONDS = 60.0
_REMEDY = re.compile(r"; |: (?=set |pip install )")
"""Separates the problem from the remedy in our errors."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one backend."""

    backend: str
    state: State
    why: str
    """The features of the backend, or the problem."""
    what_to_do: str | None = None
    """The remedy, or the command for a trial."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of its client libraries, by their names."""
    leftovers: Mapping[Use, int] | None = None
    """The number of running and kept targets, by use; None if unknown."""


def doctor_command(
    backend: Backend = None,
    cwd: Cwd = None,
    assignments: Settings = None,
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """Check each backend, and show how to set up the missing ones.

    Runs a command on this machine and on the configured backend, or the backend of --backend. For other backends,
    checks the library and the engine, host or credentials, without a start, as a start may cost money. Then counts the
    targets listed by `ls`.

    Exit codes: 0 if the configured backend works, else 1; 2 wrong usage or setting.
    """
    options = settings_from(assignments, cwd=cwd)
    configured = load_settings(backend, **options).env
    config = hermes_home() / CONFIG_FILE
    if not as_json:
        typer.echo(f"settings  {config}{'' if config.exists() else ' (not there: defaults and TERMINAL_* hold)'}")
        typer.echo(f"backend   {configured}\n")
    findings = []
    for finding in _findings(configured, backend, options, verbose):
        findings.append(finding)
        if not as_json:
            _print(finding)
    counts, failed = _count([each.backend for each in findings if each.state in ("works", "found, not tried")], verbose)
    is_ready = any(each.state == "works" and each.backend == configured for each in findings)
    if as_json:
        found = [replace(each, leftovers=counts.get(each.backend)) for each in findings]
        document = {
            "versions": _versions(),
            "settings": {"file": str(config), "exists": config.exists()},
            "backend": configured,
            "works": is_ready,
            "backends": [asdict(each) for each in found],
            "not_looked_at": failed,
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        _print_counts(list(counts.values()), failed)
    raise typer.Exit(0 if is_ready else 1)


def _findings(configured: str, backend: str | None, options: dict[str, object], verbose: int) -> Iterator[Finding]:
    """Check one backend after another."""
    for name in dict.fromkeys([*backend_names(), configured]):
        if name == configured:
            yield try_backend(name, backend, options, verbose)
        elif name == "local":
            # A configured working directory belongs to the other backend, and may not exist here.
            with TemporaryDirectory() as folder:
                yield try_backend(name, name, {"cwd": folder, "sandbox": "none"})
        else:
            with InventoryDisplay(verbose) as display:
                display.update([name])
                finding = probe_backend(name)
            yield finding


def probe_backend(name: str) -> Finding:
    """Check for a backend's client library and other requirements, without a start."""
    try:
        if all(distributions(name).values()):  # otherwise report the missing extra first
            backend_settings_class(name).check_credentials()
        backend = backend_class(name)
    except (MissingExtraError, EnvironmentStartError) as error:
        return _failure(name, "missing extra" if isinstance(error, MissingExtraError) else "not found", error)
    except SettingsError as error:
        return _failure(name, "failed", error)
    try:
        found = backend.probe(load_settings(name))
    except SettingsError as error:
        return _failure(name, "not set up", error)
    except TerminalError as error:
        return _failure(name, "not found", error)
    except Exception as error:  # of a separately installed backend; the others are still reported
        return _failure(name, "failed", error)
    return Finding(
        name, "found, not tried", found, f"try it with: hermes-env doctor --backend {name}", _versions_of(name)
    )


def try_backend(name: str, backend: str | None, options: dict[str, object], verbose: int = 0) -> Finding:
    """Check a backend by running a command.

    Args:
        name: The backend's name.
        backend: The name from the command line; None if the settings selected the backend.
        options: Settings from the command line.
        verbose: Above 0, each step of the start is printed.
    """
    try:
        with (
            StartDisplay(verbose) as display,
            create_environment(backend, on_progress=display.update, **options) as environment,
        ):
            result = environment.internal.execute("true", timeout=TRIAL_SECONDS)
            capabilities = environment.capabilities
            found = backend_class(environment.settings.env).probe(environment.settings)
    except MissingExtraError as error:
        return _failure(name, "missing extra", error)
    except Exception as error:  # also of a separately installed backend
        return _failure(name, "failed", error)
    if not result.ok:
        return Finding(name, "failed", f"`true` ended with exit code {result.exit_code}: {result.output.strip()}")
    offers = [f"shell: {capabilities.shell}"]
    offers += ["pty"] if capabilities.pty else []
    offers += [] if capabilities.persistent_session else ["no persistent session"]
    offers += [f"limits: {', '.join(sorted(capabilities.enforced_limits))}"] if capabilities.enforced_limits else []
    offers += [found] if found else []
    return Finding(name, "works", "; ".join(offers), versions=_versions_of(name))


def _failure(name: str, state: State, error: Exception) -> Finding:
    message = reason(name, str(error) if isinstance(error, TerminalError) else f"{type(error).__name__}: {error}")
    why, *remedy = _REMEDY.split(message, maxsplit=1)
    return Finding(name, state, why, remedy[0] if remedy else None, _versions_of(name))


def _versions() -> dict[str, str]:
    """Return the versions of this package and of Python."""
    return {DISTRIBUTION: version(DISTRIBUTION), "python": ".".join(map(str, sys.version_info[:3]))}


def _versions_of(backend: str) -> dict[str, str]:
    """Return the versions of a backend's installed client libraries."""
    return {name: version for name, version in distributions(backend).items() if version}


def _count(backends: list[str], verbose: int) -> tuple[dict[str, dict[Use, int]], dict[str, str]]:
    """Return the number of targets on each backend, by use, and the reason for each failed query."""
    inventory = with_display(lambda on_look: take_inventory(backends, on_look=on_look), verbose)
    counts: dict[str, dict[Use, int]] = {name: dict.fromkeys(USES, 0) for name in backends}
    for name, target in inventory.found:
        counts[name][target.use] += 1
    failed = {name: reason(name, why) for name, why in inventory.failed.items()}
    return {name: found for name, found in counts.items() if name not in failed}, failed


def _print(finding: Finding) -> None:
    state = typer.style(f"{finding.state:<16}", fg=COLOURS[finding.state])
    detail = "; ".join(filter(None, [finding.why, finding.what_to_do]))
    typer.echo(f"{finding.backend:<12} {state} {plain(detail)}")


def _print_counts(counts: Iterable[Mapping[Use, int]], failed: Mapping[str, str]) -> None:
    total = {use: sum(count[use] for count in counts) for use in USES}
    found = ", ".join(f"{number} {USES[use]}" for use, number in total.items() if number)
    if total["orphan"]:
        found += "; `hermes-env gc` removes orphans"
    typer.echo(f"\nleft      {found or 'nothing'}")
    for name, why in failed.items():
        typer.echo(f"          {name} could not be queried: {why}")
