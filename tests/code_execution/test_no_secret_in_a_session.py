"""A whole session with secrets: none appears in logs, errors, process lists and readable files."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.web_server import running_site

from code_execution import execute_code
from environments import TerminalError, create_environment
from hermes_tools import model_tools, on_notice

OWN = "open-sesame-4711-of-mine"
NAMED = "open-sesame-4712-passed"
LOGIN = "open-sesame-4713-of-a-host"
REFUSED = "open-sesame-4714-in-a-file"
SERVICES = {
    "OPENAI_API_KEY": "key-of-a-model-0123456789",
    "MODAL_TOKEN_SECRET": "secret-of-modal-0123456789",
    "DAYTONA_API_KEY": "key-of-daytona-0123456789",
    "BRAVE_SEARCH_API_KEY": "key-of-brave-0123456789",
    "TERMINAL_SSH_PASSWORD": LOGIN,
}
SECRETS = (OWN, NAMED, REFUSED, *SERVICES.values())
SCRIPT = """
import os
import stat
from hermes_tools import terminal, web_search, write_file
print(os.environ["NAMED_TOKEN"], terminal("echo $NAMED_TOKEN $MY_API_KEY; env; sleep 0.3")["output"])
print(web_search("text"))
write_file("note.txt", "a note")
raise ValueError(os.environ["NAMED_TOKEN"])
"""


class OtherUser:
    """Another user of this machine. Reads process lists and files during the block.

    Args:
        folder: Top of the files to read.
    """

    def __init__(self, folder: Path) -> None:
        self.processes: set[str] = set()
        self.files: dict[Path, str] = {}
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> OtherUser:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.002):
            for place in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    self.processes.add(place.read_bytes().decode("utf-8", "replace"))
            self._open(self._folder)

    def _open(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                mode = path.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and mode & 0o011:
                    self._open(path)
                elif stat.S_ISREG(mode) and mode & 0o044:
                    self.files[path] = self.files.get(path, "") + path.read_text("utf-8", "replace")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The settings directory of a user with all secrets, and with a search provider that repeats its key."""
    for name, value in {**SERVICES, "MY_API_KEY": OWN, "NAMED_TOKEN": NAMED}.items():
        monkeypatch.setenv(name, value)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    refusal = {"error": SERVICES["BRAVE_SEARCH_API_KEY"]}
    with running_site() as site:
        site.on("/res/v1/web/search", lambda request: request.answer_json(refusal, 401))
        monkeypatch.setenv("WEB_BRAVE_URL", site.url)
        yield Path(os.environ["HERMES_HOME"])


def test_a_session_with_secrets_shows_none_in_logs_errors_process_lists_and_files(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    config = home / "config.yaml"
    config.touch(mode=0o600)
    config.write_text(f"terminal: {{unknown_api_key: {REFUSED}}}\n")
    errors: list[str] = []
    noticed = threading.Event()

    def fails(notice: object) -> None:
        noticed.set()
        raise ValueError(OWN)

    with (
        OtherUser(tmp_path) as other_user,
        create_environment("local", cwd=str(tmp_path), env_passthrough=["NAMED_TOKEN"]) as env,
    ):
        on_notice(env, fails)
        tools = model_tools(env)
        shown = [
            tools["terminal"]("echo $NAMED_TOKEN $MY_API_KEY; env; sleep 0.3; nosuch $NAMED_TOKEN"),
            tools["terminal"]("echo $NAMED_TOKEN; sleep 0.3", background=True, notify_on_exit=True),
            execute_code(SCRIPT, env=env),
            tools["web_search"]("text"),
            tools["read_file"](f"{NAMED}/missing"),
            tools["search_files"]("(not closed", path=NAMED),
            tools["terminal"]("true", workdir=f"/{NAMED}"),
        ]
        assert env.execute("echo $NAMED_TOKEN").output == f"{NAMED}\n"
        assert env.execute_oneshot("cat", stdin=OWN, env={"GIVEN": OWN}).output == OWN
        for backend, options in (("modal", {}), ("ssh", {"host": "127.0.0.1", "port": 1, "user": "x"})):
            with pytest.raises(TerminalError) as unreachable, create_environment(backend, **options) as other:
                other.execute("true")
            errors += traceback.format_exception(unreachable.value)
        assert noticed.wait(30)
    config.write_text(f"terminal: {{ssh_password: {REFUSED}}}\n")
    with pytest.raises(TerminalError) as refused:
        create_environment("ssh")
    errors += traceback.format_exception(refused.value)
    assert tmp_path / "note.txt" in other_user.files
    assert {"hermes_tools.background.notices", "environments.shell.shell", "httpx"} <= {
        record.name for record in caplog.records
    }
    assert any(each.startswith("bash\0") or "/bash\0" in each for each in other_user.processes)
    texts = {
        "logs": [caplog.text, *(record.getMessage() + (record.exc_text or "") for record in caplog.records)],
        "errors": errors,
        "process lists": other_user.processes,
        "files": other_user.files.values(),
        "what a model gets": map(str, shown),
    }
    found = {place: [secret for secret in SECRETS if secret in "\n".join(text)] for place, text in texts.items()}
    assert found == {place: [] for place in texts}
