"""Where commands run is said, and where a port is, or that there is no way to it."""

from __future__ import annotations

from typing import get_args

from environments.conformance.check import Check, Subject, expect
from environments.errors import UnsupportedError
from environments.target import TargetKind

PORT = 8000


def the_target_says_what_it_is(subject: Subject) -> None:
    """The same while it is up, and in one line for people."""
    target = subject.env.target
    expect(bool(target.backend) and target.kind in get_args(TargetKind), "it has a backend and a kind", target)
    expect(subject.env.target == target, "it is the same each time", subject.env.target)
    expect(all(isinstance(word, str) and word for word in target.enter), "the way in is a program's arguments", target)
    line = str(target)
    expect(target.backend in line and "\n" not in line, "it is one line that names the backend", line)


def a_port_has_an_address_or_is_refused(subject: Subject) -> None:
    """By UnsupportedError that names the backend, and never by an address that leads elsewhere."""
    env = subject.env
    try:
        address = env.address(PORT)
    except UnsupportedError as error:
        expect(repr(env.settings.env) in str(error), "the error names the backend", str(error))
        return
    expect(bool(address.host) and 0 < address.port < 65536, "there is a host and a port", address)
    expect(str(address).endswith(f":{address.port}"), "as text it is both", str(address))
    expect(address.url.startswith(("http://", "https://")), "there is a URL", address.url)


CHECKS = (
    Check(10, the_target_says_what_it_is),
    Check(10, a_port_has_an_address_or_is_refused),
)
