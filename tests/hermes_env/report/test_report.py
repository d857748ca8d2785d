"""`hermes-env report` writes a private file, and replaces only reports."""

from __future__ import annotations

import base64
import hashlib
import html
import re
import stat
from pathlib import Path

import pytest

from environments.errors import TerminalError
from hermes_env.cli.report import report_command

HOSTILE = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> \u2028 \ud800"


def test_a_report_has_the_name_of_its_record_and_is_private(hermes_env, small) -> None:
    done = hermes_env("report", small.saved())
    page = small.path.with_suffix(".html")
    assert (done.stdout, done.returncode) == (f"{page}: 10 events\n", 0)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_a_record_of_a_run_becomes_a_report(hermes_env, tmp_path) -> None:
    (tmp_path / "script.py").write_text("from hermes_tools import terminal\nterminal('echo marked')\n")
    assert hermes_env("run", "--backend", "local", "--record", "run.jsonl", "script.py").returncode == 0
    assert hermes_env("report", "run.jsonl", "-o", "seen.html").returncode == 0
    assert "echo marked" in (tmp_path / "seen.html").read_text()


def test_a_report_comes_from_and_goes_to_standard_streams(hermes_env, small) -> None:
    page = hermes_env("report", "-", stdin=Path(small.saved()).read_text()).stdout
    assert page.startswith("<!doctype html>")
    assert page == hermes_env("report", "-", "-o", "-", stdin=small.path.read_text()).stdout
    assert not small.path.with_suffix(".html").exists()


def test_a_report_is_replaced_and_any_other_file_only_by_force(small, tmp_path) -> None:
    page = tmp_path / "page.html"
    page.write_text("precious")
    with pytest.raises(TerminalError, match=r"is not a report.*--force"):
        report_command(small.saved(), str(page))
    assert page.read_text() == "precious"
    report_command(str(small.path), str(page), force=True)
    report_command(str(small.path), str(page))
    assert "precious" not in page.read_text()


def test_a_record_is_never_overwritten(small) -> None:
    before = Path(small.saved()).read_text()
    with pytest.raises(TerminalError, match="is the record:"):
        report_command(str(small.path), str(small.path), force=True)
    assert small.path.read_text() == before


def test_a_read_or_write_error_is_one_line(hermes_env, small, tmp_path) -> None:
    (tmp_path / "notes").write_text("hello\n")
    for words, said in (
        (("absent",), "No such file"),
        (("notes",), "no record in it"),
        ((small.saved(), "--output", "nowhere/page.html"), "there is no directory nowhere; make it first"),
    ):
        refused = hermes_env("report", *words)
        assert refused.returncode == 125
        assert said in refused.stderr and Path(words[0]).name in refused.stderr + "run.jsonl"
    assert not list(tmp_path.glob("**/*.html"))


@pytest.mark.usefixtures("without_collector")
def test_a_value_nested_too_deep_is_not_shown(record) -> None:
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    record.begin_run()
    record.whole("tool_call", "one", 1.0, 1.0, arguments={"a": deep})
    assert "(nested too deep to be shown)" in page_for(record)


def page_for(record) -> str:
    page = record.path.with_name("page.html")
    report_command(record.saved(), str(page))
    return page.read_text()


def test_the_policy_allows_this_script_and_this_style_alone(small) -> None:
    page = page_for(small)
    policy = html.unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1])
    assert policy.startswith("default-src 'none'; ")
    for tag in ("script", "style"):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:|//)|@import|url\(", page)


def test_no_text_of_a_record_can_end_the_element_that_it_stands_in(record) -> None:
    record.begin_run(program=HOSTILE)
    record.whole("command", HOSTILE, 1.0, 1.0, command=HOSTILE, ended={"output": HOSTILE, "error": HOSTILE})
    page = page_for(record)
    assert page.count("</script>") == 3
    assert page.count("<script") == 3
    assert "onerror" not in re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.DOTALL)


def test_a_link_in_the_place_of_a_report_is_refused_and_what_it_leads_to_stays(small, tmp_path) -> None:
    precious, page = tmp_path / "precious", tmp_path / "page.html"
    precious.write_text("precious")
    precious.chmod(0o644)
    page.symlink_to(precious)
    for _ in range(2):
        with pytest.raises(TerminalError, match="it is a link; give the path of another file"):
            report_command(small.saved(), str(page), force=True)
        assert (precious.read_text(), stat.S_IMODE(precious.stat().st_mode)) == ("precious", 0o644)
        page.unlink()
        page.symlink_to(tmp_path / "not there")
    assert not (tmp_path / "not there").exists()
