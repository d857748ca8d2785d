"""Pages without a bound in time, memory or disk, and leaving callers."""

from __future__ import annotations

import contextlib
import gzip
import resource
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from targets.web_server import Request, Site

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.conformance.check import wait_until
from hermes_tools.web import convert, web_extract
from hermes_tools.web.web_extract import PageResult

pytestmark = pytest.mark.xdist_group("web")

ReadOne = Callable[..., PageResult]
FEW_MEGABYTES = 60_000_000


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WEB_TIMEOUT", "100")
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) <= before
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("hermes-web-page")]


@pytest.fixture
def short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_TIMEOUT", "0.2")


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """An event for pages to wait for, never set during a test."""
    event = threading.Event()
    yield event
    event.set()


def drip(request: Request, piece: bytes, stuck: threading.Event) -> None:
    while not stuck.wait(0.02):
        request.wfile.write(piece)


@pytest.mark.usefixtures("short_time")
def test_a_server_that_does_not_answer_is_given_up(
    site: Site, read_one: ReadOne, stuck: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = "timed out after 0.2 s"
    assert read_one(site.on("/", lambda request: bool(stuck.wait())))["error"] == late
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert read_one(f"https://127.0.0.1:{silent.getsockname()[1]}/")["error"] == late, "in TLS"
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as waiting:
        for _ in range(4):  # fill the backlog, so that later connections hang
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        assert read_one(f"http://127.0.0.1:{full.getsockname()[1]}/")["error"] == late, "packets are dropped"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: stuck.wait())
    assert read_one("http://page.example/")["error"] == late, "the name server is slow"


@pytest.mark.usefixtures("short_time")
def test_headers_that_drip_are_given_up(site: Site, read_one: ReadOne, stuck: threading.Event) -> None:
    def body(request: Request) -> None:
        request.send_response(200)
        request.end_headers()
        drip(request, b"a", stuck)

    def headers(request: Request) -> None:
        request.wfile.write(b"HTTP/1.0 200 OK\r\nX-Long: ")
        drip(request, b"a", stuck)

    for page in (headers, body):
        assert read_one(site.on("/", page))["error"] == "timed out after 0.2 s"


def test_an_endless_body_is_an_error(site: Site, read_one: ReadOne, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_MAX_BYTES", "1000000")

    def page(request: Request) -> None:
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(b"<p>more</p>" * 10_000)

    assert read_one(site.on("/", page))["error"] == "the body is larger than 1,000,000 bytes (web.max_bytes)"


def test_a_response_that_is_no_http_is_an_error(site: Site, read_one: ReadOne) -> None:
    url = site.on("/", lambda request: request.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n") and None)
    assert "violates the HTTP protocol" in str(read_one(url)["error"])
    too_early = site.page("/", "short", "text/plain", Content_Length="1000")
    assert "violates the HTTP protocol" in str(read_one(too_early)["error"])


def test_a_gzip_bomb_takes_no_memory(site: Site, read_one: ReadOne) -> None:
    bomb = gzip.compress(b"\0" * 100_000_000, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for packed in (bomb, zlib.compress(bomb)):
        result = read_one(site.page("/", packed, "text/plain", Content_Encoding="gzip"))
        assert result["error"]
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < FEW_MEGABYTES


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces the page reader by a faulty program."""

    def reader(program: str) -> None:
        (tmp_path / "reader.py").write_text(program)
        monkeypatch.setattr(convert, "_PROGRAM", tmp_path / "reader.py")

    return reader


def test_a_reader_that_hangs_is_ended(
    site: Site, read_one: ReadOne, reader: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader("import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1e6)")
    monkeypatch.setenv("WEB_TIMEOUT", "0.3")
    assert read_one(site.page("/", "<p>a</p>"))["error"] == "timed out after 0.3 s"


def test_a_reader_that_dies_or_lies_is_an_error(site: Site, read_one: ReadOne, reader: Callable[[str], None]) -> None:
    for program in ("import os; os.abort()", "print('[1, 2]')", "print('[' * 100000)", "print('{\"title\": 1}')"):
        reader(program)
        assert "cannot be read" in str(read_one(site.page("/", "<p>a</p>"))["error"]), program


def test_a_reader_gets_no_secret_and_its_order_is_in_no_process_list(
    site: Site, read_one: ReadOne, reader: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-0123456789")
    reader("import json, os, sys\nprint(json.dumps({'title': ' '.join(sys.argv), 'content': repr(dict(os.environ))}))")
    result = read_one(site.page("/private-path", "<p>a</p>"))
    assert "PATH" in result["content"] and "tvly" not in result["content"]
    assert "private-path" not in result["title"]


def test_a_reader_is_held_to_its_memory(
    site: Site, read_one: ReadOne, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = convert._PROGRAM.read_text().replace(
        'title, content = _of_pdf(data, order) if order["kind"] == "pdf" else _of_html(data, order)',
        'title, content = "", "a" * 10**11',
    )
    (tmp_path / "reader.py").write_text(program)
    monkeypatch.setattr(convert, "_PROGRAM", tmp_path / "reader.py")
    assert read_one(site.page("/", "<p>a</p>"))["error"] == "the page takes too much memory to read"


@pytest.mark.parametrize("stage", ["names", "fetching", "reading"])
def test_work_ends_when_its_caller_leaves(
    env: BaseEnvironment,
    site: Site,
    stuck: threading.Event,
    reader: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
) -> None:
    begun = threading.Event()
    url = site.page("/", "<p>a</p>")
    if stage == "names":
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: begun.set() or stuck.wait())
    elif stage == "fetching":
        site.on("/", lambda request: begun.set() or bool(stuck.wait()))
    else:
        reader("import time\ntime.sleep(1e6)")
    scope, results = CancelScope(), []

    def call() -> None:
        with scope.active():
            results.append(web_extract.web_extract(env, [url, url]))

    caller = threading.Thread(target=call)
    caller.start()
    if stage == "reading":
        while not psutil.Process().children():
            time.sleep(0.01)
    else:
        begun.wait()
    scope.cancel()
    caller.join()
    assert [page["error"] for page in results[0]["results"]] == ["the call was interrupted"] * 2


def test_many_calls_at_once_take_few_threads(env: BaseEnvironment, site: Site, stuck: threading.Event) -> None:
    url = site.on("/", lambda request: bool(stuck.wait()))
    scope = CancelScope()

    def call() -> None:
        with scope.active():
            web_extract.web_extract(env, [url] * 5)

    callers = [threading.Thread(target=call) for _ in range(12)]
    for caller in callers:
        caller.start()
    assert wait_until(lambda: page_threads() > 30, 60)
    most = max(page_threads() for _ in range(20) if not time.sleep(0.01))
    scope.cancel()
    for caller in callers:
        caller.join()
    assert most <= 40


def page_threads() -> int:
    return sum(thread.name.startswith("hermes-web-page") for thread in threading.enumerate())


def test_descriptors_are_given_back(env: BaseEnvironment, site: Site, reader: Callable[[str], None]) -> None:
    reader('print(\'{"title": "", "content": ""}\')')
    urls = [
        site.page("/a", "<p>a</p>"),
        site.page("/b", "b", "text/plain"),
        f"{site.url}/missing",
        "http://127.0.0.1:1/",
    ]
    web_extract.web_extract(env, urls)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        web_extract.web_extract(env, urls)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2  # the server may still have to close its last ones
