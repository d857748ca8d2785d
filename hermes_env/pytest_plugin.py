"""pytest plugin: one option runs the same tests in containers, over SSH or on this machine. See docs/agents.md.

The package is imported only when a test requests an environment, so other test runs stay as fast as before.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from environments import BaseEnvironment

OPTION = "--environment"
SPEC = "environment_spec"
"""The fixture that parametrizes tests over the requested environments."""
_HELP = """\
run the tests with the fixture `environment` on: local, docker[:IMAGE], ssh[:[USER@]HOST[:PORT]],
singularity[:IMAGE], modal[:IMAGE], daytona[:IMAGE], or another backend's name; may be repeated, to run them on each
(default: the ini setting `environment`, else local)"""
_MARKERS = (
    'environment(*backends, **settings): run the test on these backends only, such as "docker" and "ssh", or on all '
    "if none is named; settings of create_environment give the test its own target with these settings",
    'not_on(*backends, reason=""): do not run the test on these backends',
)
_JOINED_BY: Mapping[str, str] = {
    "docker": "container",
    "singularity": "instance",
    "modal": "sandbox",
    "daytona": "sandbox",
}
"""The setting that joins another environment's target, by backend with images."""
_MACHINES = ("local", "ssh")
"""The backends whose environments all run on the same machine."""
_SSH = re.compile(r"(?:(.+)@)?(?:\[([^]]+)\]|([^@:\[\]]+))(?::(\d+))?")
_NEW_DIRECTORY = 'd=${{TMPDIR:-/tmp}}/hermes-test-{word} && mkdir -m 700 -- "$d" && printf %s "$d"'


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the ini setting."""
    group = parser.getgroup("hermes-environments")
    group.addoption(OPTION, action="append", metavar="BACKEND[:WHERE]", help=_HELP)
    parser.addini("environment", "where tests that use the fixture `environment` run, see --environment", type="args")


def pytest_configure(config: pytest.Config) -> None:
    """Add the markers, and check the option."""
    for line in _MARKERS:
        config.addinivalue_line("markers", line)
    if config.getoption(OPTION) or config.getini("environment"):  # a wrong value is an error even if no test needs it
        _specs(config)


def _specs(config: pytest.Config) -> list[str]:
    """Return the requested environments, without duplicates.

    Raises:
        UsageError: A value is wrong.
    """
    given = config.getoption(OPTION)
    source, specs = (OPTION, given) if given else ("environment", config.getini("environment") or ["local"])
    for spec in specs:
        settings_of(spec, source)
    return list(dict.fromkeys(specs))


def settings_of(spec: str, source: str = OPTION) -> tuple[str, dict[str, object]]:
    """Return the backend and its settings for a text such as `docker:python:3.12` or `ssh:me@host:22`.

    Args:
        spec: The text.
        source: The option or setting with the text, for the error.

    Raises:
        UsageError: The text is wrong.
    """
    backend, colon, where = spec.partition(":")
    if unknown := _unknown(backend, source):
        raise pytest.UsageError(unknown)
    if not colon:
        return backend, {}
    if backend == "ssh":
        if not (found := _SSH.fullmatch(where)):
            raise pytest.UsageError(
                f"{source}: {spec!r} names no host; give ssh:HOST, ssh:USER@HOST or ssh:USER@HOST:PORT"
            )
        user, address, name, port = found.groups()
        given = {"host": address or name, "user": user, "port": port and int(port)}
        return backend, {key: value for key, value in given.items() if value is not None}
    if backend not in _JOINED_BY:
        raise pytest.UsageError(
            f"{source}: {spec!r}: backend {backend!r} accepts no value after its name; see config.yaml"
        )
    if not where:
        raise pytest.UsageError(f"{source}: {spec!r} names no image behind the colon; name one, or leave out the colon")
    return backend, {"image": where}


def _unknown(name: object, source: str) -> str:
    """Return the error for an unknown backend's name; empty for a known backend."""
    from environments import SettingsError
    from environments.registry import check_backend_name

    try:
        check_backend_name(str(name), source)
    except SettingsError as error:
        return str(error)
    return ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests with these fixtures over the requested environments."""
    if SPEC not in metafunc.fixturenames:
        return
    params = []
    for spec in _specs(metafunc.config):
        reason = _reason_to_skip(metafunc.definition, spec.partition(":")[0])
        params.append(pytest.param(spec, marks=pytest.mark.skip(reason=reason) if reason else ()))
    metafunc.parametrize(SPEC, params, indirect=True, scope="session")


def _reason_to_skip(item: pytest.Item, backend: str) -> str:
    for marker in item.iter_markers("not_on"):
        if backend in _backends_of(marker):
            return str(marker.kwargs.get("reason") or f"not on {backend}")
    for marker in item.iter_markers("environment"):
        wanted = _backends_of(marker)
        if wanted and backend not in wanted:
            return f"runs only on {' and '.join(wanted)}"
    return ""


def _backends_of(marker: pytest.Mark) -> tuple[str, ...]:
    """Return the backends of a marker. An unknown backend fails the collection."""
    for name in marker.args:
        if error := _unknown(name, f"pytest.mark.{marker.name}"):
            pytest.fail(error, pytrace=False)
    if marker.name == "not_on" and not marker.args:
        pytest.fail("pytest.mark.not_on names no backend", pytrace=False)
    return marker.args


@pytest.fixture(scope="session")
def environment_spec(request: pytest.FixtureRequest) -> str:
    """The value of `--environment` for this test, such as `docker:IMAGE`."""
    return str(request.param)


@pytest.fixture(scope="session")
def _environment_targets(environment_spec: str) -> Iterator[Targets]:
    targets = Targets(environment_spec)
    yield targets
    targets.close()


@pytest.fixture
def environment(request: pytest.FixtureRequest, _environment_targets: Targets) -> Iterator[BaseEnvironment]:
    """An environment with a new session, in an empty directory. The directory is removed after the test.

    On backends with containers, instances or sandboxes, all tests of a worker share a warm target.
    """
    settings = _settings(request.node)
    with _environment_targets.environment(settings, has_own_target=bool(settings)) as made:
        yield made


@pytest.fixture
def fresh_environment(request: pytest.FixtureRequest, _environment_targets: Targets) -> Iterator[BaseEnvironment]:
    """An environment with a target for this test only."""
    with _environment_targets.environment(_settings(request.node), has_own_target=True) as made:
        yield made


def _settings(item: pytest.Item) -> dict[str, object]:
    """Return the settings of the markers; the closest marker has precedence."""
    settings: dict[str, object] = {}
    for marker in item.iter_markers("environment"):
        settings = {**marker.kwargs, **settings}
    return settings


class Targets:
    """The targets for the tests of this process.

    Args:
        spec: The kind of target, see `settings_of`.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._backend, self._settings = settings_of(spec)
        self._keeper: BaseEnvironment | None = None
        """The environment with the shared target."""

    def close(self) -> None:
        """Remove the shared target."""
        if self._keeper:
            self._keeper.cleanup()

    @contextlib.contextmanager
    def environment(self, settings: Mapping[str, object], *, has_own_target: bool) -> Iterator[BaseEnvironment]:
        """Make an environment for the block, with its session in a new directory.

        Args:
            settings: Settings of `create_environment`, in addition to those of the kind.
            has_own_target: True for a target without other tests; a machine is always shared.
        """
        from environments import TerminalError

        joins = self._backend in _JOINED_BY and not has_own_target
        with contextlib.ExitStack() as stack:
            try:
                keeper = self._kept() if joins or self._backend in _MACHINES else None
                # The keeper removes the directory once the test's processes have ended.
                directory = stack.enter_context(_new_directory(keeper)) if keeper else ""
                env = stack.enter_context(_joined(keeper, self._backend) if keeper and joins else self._made(settings))
                directory = directory or stack.enter_context(_new_directory(env))
                if not (entered := env.execute(f"cd -- {shlex.quote(directory)}")).ok:
                    raise TerminalError(entered.output)
            except TerminalError as error:
                raise pytest.fail.Exception(f"environment {self._spec}: {error}", pytrace=False) from None
            yield env

    def _made(self, settings: Mapping[str, object]) -> BaseEnvironment:
        from environments import create_environment

        return create_environment(self._backend, **{**self._settings, **settings})

    def _kept(self) -> BaseEnvironment:
        if self._keeper is None:
            self._keeper = self._made({})
        return self._keeper


