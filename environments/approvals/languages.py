"""Programs in other languages that stand in a command, such as `python -c`, `perl -e` and `awk`, and what they run.

Their calls are found by name. Literal arguments are taken as they stand; a call with others is asked about.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from environments.approvals.command import INPUT, RUNS_DOWNLOAD, UNKNOWN, UNSEEN, Command, Redirect, Runs, Word
from environments.approvals.options import Options
from environments.approvals.paths import secret, words

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
"""Interpreters: options that are followed by a program, and others that are followed by a value."""
_SUBCOMMANDS = words("run eval e exec script")
_RUNNING_MODULES = words("timeit IPython code pdb cProfile")
_AWKS = words("awk gawk mawk nawk")
_SHELL_CALLS = words(
    """
    system popen popen2 popen3 shell_exec passthru proc_open execSync execFile execFileSync spawnSync check_call
    check_output getoutput getstatusoutput Popen execl execle execlp execv execve execvp execvpe spawnl spawnlp
    spawnv spawnvp posix_spawn posix_spawnp capture2 capture2e capture3 create_subprocess_shell create_subprocess_exec
    """
)
_WITH_MODULE = words("run call exec spawn shell sh command Command cmd EXEC")
"""Names of calls that run programs behind one of the modules below, and otherwise mean much else."""
_MODULES = re.compile(r"subprocess|child_process|invoke|Bun\b|Deno\.|plumbum|fabric|\bpty\b|shelljs|execa|System\.cmd")
_BARE = words("perl ruby chef-apply php elixir lua")
_BARE_CALLS = words("perl ruby")
_EVALUATES = words("eval exec instance_eval class_eval execfile loadstring runInThisContext runInNewContext Function")
_REMOVES = words("rmtree remove_tree rm_rf rm_r rmSync rmdirSync rimraf removeSync remove_dir remove_entry")
_UNLINKS = words("remove unlink unlinkSync rm removedirs")
_COPIES = dict.fromkeys(("copy", "copy2", "copyfile", "copyFileSync"), "cp") | dict.fromkeys(
    ("move", "rename", "renameSync"), "mv"
)
_WRITES = words(
    "writeFileSync writeFile appendFileSync appendFile file_put_contents write_text write_bytes write fopen open Path"
)
_MADE_FOR_ALL = re.compile(r"mkdtemp|TemporaryDirectory|mktmpdir|tempdir|tmp_path")
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
_PLAINLY: Mapping[re.Pattern[str], str] = {
    re.compile(r"\bsys\.executable\b"): "'python3'",
    re.compile(r"\bprocess\.execPath\b"): "'node'",
    re.compile(r"\bos\.execute\b"): "os.system",
    re.compile(r"\{\s*args\s*:\s*(\[[^\]]{0,500}\])[^}]{0,200}\}"): r"\1",
}
"""Forms that are written in another way before a program is taken apart."""
_BY_NAME = re.compile(r"getattr|__dict__|vars\(")
_QUOTING = words("split shlex my raw String glob")
"""Names that only split or quote what stands behind them."""
_MADE = f"{UNSEEN}: a program runs what it makes"
_DOWNLOADERS = words(
    "curl wget fetch aria2c axel http https xh lynx w3m nc ncat netcat socat telnet ftp sftp scp rsync ssh s3cmd gsutil"
    " aws gh ipfs"
)
_READ_FILES = words("cat grep head tail sort uniq")
_Token = tuple[str, str]


def runs(command: Command) -> Runs | None:
    """Return what a program in another language runs that a command is given; None if it is given none."""
    name = command.name
    if name in ("sed", "gsed"):
        return _sed(command)
    if name in _LANGUAGES:
        return _interpreted(command)
    if name in _AWKS:
        options = Options.of(command.args, ("-F", "-v", "-f", "-i", "--file", "--assign"), first_ends=True)
        if file := options.value("-f", "--file"):
            return _file(command, file)
        return _judged(options.operands[0].text, command) if options.operands else None
    return None


def _file(command: Command, path: str) -> Runs:
    """Return what a program runs that stands in a file: in the input, or in what commands print."""
    if path in INPUT:
        return _read(command, command.fed_by, command.given)
    feeding = tuple(fed for word in command.args if word.text.endswith(path) for fed in word.fed_by)
    return _read(command, feeding, _printed(feeding)) if feeding else Runs()


def _interpreted(command: Command) -> Runs:
    given, valued = (text.split() for text in _LANGUAGES[command.name])
    options = Options.of(command.args, (*given, *valued), first_ends=True)
    codes = [value for option, value in options.values if option in given]
    if command.name == "deno":
        codes = [value for option, value in pairwise(command.texts) if option in (*given, "eval", "e")]
    if options.value("-m") in _RUNNING_MODULES:
        codes += [text for text in command.texts if not text.startswith("-") and text not in _RUNNING_MODULES]
    if codes:
        return _given("\n".join(codes), command)
    operand = next(iter(options.operands), None)
    if operand and operand.fed_by:
        return _read(command, operand.fed_by, _printed(operand.fed_by))
    if operand and operand.text in _SUBCOMMANDS:
        operand = next(iter(options.operands[1:]), None)
    if (options.value("-m") and options.value("-m") != "code") or (operand and operand.text not in INPUT):
        return Runs()
    return _read(command, command.fed_by, command.given)


def _given(code: str, command: Command) -> Runs:
    if code.startswith("!"):  # of IPython
        return Runs(texts=(code[1:],))
    if code.lstrip().startswith(UNKNOWN):
        feeding = tuple(fed for word in command.args for fed in word.fed_by)
        reason = unseen(feeding, "a program") if feeding else f"{UNSEEN}: a program is made while it runs"
        return Runs(reasons=(reason,) if reason else ())
    return _judged(code, command)


def _carried(command: Command, *texts: str) -> Command:
    """Return a command of literal words that another runs."""
    made = tuple(Word(text, glob="*" in text) for text in texts)
    return Command(made, directory=command.directory, start=command.start, carried=True)


def _printed(feeding: Sequence[Command]) -> str | None:
    texts = [one.prints for one in feeding]
    return None if None in texts else "".join(text or "" for text in texts)


def _read(command: Command, feeding: Sequence[Command], given: str | None) -> Runs:
    if given is not None:
        return _judged(given, command)
    reason = unseen(feeding, "a program") if feeding else ""
    return Runs(reasons=(reason,) if reason else ())


def unseen(feeding: Sequence[Command], what: str) -> str:
    """Return the reason against running the output of commands; nothing if it is that of files."""
    if is_downloaded(feeding):
        return RUNS_DOWNLOAD
    return "" if is_of_files(feeding) else f"{UNSEEN}: {what} is made while it runs"


def is_of_files(commands: Sequence[Command]) -> bool:
    """Return True if all that commands print is known, or stands in files."""
    return all(one.name in _READ_FILES and not one.fed_by for one in commands if one.prints is None)


def is_downloaded(commands: Sequence[Command]) -> bool:
    """Return True if a command that loads something from elsewhere stands in the beginning of a row of commands."""
    left, steps = list(commands), 0
    while left and steps < 100:
        one, steps = left.pop(), steps + 1
        if one.prints is None and one.name in _DOWNLOADERS:
            return True
        left += [*one.fed_by, *(fed for word in one.words for fed in word.fed_by)]
    return False


# Programs of calls.


def _judged(code: str, command: Command) -> Runs:
    if len(code) > _MAX_PROGRAM:
        return Runs(reasons=(f"{UNSEEN}: a program is too long",))
    for pattern, plain in _PLAINLY.items():
        code = pattern.sub(plain, code)
    program = _Program(command, code)
    program.read()
    return Runs(tuple(program.commands), tuple(program.texts), tuple(dict.fromkeys(program.reasons)))


def _tokens(code: str, language: str) -> Iterator[_Token]:
    """Go through the tokens of a program without blanks and comments."""
    slashes = language in ("node", "nodejs", "bun", "deno", "php", "groovy", "scala", "jshell")
    for found in _TOKEN.finditer(code):
        kind = found.lastgroup or "sign"
        text = found[kind]
        if found["comment"] and not (found["comment"].startswith("#") or slashes):
            yield "sign", "/"
        if kind == "string":
            runs = text[:1] in "q%" or (text.startswith("`") and language in ("perl", "ruby", "php", "julia"))
            yield "shell" if runs else "string", _plain(text, found["prefix"].lower(), language)
        elif kind not in ("space", "hidden"):
            yield kind, text


def _plain(text: str, prefix: str, language: str) -> str:
    """Return the text of a literal; an interpolation, or a character that is written by its number, is unknown."""
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
    """Collects what a program runs."""

    def __init__(self, command: Command, code: str) -> None:
        self.commands: list[Command] = []
        self.texts: list[str] = []
        self.reasons: list[str] = []
        self._at = _carried(command)
        self._language = command.name
        self._code = code
        self._tokens = [*_tokens(code, command.name), ("", ""), ("", "")]
        self._literals = [text for kind, text in self._tokens if kind == "string"]

    def read(self) -> None:
        """Go through all calls."""
        self._read_as_a_whole()
        calls = _SHELL_CALLS | _REMOVES | (_WITH_MODULE if _MODULES.search(self._code) else frozenset())
        for at, (kind, text) in enumerate(self._tokens[:-2]):
            behind = self._tokens[at + 1][1]
            before = self._tokens[at - 1][1] if at else ""
            if kind == "shell" or (text == "$" and self._tokens[at + 1][0] == "string"):
                self.texts.append(text if kind == "shell" else behind)
            elif text in calls and self._is_handed_on(kind, before, behind):
                self.reasons.append(_MADE)
            elif kind == "name":
                self._call(at, text)
            elif self._language in _AWKS and kind == "sign" and text in "|>":
                self._piped(at, text)

    def _read_as_a_whole(self) -> None:
        code = self._code
        if _KILLS_ALL.search(code):
            self._run("kill", "-9", "-1")
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
                self._run("rm", "-rf", place.rstrip("*") if place.strip("/*") == "" else place)

    def _run(self, *texts: str) -> None:
        self.commands.append(_carried(self._at, *texts))

    def _write(self, path: str) -> None:
        """Note a file that is written; if it is made while it runs, all that the program names at the root."""
        paths = [text for text in self._literals if text[:1] in ("/", "~")] if path.startswith(UNKNOWN) else [path]
        self.commands += [replace(self._at, redirects=(Redirect(">", Word(one)),)) for one in paths]

    def _is_handed_on(self, kind: str, before: str, behind: str) -> bool:
        """Return True if a function is given another name, or handed on, in place of being called."""
        if kind == "string":
            return bool(_BY_NAME.search(self._code))
        handed_on = before in (".", ":") and behind in ("", ";", "\n", ",", ")", "]")
        return handed_on or behind == "as" or (behind == ":" and before in ("{", ","))

    def _piped(self, at: int, sign: str) -> None:
        """`"cmd" | getline`, `print | "cmd"`, `print > "file"` of awk."""
        before = self._tokens[at - 1] if at else ("", "")
        kind, behind = self._tokens[at + 1 + (self._tokens[at + 1][1] == "&")]
        if "/inet" in (before[1][:5], behind[:5]) or "|" in (before[1], behind):
            return
        if sign == ">":
            if kind == "string" or (kind == "name" and before[0] == "string"):
                self._write(behind if kind == "string" else UNKNOWN)
        elif kind == "string":
            self.texts.append(f"echo {shlex.quote(before[1])} | {behind}" if before[0] == "string" else behind)
        elif behind == "getline" and before[0] == "string":
            self.texts.append(before[1])
        elif kind == "name" or behind == "$":
            self.reasons.append(_MADE)

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
            self.reasons.append(_MADE)
        elif name in _SHELL_CALLS or (name in _WITH_MODULE and self._is_shell(name, module, dotted=dotted)):
            self._shell(arguments, name)
        elif name in _EVALUATES and not dotted:
            self._evaluate(first, self._tokens[at + 2][1])
        elif name in _REMOVES or (name == "rm" and "recursive" in self._code):
            self._remove(at, first)
        elif name in _UNLINKS or (name == "delete" and module == "File"):
            self._run("rm", "-f", *[text for text in arguments[:1] if not text.startswith(UNKNOWN)])
        elif name in _COPIES and module in ("shutil", "os", "fs", "FileUtils", "File"):
            self._run(_COPIES[name], *arguments[:2])
        elif name in _WRITES:
            self._open(name, module, arguments, at)

    def _is_shell(self, name: str, module: str, *, dotted: bool) -> bool:
        """Return True if a call of a common name runs a program, as `subprocess.run` and unlike `asyncio.run`."""
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
            self.reasons.append(_MADE)
        elif len(arguments) == 1 or " " in first.strip():
            self.texts.append(first)
        elif arguments:
            is_name = replaces and posixpath.basename(arguments[1]) == posixpath.basename(first)
            self._run(first, *arguments[2 if is_name else 1 :])

    def _evaluate(self, first: str, begins: str) -> None:
        if begins in ("open", "compile", "Path", "File", "fs"):
            return  # as if the file were run
        if first.startswith(UNKNOWN):
            self.reasons.append(_MADE)
        elif len(first) < len(self._code):
            inner = _judged(first, _carried(self._at, self._language))
            self.commands += inner.commands
            self.texts += inner.texts
            self.reasons += inner.reasons

    def _remove(self, at: int, first: str) -> None:
        if _HOME.search("".join(text for _, text in self._tokens[at + 1 : at + 20])):
            first = "~"
        if first and not (first.startswith(UNKNOWN) and _MADE_FOR_ALL.search(self._code)):
            self._run("rm", "-rf", UNKNOWN if first.startswith(UNKNOWN) else first)

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
                self._write(piped or (arguments[-1] if ">" in modes else first))
        elif name == "Path":
            ahead = "".join(text for _, text in self._tokens[at : at + 8])
            if ".write_" in ahead or ".open('w" in ahead:
                self._write(first)
        elif name != "write" or module in ("File", "IO"):
            self._write(first)

    def _arguments(self, at: int) -> list[str]:
        """Return the arguments of a call as texts: lists are taken apart, a part that is made is unknown."""
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
                    break  # arguments by name come behind those that count
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


def _sed(command: Command) -> Runs:
    options = Options.of(command.args, ("-e", "--expression", "-f", "--file", "-l"))
    scripts = [value for option, value in options.values if option in ("-e", "--expression")]
    file = options.value("-f", "--file")
    if not scripts and not file:
        scripts = [word.text for word in options.operands[:1]]
    if file:
        feeding = tuple(fed for word in command.args if word.text.endswith(file) for fed in word.fed_by)
        scripts += [(command.given if file in INPUT else _printed(feeding)) or ""]
    script = "\n".join(scripts)[:_MAX_PROGRAM]
    texts = [found[1] for found in _SED_RUNS.finditer(script) if found[1]]
    replaced = list(_SED_REPLACES.finditer(script))
    made = any(found[2] for found in replaced) or any(not found[1] for found in _SED_RUNS.finditer(script))
    paths = [found[1] for found in _SED_WRITES.finditer(script)] + [found[3] for found in replaced if found[3]]
    written = tuple(replace(_carried(command), redirects=(Redirect(">", Word(path)),)) for path in paths)
    return Runs(written, tuple(texts), (_MADE,) if made else ())
