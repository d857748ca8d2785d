from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import pytest
from targets.web_server import Site, running_site, self_signed

from environments.network.allow_list import is_public
from hermes_tools.web.web_extract import PageResult

pytestmark = pytest.mark.xdist_group("web")

Answers = Callable[[str, list[str]], list[str]]
ReadOne = Callable[..., PageResult]

NOT_PUBLIC = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.1.1",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "168.63.129.16",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:93.184.216.34", "64:ff9b::127.0.0.1",
    "64:ff9b::169.254.169.254", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::1", "2001:db8::1",
    "2002:7f00:1::1", "2002:5db8:d822::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
    "4000::1", "e000::1",
]  # fmt: skip
PUBLIC = ["93.184.216.34", "1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001::1", "64:ff9b::8.8.8.8"]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Resolves names to the given addresses in turn, and then always to the last."""
    known: dict[str, list[str]] = {}
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: str, port: int, *args: int, **kwargs: int) -> object:
        if host not in known:
            return real(host, port, *args, **kwargs)
        asked.append(host)
        together = known[host].pop(0) if len(known[host]) > 1 else known[host][0]
        return [answer for address in together.split() for answer in real(address, port, *args, **kwargs)]

    def answers(host: str, addresses: list[str]) -> list[str]:
        known[host] = list(addresses)
        return asked

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return answers


def test_public_and_private_addresses_are_distinguished() -> None:
    assert [address for address in NOT_PUBLIC if is_public(ip_address(address))] == []
    assert [address for address in PUBLIC if not is_public(ip_address(address))] == []


def test_a_name_with_an_address_that_is_not_public_is_refused(read_one: ReadOne, answers: Answers) -> None:
    for address in NOT_PUBLIC[::4]:
        answers("page.example", [address])
        error = str(read_one("http://page.example/")["error"])
        assert error.startswith("page.example has an address that is not public: not read")
        assert address not in error


def test_an_address_is_refused_in_whatever_form(read_one: ReadOne) -> None:
    with running_site() as site:
        for host in ("127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::1]", "[::ffff:7f00:1]", "localhost"):
            assert "not public" in str(read_one(f"http://{host}:{site.port}/")["error"])
        assert site.requests == []


def test_metadata_services_are_refused_by_name(read_one: ReadOne, answers: Answers) -> None:
    for host in ("metadata.google.internal", "METADATA.google.internal.", "metadata"):
        answers(host, ["93.184.216.34"])
        answers(host.lower(), ["93.184.216.34"])
        assert "metadata service" in str(read_one(f"http://{host}/")["error"])


def test_one_private_address_among_public_ones_refuses_the_name(read_one: ReadOne, answers: Answers) -> None:
    answers("page.example", ["93.184.216.34 2606:4700:4700::1111 127.0.0.1"])
    assert "not public" in str(read_one("http://page.example/")["error"])


def test_a_redirect_to_a_private_address_is_refused(site: Site, read_one: ReadOne) -> None:
    with running_site("127.0.0.9") as private:
        for where in (private.url, f"http://127.9:{private.port}/", f"//127.0.0.9:{private.port}/"):
            error = str(read_one(site.on("/", lambda request, where=where: request.redirect(where)))["error"])
            assert "not public" in error
        assert private.requests == []


def test_allow_private_names_hosts_and_networks(
    read_one: ReadOne, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers("page.example", ["127.0.0.9"])
    with running_site("127.0.0.9") as private:
        private.page("/", "inside", "text/plain")
        for entry in ("127.0.0.9", "127.0.0.0/28", "page.example", '["10.0.0.1", "Page.Example."]'):
            monkeypatch.setenv("WEB_ALLOW_PRIVATE", entry)
            assert read_one(f"http://page.example:{private.port}/")["content"] == "inside"
            assert "not public" in str(read_one("http://127.0.0.77/")["error"])


def test_the_connection_goes_to_the_address_that_was_checked(
    read_one: ReadOne, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "127.0.0.9")
    with running_site("127.0.0.9") as checked:
        checked.page("/", "the one that was checked", "text/plain")
        asked = answers("rebinds.example", ["127.0.0.9", "127.0.0.1"])
        assert read_one(f"http://rebinds.example:{checked.port}/")["content"] == "the one that was checked"
        assert asked == ["rebinds.example"]
        assert checked.requests[0].headers["Host"] == f"rebinds.example:{checked.port}"


def test_a_name_is_checked_again_on_each_connection(
    read_one: ReadOne, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "127.0.0.9")
    with running_site("127.0.0.9") as site:
        answers("rebinds.example", ["127.0.0.9", "127.0.0.1"])
        site.on("/", lambda request: request.redirect("/again"))
        assert "not public" in str(read_one(f"http://rebinds.example:{site.port}/")["error"])
        assert [request.path for request in site.requests] == ["/"]


def test_another_address_is_tried_when_one_does_not_answer(
    site: Site, read_one: ReadOne, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "127.0.0.0/8")
    answers("page.example", ["127.0.0.99 127.0.0.1"])
    site.page("/", "here", "text/plain")
    assert read_one(f"http://page.example:{site.port}/")["content"] == "here"


def test_no_proxy_is_used(site: Site, read_one: ReadOne, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", site.url)
    monkeypatch.setenv("http_proxy", site.url)
    assert "not known" in str(read_one("http://no-such-name.invalid/")["error"])
    assert site.requests == []


def test_tls_knows_the_name_and_not_the_address(
    tmp_path: Path, read_one: ReadOne, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = self_signed(tmp_path, "page.example")
    asked_for: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked_for.append(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "127.0.0.1")
    answers("page.example", ["127.0.0.1"])
    answers("other.example", ["127.0.0.1"])
    with running_site(tls=context) as site:
        site.page("/", "in private", "text/plain")
        assert read_one(f"https://page.example:{site.port}/")["content"] == "in private"
        assert "the certificate is not valid" in str(read_one(f"https://other.example:{site.port}/")["error"])
    assert asked_for == ["page.example", "other.example"]


def test_an_untrusted_certificate_is_refused(
    tmp_path: Path, read_one: ReadOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_ALLOW_PRIVATE", "127.0.0.1")
    with running_site(tls=self_signed(tmp_path, "127.0.0.1")) as site:
        assert "the certificate is not valid" in str(read_one(f"{site.url}/")["error"])
        assert site.requests == []
