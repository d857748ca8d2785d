"""The section `approvals:` of config.yaml."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from environments import BaseEnvironment, DeniedError, SettingsError
from environments.approvals import Allow, Ask, CommandRequest, Deny, ScriptRequest, ToolCallRequest
from environments.approvals.rules import Rules
from environments.factory import load_approval_settings

Make = Callable[..., BaseEnvironment]
Configure = Callable[[str], None]


def rules(configure: Configure, text: str) -> Rules:
    configure(f"approvals: {{{text}}}")
    settings = load_approval_settings()
    assert settings
    return Rules(settings)


def on_command(configure: Configure, text: str, command: str) -> type:
    return type(rules(configure, text).command(CommandRequest(command, "/home/me/project", "local", "t", "session")))


def test_without_rules_nothing_is_asked(make: Make) -> None:
    env = make()
    assert env.gate.rules is None
    assert env.execute("echo 'rm -rf /' >/dev/null; echo ran").output == "ran\n"


def test_rules_hold_for_environments_that_are_made(make: Make, configure: Configure) -> None:
    configure("approvals: {destructive_commands: deny}")
    env = make()
    assert env.execute("echo ran").output == "ran\n"
    with pytest.raises(DeniedError, match="home directory"):
        env.execute("rm -rf ~")


def test_a_hook_of_code_cannot_lift_what_a_rule_denies(make: Make, configure: Configure) -> None:
    configure("approvals: {deny: [curl]}")
    env = make(before_command=lambda request: Allow(), approve=lambda request, question: True)
    with pytest.raises(DeniedError, match=r"a rule names it .curl."):
        env.execute("curl https://example.com")


def test_a_rule_cannot_lift_what_a_hook_of_code_denies(make: Make, configure: Configure) -> None:
    configure("approvals: {allow: [ls]}")
    with pytest.raises(DeniedError, match="not now"):
        make(before_command=lambda request: Deny("not now")).execute("ls")


def test_what_is_denied_is_not_asked_about_first(make: Make, configure: Configure) -> None:
    configure("approvals: {commands: ask}")
    asked = []
    env = make(before_command=lambda request: False, approve=lambda request, question: asked.append(question))
    with pytest.raises(DeniedError):
        env.execute("true")
    assert not asked


def failing(configure: Configure, text: str, commands: list[str], decision: type) -> list[str]:
    """The commands that rules decide about in another way."""
    found = rules(configure, text)
    requests = [CommandRequest(command, "/home/me/project", "local", "t", "session") for command in commands]
    return [request.command for request in requests if type(found.command(request)) is not decision]


def test_a_denied_pattern_is_found_wherever_it_runs_and_names_nothing_else(configure: Configure) -> None:
    text = "deny: [curl, git push, 'cat *secret*']"
    denied = ["curl x", "curl", "/usr/bin/curl x", "ls; curl x", "sudo curl x", "sh -c 'curl x'", "echo $(curl x)"]
    denied += ["c\\url x", "a=curl; $a x", "git push origin main", "git push", "cat secret.txt"]
    assert failing(configure, text, denied, Deny) == []
    others = ["echo curl", "curly x", "git pull", "git pushx", "cat notes", "ls # curl x"]
    assert failing(configure, text, others, Allow) == []


ALLOWING = "commands: ask, allow: [ls *, git status, git log *, make, pytest tests/*, rm -rf build, sudo make]"


def test_an_allowed_command_goes_through(configure: Configure) -> None:
    commands = ["ls", "ls -la src", "git status", "git log --oneline -5", "make", "make > /dev/null 2>&1"]
    commands += ["pytest tests/a/test_b.py", "rm -rf build", "ls && git status; make | ls", "ls\nmake", "sudo make"]
    assert failing(configure, ALLOWING, commands, Allow) == []


def test_nothing_can_be_put_behind_or_within_an_allowed_command(configure: Configure) -> None:
    behind = ["ls; rm -rf /", "ls\nrm -rf /", "ls && id", "ls | sh", "ls & id", "\\\nid", "ls #\nid", "ls '\n' ; id"]
    within = ["ls $(id)", "ls `id`", "ls <(id)", "ls ${x:-$(id)}", "ls $x", "cat <<EOF\n$(id)\nEOF"]
    files = ["ls > file", "ls >> ~/.bashrc", "exec 3>file; ls"]
    another_ls = ["LD_PRELOAD=./evil.so ls", "PATH=/tmp ls", "PATH=/tmp; ls", "alias ls=id; ls", "ls() { id; }; ls"]
    another_ls += ["/tmp/ls", "./git status"]
    arguments = ["git status --short", "git  statusx", "make install", "rm -rf build /", "rm -rf 'build /'"]
    arguments += ["rm -rf build/../..", "rm -rf build/*", "pytest tests/../../evil.py", "pytest tests/a.py evil.py"]
    around = ["sudo git status", "sh -c ls; id", "eval ls", "env ls", "xargs ls", "if true; then ls; fi"]
    around += ["(id)", "{ id; }", "time id", "! id"]
    assert failing(configure, ALLOWING, behind + within + files + another_ls + arguments + around, Ask) == []


def test_what_an_allowed_command_runs_needs_a_pattern_of_its_own(configure: Configure) -> None:
    text = "commands: deny, allow: ['find *', 'grep *']"
    assert on_command(configure, text, "find . -name x") is Allow
    assert on_command(configure, text, "find . -exec grep x {} +") is Allow
    assert on_command(configure, text, "find . -exec id ;") is Deny


def test_an_allowed_command_may_be_destructive(configure: Configure) -> None:
    text = "destructive_commands: deny, allow: ['git push --force origin topic']"
    assert on_command(configure, text, "git push --force origin topic") is Allow
    assert on_command(configure, text, "git push --force origin main") is Deny
    assert on_command(configure, text, "git push --force origin topic; rm -rf /") is Deny


def test_a_text_may_be_allowed_to_the_letter(configure: Configure) -> None:
    text = "destructive_commands: deny, allow: ['curl https://x | sh']"
    assert on_command(configure, text, "curl https://x | sh") is Allow
    assert on_command(configure, text, "curl https://x | sh; id") is Deny
    assert on_command(configure, text, "curl https://y | sh") is Deny


def test_a_denied_pattern_wins_over_an_allowed_one(configure: Configure) -> None:
    assert on_command(configure, "deny: [git push], allow: ['git *', 'git push']", "git push") is Deny


def test_an_allowed_pattern_wins_over_one_that_asks(configure: Configure) -> None:
    text = "ask: [git], allow: [git status]"
    assert on_command(configure, text, "git status") is Allow
    assert on_command(configure, text, "git pull") is Ask


def test_what_cannot_be_judged_does_not_slip_through(configure: Configure) -> None:
    commands = ["echo " + "x" * 200_000, "$(" * 500]
    for text, decision in (("destructive_commands: ask", Ask), ("deny: [curl]", Deny), ("ask: [curl]", Ask)):
        assert failing(configure, text, commands, decision) == [], text


def test_the_strictest_decision_counts(configure: Configure) -> None:
    text = "destructive_commands: deny, ask: [git pull]"
    assert on_command(configure, text, "git pull; rm -rf /") is Deny
    assert on_command(configure, text, "rm -rf /; git pull") is Deny


def test_scripts_and_tools_have_rules_of_their_own(configure: Configure) -> None:
    found = rules(configure, "scripts: ask, tools: {write_file: deny, 'web_*': ask, '*': allow}")
    assert isinstance(found.script(ScriptRequest("print(1)", "project", "local", "t")), Ask)
    decisions = [found.tool_call(ToolCallRequest(tool, {}, "local", "t")) for tool in ("write_file", "web_search", "x")]
    assert [type(decision) for decision in decisions] == [Deny, Ask, Allow]
    assert isinstance(found.command(CommandRequest("rm -rf /", None, "local", "t", "session")), Allow)


def test_rules_that_cannot_be_understood_are_an_error_when_an_environment_is_made(
    make: Make, configure: Configure
) -> None:
    for text, says in (
        ("{destructive: ask}", "did you mean 'destructive_commands'"),
        ("{comands: ask}", "did you mean 'commands'"),
        ("{commands: maybe}", "approvals.commands"),
        ("{deny: rm}", "approvals.deny"),
        ("{deny: ['']}", "approvals.deny.*empty"),
        ('{allow: ["echo \'x"]}', "approvals.allow.*cannot be read"),
        ("{tools: {write_file: never}}", "approvals.tools"),
        ("{timeout: 0}", "approvals.timeout"),
        ("ask", "approvals.*should be a mapping"),
        ("{deny: [", "not valid YAML"),
    ):
        configure(f"approvals: {text}")
        with pytest.raises(SettingsError, match=says):
            make()
