"""No record holds the value of a secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.run_record import RunRecord

from code_execution import execute_code
from environments import BaseEnvironment, create_environment
from environments.conformance.check import wait_until

SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture(autouse=True)
def _known_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", SECRET)


@pytest.fixture(params=[True, False], ids=["redacting", "not redacting"])
def env(request: pytest.FixtureRequest, path: Path) -> Iterator[BaseEnvironment]:
    """Start recorded environments with and without redaction of results."""
    with create_environment("local", record=path, redact_secrets=request.param) as env:
        yield env


def test_no_secret_is_in_any_event(env: BaseEnvironment, path: Path, tmp_path: Path):
    def fail(argument: str, **more: object) -> None:
        raise ValueError(f"no {argument}")

    env.execute(f"echo {SECRET}; cat", stdin=SECRET, env={"X": SECRET}, stderr="separate")
    env.execute(f"echo {SECRET} >&2; exit 1", stderr="separate")
    env.start(f"echo {SECRET}").wait()
    code = f"import hermes_tools\nprint({SECRET!r})\nhermes_tools.fail({SECRET!r}, key=[{{{SECRET!r}: {SECRET!r}}}])"
    execute_code(code, env=env, tools={"fail": fail}, argv=[SECRET])
    env.write_bytes(f"{tmp_path}/{SECRET}", SECRET.encode())
    with pytest.raises(FileNotFoundError):
        env.read_bytes(f"{tmp_path}/none/{SECRET}")
    with env.session(SECRET) as session:
        session.execute("true")
    seen = RunRecord(path)
    assert SECRET not in seen.text
    call = seen.one("tool_call")
    assert call["arguments"]["more"]["key"] == [{"[REDACTED:MY_SERVICE_TOKEN]": "[REDACTED:MY_SERVICE_TOKEN]"}]
    assert call["error"].endswith("no [REDACTED:MY_SERVICE_TOKEN]")
    assert seen.kind("command")[0]["output"] == "[REDACTED:MY_SERVICE_TOKEN]\n[REDACTED:MY_SERVICE_TOKEN]"


def test_a_secret_among_a_commands_own_variables_is_taken_out(env: BaseEnvironment, path: Path):
    env.execute("echo $MY_API_TOKEN", env={"MY_API_TOKEN": "given-for-this-once"})
    env.start("echo $MY_API_TOKEN", env={"MY_API_TOKEN": "given-for-this-once"}).wait()
    assert wait_until(lambda: path.read_text().count("[REDACTED:MY_API_TOKEN]") == 2)
    assert "given-for-this-once" not in path.read_text()


def test_a_secret_that_becomes_known_while_a_command_runs_is_taken_out_of_its_output(env: BaseEnvironment, path: Path):
    def learn(text: str) -> None:
        env.passthrough.allow(["LEARNT"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEARNT", "a value of no name")
        env.execute("echo 'a value of no name'", on_output=learn)
    assert RunRecord(path).one("command")["output"] == "[REDACTED:LEARNT]\n"


def test_a_secret_at_the_cut_of_a_long_output_is_taken_out(env: BaseEnvironment, path: Path):
    for before in (32 * 1024 - 8, 32 * 1024 - 20):
        env.execute(f"printf '%0{before}d' 0; printf %s {SECRET}; printf '%0100000d' 0")
    for seen in RunRecord(path).kind("command"):
        assert "hunt" not in seen["output"] and "[REDACTED:MY_SERVICE_TOKEN]" in seen["output"]
        assert seen.end["cut"]["output"]["bytes"] > 0
