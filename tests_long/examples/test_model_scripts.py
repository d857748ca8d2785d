"""Scripts of a model: the first runs a project's tests with the session's pytest, the second reads the web."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE, require_docker
from targets.project import Project
from targets.web_server import Site, as_searxng, running_site

from environments import create_environment

OF_PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


@pytest.fixture(params=["local", "docker"])
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    if request.param == "local":
        folder.mkdir()
        with create_environment("local", cwd=str(folder)) as env:
            yield Project(env, str(folder))
        return
    require_docker().close()
    with create_environment("docker", image=PYTHON_IMAGE) as env:
        yield Project(env, "/project")


def test_a_projects_tests_are_run_and_what_failed_is_cut(project: Project, tmp_path: Path) -> None:
    _activate_venv_with_pytest(project, tmp_path)
    project.put(
        {
            "adding.py": "def add(a, b):\n    return a + b\n",
            "test_adding.py": "from adding import add\n\ndef test_add():\n    assert add(2, 2) == 4\n",
        }
    )
    result = project.run("run_tests.py")
    assert result.status == "success", result.output
    assert result.output.startswith("1 passed in ")

    project.put({"test_more.py": "def test_long():\n    print('x' * 5000)\n    assert 2 + 2 == 5, 'no sum'\n"})
    result = project.run("run_tests.py")
    assert result.output.startswith(
        "exit code 1: {'failed': 1, 'passed': 1}\nFAILED test_more.py::test_long - AssertionError: no sum\n"
    )
    assert len(result.output) < 2600


def _activate_venv_with_pytest(project: Project, tmp_path: Path) -> None:
    """Activate a virtual environment in the session, with the pytest of this run."""
    python = sys.executable if project.env.capabilities.same_machine else "python3"
    made = project.env.execute(
        f"cd / && {python} -m venv --without-pip {project.path}/.venv && . {project.path}/.venv/bin/activate && "
        "python -c 'import site; print(site.getsitepackages()[0])'"
    )
    assert made.exit_code == 0, made.output
    packages = tmp_path / "packages"
    for name in OF_PYTEST:
        installed = distribution(name)
        for file in installed.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(installed.locate_file(file)), target)
    project.env.put_dir(packages, made.output.strip())


def test_three_searches_end_in_a_digest_of_the_best_pages(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "127.0.0.1")
    with running_site() as site:
        best, gone, third, last = (_hit(site, name) for name in ("best", "gone", "third", "last"))
        site.on("/gone", lambda request: request.answer("gone", status=410))
        found = {
            "file locking on NFS": [best, last],
            "fcntl locks NFS server": [gone, best],
            "flock over NFS": [third, best],
        }
        monkeypatch.setenv("SEARXNG_URL", as_searxng(site, found.__getitem__))
        result = project.run("web_digest.py")
    assert result.status == "success", result.output
    assert [call.name for call in result.tool_calls] == ["web_search"] * 3 + ["web_extract"]
    digests = result.output.strip().removeprefix("# ").split("\n\n# ")
    assert [digest.partition("\n")[0] for digest in digests] == [f"best ({best[1]})", gone[1], f"third ({third[1]})"]
    assert "could not be read: " in digests[1] and "410" in digests[1]
    for digest in (digests[0], digests[2]):
        content = digest.partition("\n")[2]
        assert len(content) == 500
        assert "Locks on NFS are kept by the server" in content


def _hit(site: Site, name: str) -> tuple[str, str, str]:
    """Add a page to the web server, and return the page as a search result."""
    text = "Locks on NFS are kept by the server, and are advisory. " * 30
    body = f"<article><h1>{name}</h1><p>{text}</p></article>"
    url = site.page(f"/{name}", f"<html><head><title>{name}</title></head><body>{body}</body></html>")
    return name, url, f"of {name}"