def _joined(keeper: BaseEnvironment, backend: str) -> BaseEnvironment:
    """Return a new environment in the target of another one."""
    from environments.settings import RESOURCE_SETTINGS

    settings = keeper.settings
    joined = replace(
        settings,
        own=type(settings.own)(**{_JOINED_BY[backend]: keeper.target.id}),
        container_persistent=False,
        default_limits=frozenset(),
        **dict.fromkeys(RESOURCE_SETTINGS),  # type: ignore[arg-type]  # the shared target has its own
    )
    env = type(keeper).create(joined)
    env.gate.rules = keeper.gate.rules
    return env


@contextlib.contextmanager
def _new_directory(env: BaseEnvironment) -> Iterator[str]:
    """Make a directory in a target for the block, and yield its path."""
    from environments import EnvironmentLostError, TerminalError
    from environments.files import removal_command

    make = _NEW_DIRECTORY.format(word=secrets.token_hex(6))
    try:
        made = env.internal.execute(make)
    except EnvironmentLostError:  # the target was lost since the last command; the retry uses a new one
        made = env.internal.execute(make)
    if not made.ok:
        raise TerminalError(f"cannot make a directory for the test: {made.output.strip()}")
    try:
        yield made.output
    finally:
        with contextlib.suppress(TerminalError):  # a lost target takes the directory with it
            env.internal.execute(removal_command(made.output))
