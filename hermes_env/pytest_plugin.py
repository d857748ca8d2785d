"""A plugin of pytest: the same tests in containers, over SSH or on this machine, by one option. See docs/pytest.md.

Whoever does not use it does not pay for it: nothing of this package is imported before a test asks for an environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from environments import BaseEnvironment
    from hermes_env.pytest_targets import Targets

OPTION = "--environment"
SPEC = "environment_spec"
"""The fixture by which tests are run in each environment that was asked for."""
_HELP = """\
run the tests that use the fixture `environment` there: local, docker[:IMAGE], ssh[:[USER@]HOST[:PORT]],
singularity[:IMAGE], modal[:IMAGE], daytona[:IMAGE], or another backend's name; given more than once, they run in each
(default: the ini setting `environment`, else local)"""
_MARKERS = (
    'environment(*backends, **settings): run the test on these backends alone, such as "docker" and "ssh", or on all '
    "if none is named; with settings of create_environment, it gets a target of its own that has them",
    'not_on(*backends, reason=""): do not run the test on these backends',
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the ini setting."""
    group = parser.getgroup("hermes-environments")
    group.addoption(OPTION, action="append", metavar="BACKEND[:WHERE]", help=_HELP)
    parser.addini("environment", "where tests that use the fixture `environment` run, see --environment", type="args")


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for line in _MARKERS:
        config.addinivalue_line("markers", line)
    if config.getoption(OPTION) or config.getini("environment"):  # a wrong one is told though no test uses it
        _specs(config)


def _specs(config: pytest.Config) -> list[str]:
    """Return where tests are to run, each once.

    Raises:
        UsageError: One of them says nothing that could be.
    """
    from hermes_env.pytest_targets import settings_of

    given = config.getoption(OPTION)
    source, specs = (OPTION, given) if given else ("environment", config.getini("environment") or ["local"])
    try:
        for spec in specs:
            settings_of(spec)
    except ValueError as error:
        raise pytest.UsageError(f"{source}: {error}") from None
    return list(dict.fromkeys(specs))


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
    from hermes_env.pytest_targets import check_backend

    try:
        for name in marker.args:
            check_backend(name)
    except ValueError as error:
        pytest.fail(f"pytest.mark.{marker.name}: {error}", pytrace=False)
    if marker.name == "not_on" and not marker.args:
        pytest.fail("pytest.mark.not_on names no backend", pytrace=False)
    return marker.args


@pytest.fixture(scope="session")
def environment_spec(request: pytest.FixtureRequest) -> str:
    """Where the test runs, as `--environment` says: `docker:IMAGE` and the like."""
    return str(request.param)


@pytest.fixture(scope="session")
def _environment_targets(environment_spec: str) -> Iterator[Targets]:
    from hermes_env.pytest_targets import Targets

    with Targets(environment_spec) as targets:
        yield targets


@pytest.fixture
def environment(request: pytest.FixtureRequest, _environment_targets: Targets) -> Iterator[BaseEnvironment]:
    """An environment with a session of its own, in an empty directory that is removed after the test.

    Where targets are containers, instances or sandboxes, the tests of one worker share one, which is kept warm.
    """
    settings = _settings(request.node)
    with _environment_targets.own(settings) if settings else _environment_targets.shared() as made:
        yield made


@pytest.fixture
def fresh_environment(request: pytest.FixtureRequest, _environment_targets: Targets) -> Iterator[BaseEnvironment]:
    """The same with a target of its own, which no other test has changed or will see."""
    with _environment_targets.own(_settings(request.node)) as made:
        yield made


def _settings(item: pytest.Item) -> dict[str, object]:
    """Return the settings that markers ask for; of two, that which is closer to the test."""
    settings: dict[str, object] = {}
    for marker in item.iter_markers("environment"):
        settings = {**marker.kwargs, **settings}
    return settings
