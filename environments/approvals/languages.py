"""Interpreters with program text in a command, such as `python -c`, `perl -e`, `awk` and `sed`, and its shell commands.

Calls are found by name. Literal arguments become nested commands; a call with other arguments is a reason to ask.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from environments.approvals.command import (
    INPUT,
    RUNS_DOWNLOAD,
    UNKNOWN,
    UNSEEN,
    Command,
    Nested,
    Options,
    Redirect,
    Word,
    word_set,
)
from environments.approvals.paths import secret

_LANGUAGES: Mapping[str, tuple[str, str]] = {
    program: (codes, valued)
    for programs, codes, valued in (
        ("python pypy ipython ipython3 micropython jython", "-c", "-m -W -X"),
        ("perl", "-e -E", "-I -M -m"),
        ("ruby jruby chef-apply", "-e", "-r -I"),
        ("node nodejs bun deno tsx ts-node zx mongosh mongo", "-e -pe --eval -p --print", "-r --require"),
        ("php", "-r -B -E -R", "-d -f"),
        ("lua luajit texlua", "-e", "-l"),
        ("elixir", "-e --eval", ""),
    )
    for program in programs.split()
}
"""Interpreters: options followed by program text, and options followed by another value."""
_SUBCOMMANDS = word_set("run eval e exec script")
_RUNNING_MODULES = word_set("timeit IPython code pdb cProfile")
_AWKS = word_set("awk gawk mawk nawk")
_SHELL_CALLS = word_set(
    """
    system popen popen2 popen3 shell_exec passthru proc_open execSync execFile execFileSync spawnSync check_call
    check_output getoutput getstatusoutput Popen execl execle execlp execv execve execvp execvpe spawnl spawnlp
    spawnv spawnvp posix_spawn posix_spawnp capture2 capture2e capture3 create_subprocess_shell create_subprocess_exec
    """
)
_WITH_MODULE = word_set("run call exec spawn shell sh command Command cmd EXEC")
"""Names of calls that run programs if the text uses a module below, and otherwise have many meanings."""
_MODULES = re.compile(r"subprocess|child_process|invoke|Bun\b|Deno\.|plumbum|fabric|\bpty\b|shelljs|execa|System\.cmd")
_BARE = word_set("perl ruby chef-apply php elixir lua")
_BARE_CALLS = word_set("perl ruby")
_EVALUATES = word_set(
    "eval exec instance_eval class_eval execfile loadstring runInThisContext runInNewContext Function"
)
_REMOVES = word_set("rmtree remove_tree rm_rf rm_r rmSync rmdirSync rimraf removeSync remove_dir remove_entry")
_UNLINKS = word_set("remove unlink unlinkSync rm removedirs")
_COPIES = dict.fromkeys(("copy", "copy2", "copyfile", "copyFileSync"), "cp") | dict.fromkeys(
    ("move", "rename", "renameSync"), "mv"
)
_WRITES = word_set(
    "writeFileSync writeFile appendFileSync appendFile file_put_contents write_text write_bytes write fopen open Path"
)
_TEMPORARY_DIRECTORY = re.compile(r"mkdtemp|TemporaryDirectory|mktmpdir|tempdir|tmp_path")
_HOME = re.compile(r"expanduser|home\(\)|homedir|\bHOME\b")
_FORKS = re.compile(r"\bfork\b")
_FOREVER = re.compile(r"\bwhile\b|\bfor\s*\(\s*;|\bloop\b|\buntil\b|\biter\(int|\b(?:count|cycle|repeat)\(")
_KILLS_ALL = re.compile(r"\bkill(?:pg)?\s*\(?\s*(?:-1\s*,|['\"]?-?\w+['\"]?\s*,\s*-1\b)")
_CONNECTS = re.compile(
    r"\bsocket\b|fsockopen|TCPSocket|/inet/|net\.(?:connect|Socket)|IO::Socket|socket\.tcp|require\(.(?:node:)?(?:net|tls)\b"
)
_GIVES_SHELL = re.compile(
    r"dup2|pty\.spawn|/bin/(?:ba|z|da)?sh|\bsh -i|\bsh\s*[<>]&|fdopen|cmd\.exe|spawn\(\s*['\"](?:ba|z|da)?sh\b"
)
_TERMINAL = re.compile(r"pty\.spawn\(\s*\[?\s*['\"](?:/\w+)*/?(?:ba|z|da)?sh['\"]\s*[\])]")
_SENDS = re.compile(
    r"urlopen|requests\.|httpx|aiohttp|http\.client|HTTP|\bfetch\(|axios|https?\.(?:request|get)\(|LWP|/inet/|https?://|smtplib"
    r"|\bsocket\b|fsockopen"
)
_ENVIRONMENT = re.compile(
    r"\bos\.environ\b(?!\s*(?:\[|\.get\b|\.setdefault))|process\.env\b(?!\s*[\[.])|%ENV\b|\bENV\.(?:to_|inspect|map|each)"
    r"|\$_(?:ENV|SERVER)\b(?!\s*\[)|\bgetenv\(\s*\)"
)
_WALKS = re.compile(
    r"glob|\bwalk|scandir|iterdir|listdir|readdir|opendir|children|\bfind|Dir\b|Directory|shelljs|rimraf"
)
REMOVING = re.compile(
    r"unlink|delete-directory|rm_?rf|\brm\b|rimraf|rmdir|rmtree|\bdelete(?:Dir|Recursively)?!?\s*\(|\bremove\w*!?\s*\("
    r"|del_dir|RemoveAll|remove(?:Item|Directory|Path)"
)
_PLACE = re.compile(r"(?:/|~)[\w./*~-]*")
_TOKEN = re.compile(
    r"(?P<comment>\#[^\n]*|//[^\n]*|(?>/\*.{0,2000}?\*/))?(?P<prefix>[fFrRbBuU]{0,2})"
    r"(?P<string>'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`\\]|\\.)*`|(?:\bqx|%x)[{(\[][^})\]]*[})\]])"
    r"|(?P<hidden>(?<![$\w&{])\#[^\n]*)|(?P<name>[A-Za-z_$@]\w*)|(?P<number>-?\d+)|(?P<space>[ \t\r]+)|(?P<sign>.|\n)",
    re.DOTALL,
)
_ESCAPES = re.compile(r"\\(x[0-9a-fA-F]{2}|[0-7]{3}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_INTERPOLATED = re.compile(r"[$@]\w+(?:->)?(?:[\[{][^\]}]{0,200}[\]}])*")
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "0": ""}
_MAX_PROGRAM = 50_000
_REWRITES: Mapping[re.Pattern[str], str] = {
    re.compile(r"\bsys\.executable\b"): "'python3'",
    re.compile(r"\bprocess\.execPath\b"): "'node'",
    re.compile(r"\bos\.execute\b"): "os.system",
    re.compile(r"\{\s*args\s*:\s*(\[[^\]]{0,500}\])[^}]{0,200}\}"): r"\1",
}
"""Rewritten forms, applied before a program is split into tokens."""
_BY_NAME = re.compile(r"getattr|__dict__|vars\(")
_QUOTING = word_set("split shlex my raw String glob")
"""Names of functions that split or quote their argument."""
_RUNS_UNKNOWN = f"{UNSEEN}: a program runs commands made at run time"
_DOWNLOADERS = word_set(
    "curl wget fetch aria2c axel http https xh lynx w3m nc ncat netcat socat telnet ftp sftp scp rsync ssh s3cmd gsutil"
    " aws gh ipfs"
)
_READ_FILES = word_set("cat grep head tail sort uniq")
_Token = tuple[str, str]


def embedded_commands(command: Command) -> Nested | None:
    """Return the commands in the program text of an interpreter; None for other programs."""
    name = command.name
    if name in ("sed", "gsed"):
        return _sed_commands(command)
    if name in _LANGUAGES:
        return _interpreted(command)
    if name in _AWKS:
        options = Options.of(command.args, ("-F", "-v", "-f", "-i", "--file", "--assign"), stop_at_operand=True)
        if file := options.value("-f", "--file"):
            return _program_file(command, file)
        return _program_commands(options.operands[0].text, command) if options.operands else None
    return None


def _program_file(command: Command, path: str) -> Nested:
    """Return the commands in a program file: standard input, or the output of commands."""
    if path in INPUT:
        return _commands_of_output(command, command.producers, command.stdin_text)
    feeding = tuple(fed for word in command.args if word.text.endswith(path) for fed in word.producers)
    return _commands_of_output(command, feeding, _printed(feeding)) if feeding else Nested()


def _interpreted(command: Command) -> Nested:
    given, valued = (text.split() for text in _LANGUAGES[command.name])
    options = Options.of(command.args, (*given, *valued), stop_at_operand=True)
    codes = [value for option, value in options.values if option in given]
    if command.name == "deno":
        codes = [value for option, value in pairwise(command.texts) if option in (*given, "eval", "e")]
    if options.value("-m") in _RUNNING_MODULES:
        codes += [text for text in command.texts if not text.startswith("-") and text not in _RUNNING_MODULES]
    if codes:
        return _program_argument("\n".join(codes), command)
    operand = next(iter(options.operands), None)
    if operand and operand.producers:
        return _commands_of_output(command, operand.producers, _printed(operand.producers))
    if operand and operand.text in _SUBCOMMANDS:
        operand = next(iter(options.operands[1:]), None)
    if (options.value("-m") and options.value("-m") != "code") or (operand and operand.text not in INPUT):
        return Nested()
    return _commands_of_output(command, command.producers, command.stdin_text)


def _program_argument(code: str, command: Command) -> Nested:
    if code.startswith("!"):  # of IPython
        return Nested(texts=(code[1:],))
    if code.lstrip().startswith(UNKNOWN):
        feeding = tuple(fed for word in command.args for fed in word.producers)
        reason = reason_against_output(feeding, "a program") if feeding else f"{UNSEEN}: a program is made at run time"
        return Nested(reasons=(reason,) if reason else ())
    return _program_commands(code, command)


def _command(command: Command, *texts: str) -> Command:
    """Return a nested command of literal words."""
    made = tuple(Word(text, glob="*" in text) for text in texts)
    return Command(made, directory=command.directory, start=command.start, is_nested=True)


def _printed(feeding: Sequence[Command]) -> str | None:
    texts = [one.stdout_text for one in feeding]
    return None if None in texts else "".join(text or "" for text in texts)


def _commands_of_output(command: Command, feeding: Sequence[Command], given: str | None) -> Nested:
    if given is not None:
        return _program_commands(given, command)
    reason = reason_against_output(feeding, "a program") if feeding else ""
    return Nested(reasons=(reason,) if reason else ())


def reason_against_output(feeding: Sequence[Command], what: str) -> str:
    """Return the reason against running the output of commands; empty for contents of files."""
    if is_download(feeding):
        return RUNS_DOWNLOAD
    return "" if is_file_output(feeding) else f"{UNSEEN}: {what} is made at run time"


def is_file_output(commands: Sequence[Command]) -> bool:
    """Return True if all output of commands is known, or is the contents of files."""
    return all(one.name in _READ_FILES and not one.producers for one in commands if one.stdout_text is None)


def is_download(commands: Sequence[Command]) -> bool:
    """Return True if a download is among the commands or their producers."""
    left, steps = list(commands), 0
    while left and steps < 100:
        one, steps = left.pop(), steps + 1
        if one.stdout_text is None and one.name in _DOWNLOADERS:
            return True
        left += [*one.producers, *(fed for word in one.words for fed in word.producers)]
    return False


# Programs of calls.


def _program_commands(code: str, command: Command) -> Nested:
    if len(code) > _MAX_PROGRAM:
        return Nested(reasons=(f"{UNSEEN}: a program is too long",))
    for pattern, plain in _REWRITES.items():
        code = pattern.sub(plain, code)
    program = _Program(command, code)
    program.read()
    return Nested(tuple(program.commands), tuple(program.texts), tuple(dict.fromkeys(program.reasons)))


def _tokens(code: str, language: str) -> Iterator[_Token]:
    """Split a program into tokens, without blanks and comments."""
    slashes = language in ("node", "nodejs", "bun", "deno", "php", "groovy", "scala", "jshell")
    for found in _TOKEN.finditer(code):
        kind = found.lastgroup or "sign"
        text = found[kind]
        if found["comment"] and not (found["comment"].startswith("#") or slashes):
            yield "sign", "/"
        if kind == "string":
            is_shell = text[:1] in "q%" or (text.startswith("`") and language in ("perl", "ruby", "php", "julia"))
            yield "shell" if is_shell else "string", _plain(text, found["prefix"].lower(), language)
        elif kind not in ("space", "hidden"):
            yield kind, text


def _plain(text: str, prefix: str, language: str) -> str:
    """Return the text of a literal; an interpolation or a numeric escape is UNKNOWN."""
    begins, ends = (3, -1) if text.startswith("qx") else (3, -3) if text[:3] in ("'''", '"""') else (1, -1)
    inner = text[3 if text.startswith("%x") else begins : ends]
    if "r" not in prefix:
        inner = _ESCAPES.sub(lambda found: _NAMED.get(found[1], UNKNOWN if found[0][2:] else found[1]), inner)
    if "f" in prefix:
        inner = re.sub(r"\{[^{}]*\}", UNKNOWN, inner)
    if text.startswith("'"):
        return inner
    inner = re.sub(r"[$#]\{[^{}]*\}", UNKNOWN, inner)
    return _INTERPOLATED.sub(UNKNOWN, inner) if language in ("perl", "php") and not text.startswith("`") else inner


