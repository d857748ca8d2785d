"""Allow-lists of hosts: entries, forms of a host, and addresses that are not public."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments import create_environment, load_settings
from environments.errors import SettingsError, UnsupportedError
from environments.network.allow_list import (
    AllowList,
    HostRefusedError,
    is_public,
    parse_host,
    split_port,
)
from environments.network.setting import network_argument, parse_network

LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PUBLIC, PRIVATE = IPv4Address("93.184.216.34"), IPv4Address("10.1.2.3")


def allows(entries: list[str], host: str, port: int = 443) -> bool:
    try:
        AllowList(entries).check(parse_host(host), port)
    except HostRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("example.org", "example.org", 1),
        ("example.org:8080", "example.org", 8080),
        ("*.example.org", "a.example.org", 443),
        ("*.example.org", "a.b.example.org", 443),
        ("*.example.org:80", "a.example.org", 80),
        ("EXAMPLE.org.", "example.ORG", 443),
        ("b\u00fccher.example", "xn--bcher-kva.example", 443),
        ("93.184.216.34", "93.184.216.34", 443),
        ("10.0.0.0/8", "10.9.8.7", 22),
        ("127.0.0.1:9", "127.0.0.1", 9),
        ("[2001:db8::1]:80", "[2001:db8::1]", 80),
        ("[2001:db8::1]", "[2001:DB8:0::1]", 443),
        ("2001:db8::/32", "[2001:db8::5]", 443),
    ],
)
def test_an_entry_allows_the_hosts_it_names(entry: str, host: str, port: int) -> None:
    assert allows([entry], host, port)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("example.org", "www.example.org", 443),
        ("example.org", "example.org.evil.example", 443),
        ("example.org", "notexample.org", 443),
        ("*.example.org", "example.org", 443),
        ("*.example.org", "notexample.org", 443),
        ("example.org:80", "example.org", 443),
        ("10.0.0.0/8", "11.0.0.1", 443),
        ("127.0.0.1", "[::ffff:127.0.0.1]", 443),
        ("127.0.0.1:9", "127.0.0.1", 90),
    ],
)
def test_an_entry_allows_no_other_host(entry: str, host: str, port: int) -> None:
    assert not allows([entry], host, port)


@pytest.mark.parametrize(
    "entry",
    [
        *("", "*", "*.", ".", "a..b", "-a.example", "a b", "*.*.example", "a*.example", "user@example.org"),
        *("http://example.org", "example.org/path", "example.org:", "example.org:0", "example.org:65536"),
        *("example.org:x", "*.10.0.0.1", "2130706433", "0x7f.1", "10.1", "010.0.0.1", "fe80::1%eth0", "[::1", 7),
    ],
)
def test_an_invalid_entry_is_refused_with_the_valid_forms(entry: object) -> None:
    with pytest.raises(ValueError, match=r"give a host \(example.org\)"):
        AllowList([entry])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "192.0.0.192", "168.63.129.16"),
        *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
        *("::ffff:10.0.0.1", "::ffff:93.184.216.34", "::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::10.0.0.1"),
        *("2002:0a00:0001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
    ],
)
def test_an_address_that_is_not_public_is_connected_to_only_if_it_is_listed(address: str) -> None:
    where = ip_address(address)
    assert not is_public(where)
    with pytest.raises(HostRefusedError, match=r"not public; .* add the address to the network setting"):
        AllowList(["example.org"]).allowed_addresses("example.org", 443, [where])
    host_and_port = f"[{address}]" if ":" in address else address
    assert AllowList(["example.org", f"{host_and_port}:443"]).allowed_addresses("example.org", 443, [where]) == [where]
    with pytest.raises(HostRefusedError):
        AllowList(["example.org", f"{host_and_port}:444"]).allowed_addresses("example.org", 443, [where])


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::93.184.216.34"])
def test_a_public_address_of_a_listed_name_need_not_be_listed(address: str) -> None:
    where = ip_address(address)
    assert AllowList(["example.org"]).allowed_addresses("example.org", 443, [PRIVATE, where]) == [where]


def test_a_name_that_is_not_listed_is_refused_wherever_it_leads() -> None:
    with pytest.raises(HostRefusedError, match=r"evil\.example, port 443, is not in this environment's list"):
        AllowList(["example.org", str(PUBLIC)]).allowed_addresses("evil.example", 443, [PUBLIC])


@given(NAMES, NAMES)
def test_a_name_is_listed_by_itself_alone(name: str, other: str) -> None:
    assert allows([name], name)
    assert allows([name], f"{name.upper()}.")
    assert allows([name], other) is (name == other)
    assert allows([f"*.{name}"], f"{other}.{name}")
    assert not allows([f"*.{name}"], f"{other}{name}")


@given(st.text(max_size=30))
def test_a_host_has_one_form_or_none(text: str) -> None:
    try:
        host = parse_host(text)
    except ValueError:
        return
    assert parse_host(f"[{host}]" if isinstance(host, IPv6Address) else str(host)) == host


@given(st.integers(0, 2**32 - 1))
def test_an_address_is_read_in_its_usual_form_alone(number: int) -> None:
    usual = str(IPv4Address(number))
    assert parse_host(usual) == IPv4Address(number)
    a, b, c, d = usual.split(".")
    for form in (
        str(number),
        hex(number),
        f"0x{int(a):x}.{b}.{c}.{d}",
        f"{a}.{number & 0xFFFFFF}",
        f"0{a}.{b}.{c}.{d}",
    ):
        with pytest.raises(ValueError):  # noqa: PT011  # of the library that reads addresses
            parse_host(form)


def test_a_port_is_split_from_an_address() -> None:
    assert split_port("example.org:80") == ("example.org", "80")
    assert split_port("[::1]:80") == ("[::1]", "80")
    assert split_port("::1") == ("::1", "")
    assert split_port("[::1]") == ("[::1]", "")


@pytest.mark.parametrize("value", [True, "true", "yes", "on", "1", 1, "full", "FULL"])
def test_a_true_value_is_full(value: object) -> None:
    assert parse_network(value) == "full"


@pytest.mark.parametrize("value", [False, "false", "no", "off", "0", 0, "none"])
def test_a_false_value_is_none(value: object) -> None:
    assert parse_network(value) == "none"


def test_a_list_is_kept_as_it_was_written_and_may_be_json() -> None:
    assert parse_network(["Example.org", "*.a.example:80"]) == ("Example.org", "*.a.example:80")
    assert parse_network('["a.example"]') == ("a.example",)
    assert parse_network([]) == ()


@pytest.mark.parametrize("value", ["some", "[", '["a b"]', '{"a": 1}', 7, None, {"a"}, "a.example"])
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(SettingsError, match="network: "):
        network_argument(value)


@pytest.mark.parametrize("backend", ["ssh", "local"])
def test_a_backend_without_lists_of_hosts_refuses_them_and_names_others(backend: str) -> None:
    with pytest.raises(UnsupportedError, match=r"argument network: .* use bubblewrap, docker, singularity"):
        create_environment(backend, network=["example.org"])


def test_a_backend_without_the_setting_refuses_set_network() -> None:
    with create_environment("local") as env, pytest.raises(UnsupportedError, match="use docker, bubblewrap or"):
        env.set_network(["example.org"])


@pytest.mark.parametrize("text", ['["example.org", "*.a.example:80"]', "none", "false"])
def test_the_setting_is_read_from_a_variable(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_DOCKER_NETWORK", text)
    given = ("example.org", "*.a.example:80") if text.startswith("[") else "none"
    assert load_settings("docker").docker.network == given


def test_a_list_of_config_yaml_is_read_as_other_lists_are(configure: Callable[[str], object]) -> None:
    configure("terminal:\n  docker_network:\n    - example.org\n    - 10.0.0.0/8\n")
    assert load_settings("docker").docker.network == ("example.org", "10.0.0.0/8")
    configure("terminal:\n  docker_network: [http://example.org]\n")
    with pytest.raises(SettingsError, match=r"network: 'http://example.org' is not understood"):
        load_settings("docker")


def test_a_container_to_join_gets_no_list() -> None:
    with pytest.raises(SettingsError, match="network is for a new target"):
        create_environment("docker", container="some", network=["example.org"])
