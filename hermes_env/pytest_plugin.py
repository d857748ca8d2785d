"""Plugin of pytest: the same tests in containers, over SSH or on this machine, by one option. See docs/agents.md.

Runs that do not use it do not pay for it: nothing of this package is imported before a test asks for an environment.
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
"""The fixture by which tests run in each environment that was asked for."""
_HELP = """\
run the tests that use the fixture `environment` there: local, docker[:IMAGE], ssh[:[USER@]HOST[:PORT]],
singularity[:IMAGE], modal[:IMAGE], daytona[:IMAGE], or another backend's name; given more than once, they run in each
(default: the ini setting `environment`, else local)"""
_MARKERS = (
    'environment(*backends, **settings): run the test on these backends alone, such as "docker" and "ssh", or on all '
    "if none is named; with settings of create_environment, it gets a target of its own that has them",
    'not_on(*backends, reason=""): do not run the test on these backends',
)
_JOINED_BY: Mapping[str, str] = {
    "docker": "container",
    "singularity": "instance",
    "modal": "sandbox",
    "daytona": "sandbox",
}
"""By backend that has an image, the setting by which an environment runs in the target of another."""
_MACHINES = ("local", "ssh")
"""The backends of which all environments run on the same machine."""
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
    if config.getoption(OPTION) or config.getini("environment"):  # a wrong one is an error even if no test uses it
        _specs(config)


def _specs(config: pytest.Config) -> list[str]:
    """Return where tests are to run, each once.

    Raises:
        UsageError: One of them cannot be.
    """
    given = config.getoption(OPTION)
    source, specs = (OPTION, given) if given else ("environment", config.getini("environment") or ["local"])
    for spec in specs:
        settings_of(spec, source)
    return list(dict.fromkeys(specs))


def settings_of(spec: str, source: str = OPTION) -> tuple[str, dict[str, object]]:
    """Return the backend and its settings that a text such as `docker:python:3.12` or `ssh:me@host:22` stands for.

    Args:
        spec: The text.
        source: Begins the error.

    Raises:
        UsageError: It stands for nothing.
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
            f"{source}: {spec!r}: backend {backend!r} takes nothing behind its name; see config.yaml"
        )
    if not where:
        raise pytest.UsageError(f"{source}: {spec!r} names no image behind the colon; name one, or leave out the colon")
    return backend, {"image": where}


def _unknown(name: object, source: str) -> str:
    """Return the error of a name that is no backend's; empty for one that is."""
    from environments import SettingsError
    from environments.registry import check_backend_name

    try:
        check_backend_name(str(name), source)
    except SettingsError as error:
        return str(error)
    return ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have each test that uses one of the fixtures run in each environment that was asked for."""
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
            return f"runs on {' and '.join(wanted)} alone"
    return ""


def _backends_of(marker: pytest.Mark) -> tuple[str, ...]:
    """Return the backends that a marker names. A name that is none fails the collection."""
    for name in marker.args:
        if error := _unknown(name, f"pytest.mark.{marker.name}"):
            pytest.fail(error, pytrace=False)
    if marker.name == "not_on" and not marker.args:
        pytest.fail("pytest.mark.not_on names no backend", pytrace=False)
    return marker.args


@pytest.fixture(scope="session")
def environment_spec(request: pytest.FixtureRequest) -> str:
    """Where the test runs, as `--environment` says: `docker:IMAGE` and the like."""
    return str(request.param)


@pytest.fixture(scope="session")
def _environment_targets(environment_spec: str) -> Iterator[Targets]:
    targets = Targets(environment_spec)
    yield targets
    targets.close()


@pytest.fixture
def environment(request: pytest.FixtureRequest, _environment_targets: Targets) -> Iterator[BaseEnvironment]:
    """An environment with a session of its own, in an empty directory that is removed after the test.

    Where targets are containers, instances or sandboxes, the tests of one worker share one, which is kept warm.
    """
    settings = _settings(request.node)
    with _environment_targets.environment(settings, has_own_target=bool(settings)) as made:
        yield made


@pytest.fixture
def fresh_environment(request: pytest.FixtureRequest, _environment_targets: Targets) -> Iterator[BaseEnvironment]:
    """The same with a target of its own, which no other test has changed or will see."""
    with _environment_targets.environment(_settings(request.node), has_own_target=True) as made:
        yield made


def _settings(item: pytest.Item) -> dict[str, object]:
    """Return the settings that markers ask for; of two, that which is closer to the test."""
    settings: dict[str, object] = {}
    for marker in item.iter_markers("environment"):
        settings = {**marker.kwargs, **settings}
    return settings


class Targets:
    """The targets of one kind that the tests of one process run in.

    Args:
        spec: The kind, see `settings_of`.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._backend, self._settings = settings_of(spec)
        self._keeper: BaseEnvironment | None = None
        """The environment whose target the tests share."""

    def close(self) -> None:
        """Remove the target that the tests share."""
        if self._keeper:
            self._keeper.cleanup()

    @contextlib.contextmanager
    def environment(self, settings: Mapping[str, object], *, has_own_target: bool) -> Iterator[BaseEnvironment]:
        """Make an environment for the block, whose session is in a new directory.

        Args:
            settings: Those of `create_environment` that it has besides those of the kind.
            has_own_target: Whether it shares no target with another test, except one machine with all.
        """
        from environments import TerminalError

        joins = self._backend in _JOINED_BY and not has_own_target
        with contextlib.ExitStack() as stack:
            try:
                keeper = self._kept() if joins or self._backend in _MACHINES else None
                # The keeper removes the directory once nothing of the test is left.
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
    """Return another environment in the target of one."""
    from environments.settings import RESOURCE_SETTINGS

    settings = keeper.settings
    joined = replace(
        settings,
        own=type(settings.own)(**{_JOINED_BY[backend]: keeper.target.id}),
        container_persistent=False,
        default_limits=frozenset(),
        **dict.fromkeys(RESOURCE_SETTINGS),  # type: ignore[arg-type]  # they are that target's
    )
    env = type(keeper).create(joined)
    env.gate.rules = keeper.gate.rules
    return env


@contextlib.contextmanager
def _new_directory(env: BaseEnvironment) -> Iterator[str]:
    """Make a directory in a target for the block, and return its path."""
    from environments import EnvironmentLostError, TerminalError
    from environments.files import removal_command

    make = _NEW_DIRECTORY.format(word=secrets.token_hex(6))
    try:
        made = env.internal.execute(make)
    except EnvironmentLostError:  # since its last command: there is another target now
        made = env.internal.execute(make)
    if not made.ok:
        raise TerminalError(f"no directory for a test can be made: {made.output.strip()}")
    try:
        yield made.output
    finally:
        with contextlib.suppress(TerminalError):  # if the target is gone, so is the directory
            env.internal.execute(removal_command(made.output))