class _Program:
    """Collects the commands that a program runs."""

    def __init__(self, command: Command, code: str) -> None:
        self.commands: list[Command] = []
        self.texts: list[str] = []
        self.reasons: list[str] = []
        self._at = _command(command)
        self._language = command.name
        self._code = code
        self._tokens = [*_tokens(code, command.name), ("", ""), ("", "")]
        self._literals = [text for kind, text in self._tokens if kind == "string"]

    def read(self) -> None:
        """Collect the commands of all calls."""
        self._match_whole_program()
        calls = _SHELL_CALLS | _REMOVES | (_WITH_MODULE if _MODULES.search(self._code) else frozenset())
        for at, (kind, text) in enumerate(self._tokens[:-2]):
            behind = self._tokens[at + 1][1]
            before = self._tokens[at - 1][1] if at else ""
            if kind == "shell" or (text == "$" and self._tokens[at + 1][0] == "string"):
                self.texts.append(text if kind == "shell" else behind)
            elif text in calls and self._is_aliased(kind, before, behind):
                self.reasons.append(_RUNS_UNKNOWN)
            elif kind == "name":
                self._call(at, text)
            elif self._language in _AWKS and kind == "sign" and text in "|>":
                self._read_awk_pipe(at, text)

    def _match_whole_program(self) -> None:
        code = self._code
        if _KILLS_ALL.search(code):
            self._add_command("kill", "-9", "-1")
        if _FORKS.search(code) and _FOREVER.search(code):
            self.reasons.append("it is a fork bomb: a program that starts itself over and over")
        if (_CONNECTS.search(code) and _GIVES_SHELL.search(code)) or _TERMINAL.search(code):
            self.reasons.append("it gives a shell to a connection")
        if _SENDS.search(code):
            paths = (text for text in self._literals if "/" in text or text.startswith("."))
            found = [one for path in paths if (one := secret(Word(path), self._at))]
            found = ["the environment"] if _ENVIRONMENT.search(code) else found
            self.reasons += [f"it sends secrets elsewhere ({one})" for one in found]
        if _WALKS.search(code) and REMOVING.search(code):
            for place in filter(_PLACE.fullmatch, self._literals):
                self._add_command("rm", "-rf", place.rstrip("*") if place.strip("/*") == "" else place)

    def _add_command(self, *texts: str) -> None:
        self.commands.append(_command(self._at, *texts))

    def _add_written(self, path: str) -> None:
        """Add a written file; for a path made at run time, each literal path of the program at the root."""
        paths = [text for text in self._literals if text[:1] in ("/", "~")] if path.startswith(UNKNOWN) else [path]
        self.commands += [replace(self._at, redirects=(Redirect(">", Word(one)),)) for one in paths]

    def _is_aliased(self, kind: str, before: str, behind: str) -> bool:
        """Return True if a function is assigned or passed on without a call."""
        if kind == "string":
            return bool(_BY_NAME.search(self._code))
        handed_on = before in (".", ":") and behind in ("", ";", "\n", ",", ")", "]")
        return handed_on or behind == "as" or (behind == ":" and before in ("{", ","))

    def _read_awk_pipe(self, at: int, sign: str) -> None:
        """Read `"cmd" | getline`, `print | "cmd"`, `print > "file"` of awk."""
        before = self._tokens[at - 1] if at else ("", "")
        kind, behind = self._tokens[at + 1 + (self._tokens[at + 1][1] == "&")]
        if "/inet" in (before[1][:5], behind[:5]) or "|" in (before[1], behind):
            return
        if sign == ">":
            if kind == "string" or (kind == "name" and before[0] == "string"):
                self._add_written(behind if kind == "string" else UNKNOWN)
        elif kind == "string":
            self.texts.append(f"echo {shlex.quote(before[1])} | {behind}" if before[0] == "string" else behind)
        elif behind == "getline" and before[0] == "string":
            self.texts.append(before[1])
        elif kind == "name" or behind == "$":
            self.reasons.append(_RUNS_UNKNOWN)

    def _call(self, at: int, name: str) -> None:
        kind, behind = self._tokens[at + 1]
        bare = self._language in _BARE_CALLS and name in (_SHELL_CALLS | _UNLINKS | {"open", "exec", "spawn", "run"})
        if behind != "(" and kind not in ("string", "shell") and not (bare and (kind == "name" or behind in "%*@${<")):
            return
        dotted = at > 0 and self._tokens[at - 1][1] in (".", ">", ":")
        module = self._tokens[at - 2][1] if dotted and at > 1 else ""
        arguments = self._arguments(at)
        first = arguments[0] if arguments else ""
        if (name.startswith("@") and self._language in _AWKS) or (name == "getattr" and _SHELL_CALLS & set(arguments)):
            self.reasons.append(_RUNS_UNKNOWN)
        elif name in _SHELL_CALLS or (name in _WITH_MODULE and self._is_shell(name, module, dotted=dotted)):
            self._shell(arguments, name)
        elif name in _EVALUATES and not dotted:
            self._evaluate(first, self._tokens[at + 2][1])
        elif name in _REMOVES or (name == "rm" and "recursive" in self._code):
            self._remove(at, first)
        elif name in _UNLINKS or (name == "delete" and module == "File"):
            self._add_command("rm", "-f", *[text for text in arguments[:1] if not text.startswith(UNKNOWN)])
        elif name in _COPIES and module in ("shutil", "os", "fs", "FileUtils", "File"):
            self._add_command(_COPIES[name], *arguments[:2])
        elif name in _WRITES:
            self._open(name, module, arguments, at)

    def _is_shell(self, name: str, module: str, *, dotted: bool) -> bool:
        """Return True if a call of a common name runs a program: `subprocess.run`, but not `asyncio.run`."""
        if module in ("asyncio", "uvicorn", "app", "re"):
            return False
        if name in ("exec", "spawn", "run", "shell") and self._language in _BARE:
            return True
        evaluates = name == "exec" and not dotted and self._language in ("python", "pypy")
        return bool(_MODULES.search(self._code)) and not evaluates

    def _shell(self, arguments: list[str], name: str) -> None:
        replaces = name.startswith(("exec", "spawn", "posix_spawn"))
        if replaces and len(arguments) > 2 and re.fullmatch(rf"{UNKNOWN}|\d+", arguments[0]):
            arguments = arguments[1:]  # os.P_WAIT
        first = arguments[0] if arguments else ""
        if first.startswith(UNKNOWN):
            self.reasons.append(_RUNS_UNKNOWN)
        elif len(arguments) == 1 or " " in first.strip():
            self.texts.append(first)
        elif arguments:
            is_name = replaces and posixpath.basename(arguments[1]) == posixpath.basename(first)
            self._add_command(first, *arguments[2 if is_name else 1 :])

    def _evaluate(self, first: str, begins: str) -> None:
        if begins in ("open", "compile", "Path", "File", "fs"):
            return  # same as running the file
        if first.startswith(UNKNOWN):
            self.reasons.append(_RUNS_UNKNOWN)
        elif len(first) < len(self._code):
            inner = _program_commands(first, _command(self._at, self._language))
            self.commands += inner.commands
            self.texts += inner.texts
            self.reasons += inner.reasons

    def _remove(self, at: int, first: str) -> None:
        if _HOME.search("".join(text for _, text in self._tokens[at + 1 : at + 20])):
            first = "~"
        if first and not (first.startswith(UNKNOWN) and _TEMPORARY_DIRECTORY.search(self._code)):
            self._add_command("rm", "-rf", UNKNOWN if first.startswith(UNKNOWN) else first)

    def _open(self, name: str, module: str, arguments: list[str], at: int) -> None:
        first = arguments[0] if arguments else UNKNOWN
        if self._language in _BARE_CALLS and name == "open":
            self.texts += [one.strip("| ") for one in arguments if "|" in (one[:1], one[-1:]) and one.strip("|-")]
            if signs := [place for place, one in enumerate(arguments) if one in ("|-", "-|")]:
                self._shell(arguments[1 + signs[0] :], name)
        if name in ("open", "fopen"):
            modes = [text for text in arguments[1:] if re.fullmatch(r"[+>]*[wax>][bt+]*", text)]
            piped = next((text.strip("> ") for text in arguments if text.startswith(">") and len(text) > 2), "")
            if modes or piped:
                self._add_written(piped or (arguments[-1] if ">" in modes else first))
        elif name == "Path":
            ahead = "".join(text for _, text in self._tokens[at : at + 8])
            if ".write_" in ahead or ".open('w" in ahead:
                self._add_written(first)
        elif name != "write" or module in ("File", "IO"):
            self._add_written(first)

    def _arguments(self, at: int) -> list[str]:
        """Return the arguments of a call as texts, with lists flattened; a computed part is UNKNOWN."""
        enclosed = self._tokens[at + 1][1] == "("
        elements: list[str] = []
        text: str | None = None
        nested = skipped = 0
        for place in range(at + 1 + enclosed, min(at + 400, len(self._tokens) - 1)):
            kind, sign = self._tokens[place]
            if skipped:
                skipped += (kind == "sign") * ((sign in ("(", "{")) - (sign in (")", "}")))
            elif kind in ("string", "shell", "number"):
                text = (text or "") + sign
            elif kind == "name":
                if self._tokens[place + 1][1] == "=" and text is None:
                    break  # keyword arguments come behind the positional ones
                text = text if sign in _QUOTING else (text or "") + UNKNOWN
            elif sign == ",":
                elements += [text] if text is not None else []
                text = None
            elif sign == "{" or (sign == "(" and text is not None):
                skipped = 1
            elif sign in ("[", "(", "]", ")"):
                nested += 1 if sign in ("[", "(") else -1
                if nested < 0:
                    break
            elif sign in (";", "\n", "}") and not enclosed and not nested:
                break
            elif sign in ("?", "%", "*", "$") and text != UNKNOWN:
                text = (text or "") + UNKNOWN
        return [*elements, *([text] if text is not None else [])]


