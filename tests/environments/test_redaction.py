"""Redaction of secrets in text: whole, in pieces, cut, encoded, and in logs."""

from __future__ import annotations

import base64
import json
import random
import string
import urllib.parse
from pathlib import Path

import pytest

from environments import BaseEnvironment, TerminalError, create_environment
from environments.log import Log, logger
from environments.model_view import ModelView
from environments.output import CapturedText
from environments.redaction import RedactedPieces, Redactor

SECRET = 'sk-l"i\\ve/0123+45 6789é'
KEY = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEAqLq4\nx8WbWcQm0yYQ2mT3\n-----END KEY-----\n"
REDACTOR = Redactor({"API_KEY": SECRET, "PRIVATE_KEY": KEY, "SHORT": "1234567", "AUTH_MODE": "disabled"})


def test_a_secret_is_found_in_every_spelling() -> None:
    for written in (
        SECRET,
        repr(SECRET)[1:-1],
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        urllib.parse.quote(SECRET, safe=""),
        urllib.parse.quote_plus(SECRET),
    ):
        assert REDACTOR.text(f"it is {written}, he said") == "it is [REDACTED:API_KEY], he said"


def test_base64_of_a_secret_is_found() -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        shown = REDACTOR.text(encode(SECRET.encode() + b"\n").decode())
        assert shown.startswith("[REDACTED:API_KEY]")
        assert len(shown) < 26


def test_each_line_of_a_key_is_a_secret() -> None:
    assert REDACTOR.text(f"x {KEY.strip()} y") == "x [REDACTED:PRIVATE_KEY] y"
    assert REDACTOR.text("x8WbWcQm0yYQ2mT3\n") == "[REDACTED:PRIVATE_KEY]\n"
    assert REDACTOR.text(json.dumps(KEY)) == '"[REDACTED:PRIVATE_KEY]"'


def test_short_and_ordinary_values_are_no_secrets() -> None:
    assert REDACTOR.text("1234567 disabled") == "1234567 disabled"


def test_overlapping_secrets_are_replaced_as_one() -> None:
    redactor = Redactor({"A": "abcdefghij", "B": "ghijklmnop", "C": "abcdefghijXY"})
    assert redactor.text("<abcdefghijklmnop>") == "<[REDACTED:A]>"
    assert redactor.text("<abcdefghijXY>") == "<[REDACTED:A]>"


def test_a_long_secret_is_found_as_a_whole_and_in_pieces() -> None:
    for length in (300, 5000):
        secret = "".join(random.Random(length).choices(string.ascii_letters, k=length))
        redactor = Redactor({"LONG": secret})
        assert redactor.text(f"<{secret}>") == "<[REDACTED:LONG]>"
        pieces = RedactedPieces(redactor)
        shown = "".join(map(pieces.feed, f"<{secret}>")) + pieces.feed("", final=True)
        assert shown.replace("[REDACTED:LONG]", "") == "<>"


def test_a_secret_that_repeats_itself_is_not_held_back_for_ever() -> None:
    pieces = RedactedPieces(Redactor({"RULER_KEY": "=" * 10}))
    for _ in range(10):
        assert set(pieces.feed("=" * 65536)) <= set("[REDACTED:RULER_KEY]")
        assert len(pieces._pending) < 1000


def test_text_that_cannot_be_a_secret_is_shown_at_once() -> None:
    pieces = RedactedPieces(Redactor({"KEY": "pw-0123456789"}))
    assert pieces.feed("Password: ") == "Password: "
    assert pieces.feed("pw-01") == ""
    assert pieces.feed("x, and pw-0123456789") == "pw-01x, and [REDACTED:KEY]"


def test_a_secret_that_the_cap_cuts_shows_less_than_four_characters() -> None:
    secret = "0123456789abcdefghij"
    view = ModelView(Redactor({"KEY": secret}), strip=True)
    for cut in range(1, 20):
        head, tail = f"head {secret[:cut]}", f"{secret[cut:]} tail"
        shown = view.captured(CapturedText(head + tail, 100, len(head)))
        assert shown.text[: shown.omitted_at] == ("head [REDACTED:KEY]" if cut >= 4 else head)
        assert shown.text[shown.omitted_at :] == ("[REDACTED:KEY] tail" if 20 - cut >= 4 else tail)


def test_controls_do_not_hide_a_secret() -> None:
    view = ModelView(Redactor({"KEY": "0123456789"}), strip=True)
    assert view.output("01234\x1b[0m5678\x00 9".replace(" ", "")) == "[REDACTED:KEY]"
    pieces = view.pieces()
    assert "".join(map(pieces.feed, "01234\x1b[0m56789")) + pieces.feed("", final=True) == "[REDACTED:KEY]"


def test_an_environment_knows_the_secrets_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_TOKEN", "forwarded-value")
    monkeypatch.setenv("STORE_URL", "redis://user:pass-in-the-url@host/0")
    monkeypatch.setenv("HARMLESS", "passed-by-name")
    docker = create_environment(
        "docker", env={"API_KEY": "set-in-docker", "COLOUR": "red-and-green"}, env_passthrough=["HARMLESS"]
    )
    shown = docker.model_view().output("set-in-docker red-and-green pass-in-the-url forwarded-value passed-by-name")
    assert (
        shown == "[REDACTED:API_KEY] red-and-green [REDACTED:STORE_URL] [REDACTED:FORWARDED_TOKEN] [REDACTED:HARMLESS]"
    )
    ssh = create_environment("ssh", host="h", password="password-of-ssh")
    assert ssh.model_view().output("password-of-ssh") == "[REDACTED:TERMINAL_SSH_PASSWORD]"


def test_harmless_variables_that_are_passed_through_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("DATA_ROOT", "/srv/all/data")
    env = create_environment("local", env_passthrough=["HOME", "DATA_ROOT"])
    assert env.model_view().output("/home/somebody /srv/all/data") == "/home/somebody /srv/all/data"


def test_an_error_and_its_causes_are_redacted() -> None:
    view = ModelView(Redactor({"KEY": "0123456789"}), strip=True)
    error, cause = TerminalError("\x1b[2Jno 0123456789"), ValueError("0123456789", 5)
    error.__cause__ = cause
    cause.__context__ = error
    view.redact_error(error)
    assert (str(error), cause.args) == ("no [REDACTED:KEY]", ("[REDACTED:KEY]", 5))


def test_with_the_settings_off_everything_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "open-sesame-4711")
    env: BaseEnvironment = create_environment("local", redact_secrets=False, strip_ansi=False)
    assert env.model_view().output("\x1b[1mopen-sesame-4711") == "\x1b[1mopen-sesame-4711"


def test_logs_hold_no_secret(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("MY_API_KEY", "open-sesame-4711")
    try:
        raise ValueError("open-sesame-4711")
    except ValueError:
        logger("environments.test").warning("it was %s", "open-sesame-4711", exc_info=True)
    logger("environments.test").warning("%d apples", 3)
    assert caplog.records[0].getMessage() == "it was [REDACTED:MY_API_KEY]"
    assert "ValueError: [REDACTED:MY_API_KEY]" in caplog.text
    assert "open-sesame" not in caplog.text
    assert caplog.records[1].args == (3,)


def test_every_module_logs_through_the_redacting_logger() -> None:
    root = Path(__file__).parents[2] / "environments"
    direct = [file.name for file in root.rglob("*.py") if "getLogger(__name__)" in file.read_text()]
    assert direct == []
    assert isinstance(logger("environments"), Log)
