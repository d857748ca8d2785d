"""Records in any state can be read."""

from __future__ import annotations

import io
import json

import pytest
from targets.report_record import BEGIN

from environments.errors import TerminalError
from hermes_env.report import record as records
from hermes_env.report.contents import contents_of
from hermes_env.report.record import JoinedRecord, join, read_lines


def read(text: str | bytes) -> JoinedRecord:
    data = text if isinstance(text, bytes) else text.encode()
    return join(read_lines(io.BytesIO(data)))


def text_of(record) -> str:
    return "".join(record.lines)


def test_a_begin_and_its_end_are_one_event_below_what_it_was_done_for(small) -> None:
    record = read(text_of(small))
    names = [event.began["name"] for event in record.events]
    assert len(names) == 10
    inner = record.events[names.index("git log")]
    call = record.events[inner.parent]
    assert call.began["name"] == "terminal"
    assert record.events[call.parent].began["kind"] == "script"
    assert inner.seconds == pytest.approx(0.4)
    last = contents_of(record)[0]["events"][-1]
    assert (last["name"], last["d"], last["status"]) == ("tail -f log", None, "unfinished")


def test_a_torn_last_line_costs_itself_alone(small) -> None:
    record = read(text_of(small) + '{"event": "begin", "run": "5f1c')
    assert len(record.events) == 10
    assert [(damage.number, damage.what[:4]) for damage in record.damages] == [(21, "torn")]


@pytest.mark.usefixtures("without_collector")
def test_a_damaged_line_costs_itself_alone(small) -> None:
    first, *others = small.lines
    for line in (b"\xff\xfe\n", b"[1, 2]\n", b"{not json}\n", b"[" * 100_000 + b"\n", b'"text"\n'):
        record = read(first.encode() + line + "".join(others).encode())
        assert len(record.events) == 10
        assert [damage.number for damage in record.damages] == [2]


def test_a_line_without_an_end_is_not_read_into_memory(small, monkeypatch) -> None:
    monkeypatch.setattr(records, "LONGEST", 4096)
    record = read("x" * 20_000 + "\n" + text_of(small))
    assert len(record.events) == 10
    assert "longer than" in record.damages[0].what


def test_unknown_events_kinds_and_keys_are_passed_over_or_shown_as_they_are(small) -> None:
    small.line(event="weather", run=small.run, time=1_760_000_010.0, sky="blue")
    small.whole("dream", "of sheep", 5.0, 1.0, colour="white", ended={"status": "success", "mood": "calm"})
    contents, _ = contents_of(read(text_of(small)))
    assert len(contents["events"]) == 11
    assert contents["events"][-1]["kind"] == "dream"
    assert contents["events"][-1]["facts"] | {"colour": "white", "mood": "calm"} == contents["events"][-1]["facts"]


def test_an_end_without_a_begin_is_an_event(record) -> None:
    record.begin_run()
    record.end("5f1c09ab-1", 3.0, 2.0, kind="command", exit_code=0)
    event = read(text_of(record)).events[0]
    assert event.time == pytest.approx(1_760_000_001.0)
    assert event.seconds == 2.0


def test_several_runs_may_be_mixed_line_by_line(record) -> None:
    record.begin_run(run="a")
    first = record.begin("command", "one", 1.0)
    record.begin_run(2.0, run="b")
    record.whole("command", "two", 2.1, 0.2)
    record.run = "a"
    record.end(first, 3.0, 2.0)
    read_back = read(text_of(record))
    assert [(event.run, event.seconds) for event in read_back.events] == [(0, 2.0), (1, 0.2)]
    assert read_back.last[0] == pytest.approx(1_760_000_003.0)


def test_a_run_whose_first_line_is_missing_is_known_by_its_others(small) -> None:
    assert len(read("".join(small.lines[1:])).events) == 10


def test_no_event_is_its_own_ancestor(record) -> None:
    record.begin_run()
    record.line(event="begin", run="x", time=1.0, id="1", parent="2", kind="command", name="one")
    record.line(event="begin", run="x", time=2.0, id="2", parent="1", kind="command", name="two")
    record.line(event="begin", run="x", time=2.0, id="3", parent="3", kind="command", name="three")
    assert [event.parent for event in read(text_of(record)).events] == [None, 0, None]


def test_an_event_with_an_invalid_time_is_left_out(record) -> None:
    record.begin_run()
    for time in ("now", None, True, 10**400, 1e308, [1]):
        record.line(event="begin", run=record.run, time=time, id="1", parent=None, kind="command", name="one")
    assert read(text_of(record)).events == []


def test_invalid_numbers_are_left_out_of_the_page(record) -> None:
    record.begin_run()
    record.whole("command", "one", 1.0, 1.0, ended={"exit_code": float("nan"), "waited": float("inf")})
    contents, _ = contents_of(read(text_of(record)))
    json.dumps(contents, allow_nan=False)


def test_a_later_version_is_refused_with_what_to_do(record) -> None:
    record.begin_run(version=2)
    with pytest.raises(TerminalError, match=r"version 2.*version 1.*hermes-env that wrote the record"):
        read(text_of(record))


def test_a_file_that_is_no_record_is_refused_with_the_remedy() -> None:
    for text in ("", "\n\n", "hello\nworld\n", '{"a": 1}\n'):
        with pytest.raises(TerminalError, match="--record FILE"):
            read(text)


def test_a_script_is_called_by_its_first_line_without_quotes_and_a_call_by_its_arguments(record) -> None:
    record.begin_run()
    script = record.begin("script", '"""Count things."""', 1.0, script='"""Count things."""\n')
    arguments = {"limit": 5, "pattern": "def\nclass", "path": "src"}
    record.whole("tool_call", "search_files", 1.1, 0.1, script, tool="search_files", arguments=arguments)
    first, second = contents_of(read(text_of(record)))[0]["events"]
    assert first["name"] == "Count things."
    assert second["hint"] == "def  src"


def test_a_refused_connection_is_an_event_of_what_it_is_part_of(record) -> None:
    record.begin_run()
    known = record.whole("command", "curl", 1.0, 1.0)
    for host in ({"host": "example.org", "port": 443}, {"host": "10.0.0.1"}, {}):
        record.line(event="network_refused", run=record.run, time=BEGIN + 1.5, id=known, **host)
    refused = contents_of(read(text_of(record)))[0]["events"][1:]
    assert [each["name"] for each in refused] == ["example.org:443", "10.0.0.1", "network_refused"]
    assert {(each["parent"], each["d"], each["status"]) for each in refused} == {(0, 0.0, "denied")}