# sed.

_ADDRESS = r"(?:^|[;\n{}])\s*(?:(?:\d+|\$|/(?:\\.|[^/\\\n])*/)(?:,[+~]?(?:\d+|\$|/(?:\\.|[^/\\\n])*/))?\s*!?\s*)?"
_SED_RUNS = re.compile(_ADDRESS + r"e(?:[ \t]+([^\n]*)|\s*(?=[;}\n]|$))")
_SED_WRITES = re.compile(_ADDRESS + r"[wW][ \t]*([^\s;}]+)")
_SED_TEXT = r"(?:\\.|(?!\1)[^\\])*\1"
_SED_REPLACES = re.compile(
    _ADDRESS + rf"s([^\w\s\\]){_SED_TEXT}{_SED_TEXT}[gpimIM\d]*(?:(e)|w[ \t]*([^\s;}}]+))", re.DOTALL
)


def _sed_commands(command: Command) -> Nested:
    options = Options.of(command.args, ("-e", "--expression", "-f", "--file", "-l"))
    scripts = [value for option, value in options.values if option in ("-e", "--expression")]
    file = options.value("-f", "--file")
    if not scripts and not file:
        scripts = [word.text for word in options.operands[:1]]
    if file:
        feeding = tuple(fed for word in command.args if word.text.endswith(file) for fed in word.producers)
        scripts += [(command.stdin_text if file in INPUT else _printed(feeding)) or ""]
    script = "\n".join(scripts)[:_MAX_PROGRAM]
    texts = [found[1] for found in _SED_RUNS.finditer(script) if found[1]]
    replaced = list(_SED_REPLACES.finditer(script))
    made = any(found[2] for found in replaced) or any(not found[1] for found in _SED_RUNS.finditer(script))
    paths = [found[1] for found in _SED_WRITES.finditer(script)] + [found[3] for found in replaced if found[3]]
    written = tuple(replace(_command(command), redirects=(Redirect(">", Word(path)),)) for path in paths)
    return Nested(written, tuple(texts), (_RUNS_UNKNOWN,) if made else ())
