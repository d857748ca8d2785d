"""The report in a browser: by mouse, by keyboard, and by the accessibility tree of a screen reader."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from targets.report_record import BEGIN

pytestmark = pytest.mark.xdist_group("browser")

NAMELESS = re.compile(
    r"- (button|searchbox|textbox|slider|radio|combobox|region|treegrid|row|columnheader)\s*:?$", re.M
)


def row(page: Page, text: str):
    return page.get_by_role("row").filter(has_text=text).first


def focused_row(page: Page):
    return page.locator(".row:focus")


def expect_names(page: Page, names: list[Any]) -> None:
    expect(page.locator(".row .name")).to_have_text(names)


def test_calls_are_shown_with_times_and_totals(open_report, small) -> None:
    page = open_report(small)
    expect(page.get_by_role("heading", level=1)).to_have_text("run.jsonl")
    assert "hermes-env run" in page.locator("#about").inner_text()
    totals = page.locator("#totals div").all_inner_texts()
    for expected in ("Script\n1", "Tool calls\n4", "Commands\n4", "Failed\n2", "Took\n3.80 s"):
        assert expected in totals, totals
    shares = page.get_by_role("list", name="Where the time went").inner_text()
    assert "Waiting" not in shares  # another call ran meanwhile
    assert "Commands 2.00 s" in shares
    expect(row(page, "make all")).to_contain_text("exit 2")
    expect(row(page, "make all")).to_contain_text("900 ms")
    expect(row(page, "tail -f log")).to_contain_text("unfinished")
    assert "1 event had not ended" in page.locator("#notices").inner_text()


def test_calls_stand_below_their_script_and_commands_below_their_call(open_report, small) -> None:
    page = open_report(small)
    expect(page.locator(".name", has_text=re.compile("^git log$"))).to_have_count(0)
    call = row(page, "terminal")
    expect(call).to_have_attribute("aria-level", "2")
    expect(call).to_have_attribute("aria-expanded", "false")
    call.locator(".twisty").click()
    expect(page.locator(".row[aria-level='3']")).to_contain_text("git log")
    page.get_by_role("button", name="Open all").click()
    page.get_by_role("button", name="Close all").click()
    expect(page.locator(".row")).to_have_count(5)


def test_waits_are_shown_with_their_cause(open_report, small) -> None:
    page = open_report(small)
    row(page, "make all").click()
    details = page.get_by_role("region", name="make all")
    expect(details).to_contain_text("Waited 900 ms")
    expect(details).to_contain_text("Worked 600 ms")
    details.get_by_role("button", name="sleep 1").click()
    expect(
        page.get_by_role("region", name="command sleep 1").or_(page.get_by_role("region", name="sleep 1"))
    ).to_be_visible()
    page.get_by_role("button", name="Waited 1").click()
    expect(page.get_by_role("button", name="Waited 1")).to_have_attribute("aria-pressed", "true")
    expect_names(page, ["make all"])


def test_a_call_that_is_closed_shows_how_long_its_command_waited(open_report, record) -> None:
    record.begin_run()
    first = record.begin("tool_call", "terminal", 1.0, tool="terminal", arguments={"command": "make"})
    record.whole("command", "make", 1.0, 2.0, first, way="session", ended={"exit_code": 0})
    record.end(first, 3.0, 2.0)
    second = record.begin("tool_call", "terminal", 1.5, tool="terminal", arguments={"command": "date"})
    record.whole("command", "date", 1.5, 1.6, second, way="session", ended={"exit_code": 0, "waited": 1.5})
    record.end(second, 3.1, 1.6)
    page = open_report(record)
    expect(row(page, "date").locator(".cell-waited")).to_have_text("1.50 s")
    expect(row(page, "date").locator(".waiting")).to_be_visible()
    row(page, "date").click()
    expect(page.locator("#details")).to_contain_text("Waited 1.50 s")
    expect(page.locator("#details").get_by_role("button", name="command make")).to_be_visible()
    row(page, "date").locator(".twisty").click()
    expect(page.locator(".row[aria-expanded='true'] .waiting")).to_have_count(0)


def test_the_output_the_arguments_and_the_result_show_on_demand(open_report, small) -> None:
    page = open_report(small)
    assert page.get_by_text("needle").count() == 0
    row(page, "terminal").click()
    details = page.locator("#details")
    expect(details.get_by_role("region", name="Result: output")).to_contain_text("needle in here")
    row(page, "make all").click()
    expect(details.get_by_role("region", name="Output")).to_have_text("no such target\n")
    row(page, "report.py").click()
    expect(details.get_by_role("table")).to_contain_text("search_files")
    expect(details.get_by_role("region", name="Script")).to_contain_text("import os")


def test_a_long_text_shows_its_beginning_first_and_says_what_is_missing(open_report, record) -> None:
    record.begin_run()
    output = "first\n" + "x" * 30_000 + "\nlast\n"
    cut = {"output": {"bytes": 123_000, "at": 6}}
    record.whole("command", "yes", 1.0, 1.0, ended={"output": output, "output_bytes": 153_000, "cut": cut})
    page = open_report(record)
    row(page, "yes").click()
    text = page.get_by_role("region", name="Output")
    expect(text).to_contain_text("123 kB missing here")
    expect(text).not_to_contain_text("last")
    page.get_by_role("button", name="Show all").click()
    expect(text).to_contain_text("last")


def test_a_search_finds_names_arguments_and_outputs_and_marks_them(open_report, small) -> None:
    page = open_report(small)
    page.get_by_role("searchbox").fill("NEEDLE in")
    expect(page.get_by_role("status").last).to_contain_text("2 of 10")
    expect_names(page, ["report.py", "terminal git log", "git log"])
    expect(row(page, "report.py")).to_have_class(re.compile("context"))
    page.get_by_role("searchbox").fill("present.p")
    expect(page.locator(".row mark")).to_have_text("present.p")
    page.get_by_role("searchbox").fill("[.*")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    page.get_by_role("button", name="Show everything").click()
    expect(page.locator(".row")).to_have_count(9)


def write_batch(record, tasks: int = 12) -> None:
    """Write a record of tasks with a transfer and a command each. Every third fails; two tasks share an environment."""
    record.begin_run(program="hermes-env batch")
    for n in range(0, tasks, 2):
        record.whole("start", "start local", n, 0.3, environment=f"local {n // 2 + 1}")
    for n in range(tasks):
        of = {"environment": f"local {n // 2 + 1}", "batch_task": f"t{n}"}
        record.whole("transfer", "write_bytes", n + 0.3, 0.1, operation="write_bytes", path="a", **of)
        ended = {"exit_code": 1, "status": "error"} if n % 3 == 0 else {"exit_code": 0, "output_bytes": 5}
        record.whole("command", f"make {n}", n + 0.4, 0.5, command=f"make {n}", ended=ended, **of)
    record.line(
        event="network_refused", run=record.run, time=BEGIN + tasks - 0.8, id=None, host="example.org", port=443, **of
    )


def test_events_of_a_batchs_task_are_grouped(open_report, record) -> None:
    write_batch(record, 4)
    page = open_report(record)
    assert "4 tasks" in page.locator("#about").inner_text()
    names = [*("t0", "start local", "write_bytes", "make 0"), *("t1", "write_bytes", "make 1")]
    names += [*("t2", "start local", "write_bytes", "make 2")]
    names += [*("t3", "example.org:443", "write_bytes", "make 3")]
    expect_names(page, names)
    expect(row(page, "t0")).to_contain_text("1 failed")
    expect(row(page, "t1")).to_contain_text("success")
    expect(row(page, "example.org")).to_contain_text("network refused")
    row(page, "make 2").click()
    expect(page.locator("#details")).to_contain_text("Batch's task")


def test_a_task_of_a_batch_is_found_by_its_id(open_report, record) -> None:
    write_batch(record)
    page = open_report(record)
    page.get_by_role("searchbox").fill("t7")
    expect_names(page, ["t7", "write_bytes", "make 7"])
    page.get_by_role("button", name="Took").click()
    expect_names(page, [re.compile("make 7 +t7"), re.compile("write_bytes +t7")])


def test_a_task_whose_id_is_a_number_has_a_row_apart_from_one_whose_id_is_that_text(open_report, record) -> None:
    record.begin_run()
    for at, task in enumerate((0, "0", 17)):
        record.whole("command", f"make {at}", 1.0 + at, 0.5, batch_task=task, ended={"batch_task": task})
    page = open_report(record)
    expect_names(page, ["0", "make 0", "0", "make 1", "17", "make 2"])
    page.get_by_role("searchbox").fill("17")
    expect_names(page, ["17", "make 2"])


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_figure_is_cut_off(open_report, small, scheme, width) -> None:
    for size in (0, 123_456_789):
        if size:
            small.whole("command", "seq", 90_000.0, 3_600.0, ended={"output": "x", "output_bytes": size})
        page = open_report(small, scheme=scheme, width=width)
        figures = page.locator("#totals div")
        expect(figures).to_have_count(6)
        right = [box["x"] + box["width"] for box in (figure.bounding_box() for figure in figures.all()) if box]
        assert len(right) == 6 and max(right) <= width, right
        assert page.locator("#totals").evaluate("all => all.scrollWidth <= all.clientWidth")
        for value in figures.locator("dd").all():
            assert value.evaluate("one => one.scrollWidth <= one.clientWidth"), value.inner_text()


def test_a_search_hit_in_the_details_is_scrolled_into_view(open_report, record) -> None:
    record.begin_run()
    output = "".join(f"line {number}\n" for number in range(5000))
    record.whole("command", "seq", 1.0, 1.0, ended={"output": output, "output_bytes": len(output)})
    page = open_report(record)
    row(page, "seq").click()
    page.get_by_role("searchbox").fill("line 4321")
    mark = page.get_by_role("region", name="Output").locator("mark")
    expect(mark).to_have_text("line 4321")
    expect(mark).to_be_in_viewport()


def test_kinds_and_failures_can_be_chosen_and_sorted_by_time(open_report, small) -> None:
    page = open_report(small)
    failed = page.get_by_role("button", name="Failed 2")
    failed.click()
    expect(failed).to_have_attribute("aria-pressed", "true")
    expect_names(page, ["report.py", "read_file absent.py", "make all"])
    failed.click()
    page.get_by_role("button", name="Commands 4").click()
    page.get_by_role("button", name="Took").click()
    expect(page.get_by_role("columnheader", name="Took")).to_have_attribute("aria-sort", "descending")
    expect_names(page, ["make all", "sleep 1", "git log", "tail -f log"])


def test_everything_can_be_done_by_the_keyboard(open_report, small) -> None:
    page = open_report(small)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("log")
    expect(page.locator("#count")).to_contain_text("of 10")
    page.keyboard.press("ArrowDown")
    expect(focused_row(page)).to_contain_text("report.py")
    page.keyboard.press("Escape")
    expect(page.locator("#count")).to_have_text("10 events")
    page.keyboard.press("End")
    expect(focused_row(page)).to_contain_text("tail -f log")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    expect(focused_row(page)).to_contain_text("report.py")
    page.keyboard.press("ArrowLeft")
    expect(focused_row(page)).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(focused_row(page)).to_contain_text("search_files")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("n")
    expect(focused_row(page)).to_contain_text("absent.py")
    page.keyboard.press("Enter")
    expect(page.locator("#details")).to_contain_text("File not found: absent.py")
    expect(focused_row(page)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(page.locator("#details")).to_be_hidden()
    expect(focused_row(page)).to_contain_text("absent.py")


def test_a_part_of_the_time_can_be_chosen(open_report, small) -> None:
    page = open_report(small)
    handle = page.get_by_role("slider", name="Shown from")
    handle.focus()
    for _ in range(6):
        page.keyboard.press("Shift+ArrowRight")
    expect(handle).to_have_attribute("aria-valuetext", re.compile(r"after the beginning"))
    expect_names(page, ["sleep 1", "make all", "tail -f log"])
    page.get_by_role("button", name="Whole time").click()
    expect(page.locator(".row")).to_have_count(9)
    row(page, "search_files").click()
    page.keyboard.press("z")
    expect_names(page, ["report.py", "search_files ^def"])
    box = page.locator("#overview").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.02, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.04, box["y"] + 10)
    page.mouse.up()
    expect(page.locator("#count")).to_contain_text("1 of 10")


def test_a_screen_reader_is_told_names_roles_and_states(open_report, small) -> None:
    page = open_report(small)
    row(page, "make all").click()
    tree = page.locator("body").aria_snapshot()
    assert not NAMELESS.findall(tree), tree
    for expected in (
        'treegrid "Events"',
        'slider "Shown from"',
        'searchbox "Search',
        'region "make all"',
        'group "Show only"',
    ):
        assert expected in tree, tree
    assert re.search(
        r'row "command make all exit 2 .*began after 2\.\d+ s, took 1\.50 s, of which it waited 900 ms"', tree
    )
    grid = page.get_by_role("treegrid")
    expect(grid).to_have_attribute("aria-rowcount", "10")
    assert page.locator("[tabindex='0'].row").count() == 1
    assert page.evaluate("document.documentElement.lang") == "en"


def test_the_details_cover_a_narrow_page_and_give_the_focus_back(open_report, small) -> None:
    page = open_report(small, width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    row(page, "make all").click()
    close = page.get_by_role("button", name="Close the details")
    expect(close).to_be_focused()
    assert page.locator("#details").bounding_box()["width"] == 400
    page.keyboard.press("Shift+Tab")
    assert not page.evaluate("!!document.activeElement.closest('.events, .toolbar')")
    close.click()
    expect(focused_row(page)).to_contain_text("make all")


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(page: Page, front: str, ground: str) -> float:
    shades = page.evaluate(
        """(names) => names.map((name) => {
          const probe = document.body.appendChild(document.createElement("i"));
          probe.style.color = `var(--${name})`;
          const { color } = getComputedStyle(probe);
          probe.remove();
          return color;
        })""",
        [front, ground],
    )
    dark, light = sorted(map(luminance, shades))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_systems_theme_with_enough_contrast(open_report, small, scheme) -> None:
    page = open_report(small, scheme=scheme)
    ground = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert ground > 0.9 if scheme == "light" else ground < 0.05
    for text in ("ink", "ink-soft", "accent", "bad", "unsure"):
        for behind in ("ground", "raised"):
            assert contrast(page, text, behind) >= 4.5, (text, behind)
    assert contrast(page, "bad", "bad-ground") >= 4.5
    assert contrast(page, "unsure", "unsure-ground") >= 4.5
    for bar in ("script", "tool_call", "command", "process", "transfer", "file", "start", "other", "waiting"):
        assert contrast(page, bar, "ground") >= 3, bar


def test_the_theme_can_be_chosen_and_is_remembered(open_report, small) -> None:
    page = open_report(small)
    page.get_by_role("radio", name="Dark").check(force=True)
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.05
    page.get_by_role("radio", name="Dark").focus()
    page.keyboard.press("ArrowLeft")
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 0.9
    page.get_by_role("radio", name="Dark").check(force=True)
    open_report(small)
    expect(page.get_by_role("radio", name="Dark")).to_be_checked()
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.05


def test_hostile_text_is_text_and_shows_what_it_hides(open_report, record) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202eevil\x00\x1b]0;title\x07"
    record.begin_run(program=hostile, host=hostile)
    told = {"output": f"\x1b[31mred\x1b[0m {hostile}", "error": hostile, "status": "<b>odd</b>", hostile: hostile}
    record.whole("command", hostile, 1.0, 1.0, command=f"{hostile}\n", backend=hostile, ended=told)
    record.whole("<i>kind", "other", 1.0, 1.0, arguments={hostile: hostile})
    page = open_report(record)
    expect(row(page, "alert(1)")).to_contain_text("<img src=x onerror=alert(2)>U+202Eevil␀␛]0;title␇")
    row(page, "alert(1)").click()
    output = page.get_by_role("region", name="Output")
    expect(output.locator(".sgr-31")).to_have_text("red")
    expect(output).to_contain_text("</script><script>alert(1)</script>")
    assert page.locator("img, b:text('odd'), #details i:text('kind')").count() == 0
    page.get_by_role("searchbox").fill("<script>")
    expect(page.locator(".row mark").first).to_have_text("<script>")


def write_many(record) -> None:
    record.begin_run()
    for step in range(100):
        script = record.begin("script", f"step {step}", step * 10.0, script="pass\n")
        for call in range(99):
            told = {"status": "error" if call == 50 else "success", "result": {"output": f"line {step}-{call}\n"}}
            arguments = {"command": f"echo {step} {call}"}
            at = step * 10.0 + call * 0.05
            record.whole(
                "tool_call", f"call {step}-{call}", at, 0.04, script, tool="terminal", arguments=arguments, ended=told
            )
        record.end(script, step * 10.0 + 5, 5.0, exit_code=0)


def test_ten_thousand_events_are_as_easy_as_ten(open_report, record) -> None:
    write_many(record)
    page = open_report(record)
    expect(page.locator("#count")).to_have_text("10,000 events")
    assert page.locator(".row").count() < 60
    row(page, "step 0").focus()
    page.keyboard.press("End")
    expect(focused_row(page)).to_contain_text("call 99-98")
    assert page.locator(".row").count() < 60
    page.get_by_role("searchbox").fill("line 57-31")
    expect(page.locator("#count")).to_have_text("1 of 10,000 events")
    expect_names(page, ["step 57", "call 57-31"])
    page.get_by_role("searchbox").fill("")
    page.get_by_role("button", name="Failed 100").click()
    expect(page.locator("#count")).to_have_text("100 of 10,000 events")
    page.mouse.move(300, 600)
    page.mouse.wheel(0, 3000)
    expect(row(page, "step 60")).to_be_visible()


def test_idle_time_is_folded_and_unfolded(open_report, record) -> None:
    record.begin_run()
    for number in range(3):
        record.whole("command", f"command {number}", number * 3600.0, 1.0)
    page = open_report(record)
    fold = page.get_by_role("button", name="Fold idle time")
    expect(fold).to_have_attribute("aria-pressed", "true")
    wide = row(page, "command 1").locator(".ran").bounding_box()["width"]
    assert wide > 50
    fold.click()
    expect(fold).to_have_attribute("aria-pressed", "false")
    assert row(page, "command 1").locator(".ran").bounding_box()["width"] < 5


def test_several_runs_are_shown_together_or_one_by_one(open_report, record) -> None:
    for number in range(3):
        record.begin_run(number * 60.0, run=f"run{number}", program=f"program {number}")
        record.whole("command", f"command {number}", number * 60.0 + 1, 2.0)
    page = open_report(record)
    expect_names(
        page, [text for number in range(3) for text in (re.compile(rf"program {number} .*4711"), f"command {number}")]
    )
    page.get_by_role("combobox", name="Run").select_option(index=2)
    expect_names(page, ["command 1"])


def test_an_address_leads_to_its_event(open_report, small) -> None:
    page = open_report(small, "#e4")
    expect(page.get_by_role("region", name="git log")).to_be_visible()
    expect(page.locator(".row[aria-selected='true']")).to_have_attribute("aria-level", "3")
    page.get_by_role("button", name="tool terminal").click()
    assert page.evaluate("location.hash") == "#e3"


def test_a_record_without_events_is_a_page_still(open_report, record) -> None:
    record.begin_run()
    page = open_report(record)
    expect(page.locator("#count")).to_have_text("0 events")
