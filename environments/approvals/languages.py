"""Programs in other languages that stand in a command, such as `python -c`, `perl -e` and `awk`, and what they run.

Their calls are found by name. Literal arguments are taken as they stand; a call with others is asked about.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from environments.approvals.command import RUNS_DOWNLOAD, UNKNOWN, UNSEEN, Command, Redirect, Runs, Word
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
        ("Rscript R osascript groovy scala elixir racket ghc ocaml raku kotlin swift bb clj", "-e --eval", ""),
        ("julia", "-e -E --eval --print", ""),
        ("emacs emacsclient octave sbcl erl nim clisp", "--eval -eval --execute -e -x", ""),
        ("matlab maxima gnuplot scilab", "-r -e --batch-string -batch", ""),
        ("guile xonsh nu elvish rc posh pwsh expect hy csi clojure", "-c -e -Command", ""),
        ("tclsh wish jshell irb ghci jjs go crystal dart", "", ""),
    )
    for program in programs.split()
}
"""Interpreters: options that are followed by a program, and others that are followed by a value."""
_GUESSED = frozenset(_LANGUAGES) - words(
    "python pypy ipython ipython3 micropython perl ruby node nodejs bun deno php lua luajit tclsh wish mongosh mongo"
)
"""Languages of which only the literals are read: what would be a command there is held to be one."""
_SUBCOMMANDS = words("run eval e exec script")
_RUNNING_MODULES = words("timeit IPython code pdb cProfile")
_AWKS = words("awk gawk mawk nawk")
_EDITORS = words("vim vi nvim view ex gvim rvim vifm")
_LINES = {
    program: re.compile(rf"(?:{pattern})", re.DOTALL)
    for programs, pattern in {
        "vim vi nvim view ex gvim rvim": r"^[:+]*\s*(?:silent!?\s*)?[%\d,.$']*\s*(?:r|read|w|write)?\s*!(.+)",
        "ed red": r"^[%\d,.$]*\s*[rwe]?\s*!(.+)",
        "sqlite3 sqlite duckdb": r"^\s*\.(?:shell|system)\s+(.+)|^\s*\.(?:once|output|import)\s+['\"]?\|(.+)"
        r"|\bedit\([^,]{0,200},\s*'([^']+)",
        "mysql mariadb": r"^\s*(?:system|\\!)\s+(.+)|^--pager=(.+)",
        "psql": r"\\!\s*(.+)|\\(?:o|g|w)\s*\|(.+)|\b(?i:program)\s+'((?:[^']|'')+)'|^\s*\\.*`(.+)`",
        "gdb lldb": r"^\s*(?:platform\s+)?(?:shell|!|make)\s*(.+)|^\s*pipe\s.*?\|\s*(.+)",
        "less more ftp sftp lftp gnuplot telnet dc r2 radare2 rizin vifm ipython ipython3 python maxima ghci": (
            r"^[\s+:\[]*!+\s*([^\]]+)"
        ),
        "sqlplus ranger weechat irssi": r"^\s*!\s*(.+)|^\s*/?(?:host|shell|exec)\s+(.+)",
        "mail mailx mutt": r"^\S{0,2}~[!|]\s*(.+)|^`(.+)`$",
        "osascript": r"do shell script \"((?:[^\"\\]|\\.)*)\"",
        "tclsh wish expect": r"\b(?:exec|spawn|system)\s+([^\];\n]+)",
        "sqlcmd isql": r"(?i:xp_cmdshell)\s*'((?:[^']|'')+)'|^\s*[:!]+\s*(.+)",
        "tex latex pdftex pdflatex xetex xelatex luatex lualatex": r"write18\s*\{([^}]+)|\\input\s*\|\"?([^\"]+)",
        "m4": r"e?syscmd\(\s*`?([^)']+)",
        "troff groff nroff man": r"^\.\s*(?:sy|pso)\s+(.+)",
        "gs ghostscript": r"%pipe%([^)]+)",
        "convert magick mogrify identify composite montage": r"^(?:\w+:)?\|(.+)",
        "kak": r"%sh\{([^}]+)",
        "crontab": r"^(?:@\w+|(?:[\d*/,-]+\s+){5})\s*(.+)",
    }.items()
    for program in programs.split()
}
"""Clients and editors: a line, or a part of it, that is handed to a shell."""
_SHELL_CALLS = words(
    """
    system system2 popen popen2 popen3 shell_exec passthru proc_open execSync execFile execFileSync spawnSync check_call
    check_output getoutput getstatusoutput Popen execute execl execle execlp execv execve execvp execvpe spawnl spawnlp
    spawnv spawnvp posix_spawn posix_spawnp capture2 capture2e capture3 create_subprocess_shell create_subprocess_exec
    shell_command async_shell_command shell_command_to_string call_process_shell_command run_program syscmd esyscmd
    ProcessBuilder startProcess
    """
)
_WITH_MODULE = words("run call exec spawn shell sh command Command cmd EXEC")
"""Names of calls that run programs behind one of the modules below, and otherwise mean much else."""
_MODULES = re.compile(r"subprocess|child_process|invoke|Bun\b|Deno\.|plumbum|fabric|sys\.process|\bpty\b|shelljs|execa")
_BARE = re.compile(r"perl|ruby|raku|chef-apply|php|R|Rscript|julia|elixir|lua|osascript")
_BARE_CALLS = words("perl ruby raku")
_EVALUATES = words("eval exec instance_eval class_eval execfile loadstring runInThisContext runInNewContext Function")
_REMOVES = words(
    """
    rmtree remove_tree rm_rf rm_r rmSync rmdirSync rimraf removeSync remove_dir remove_entry emptyDirSync rmtree_safe
    delete_directory
    """
)
_UNLINKS = words("remove unlink unlinkSync rm removedirs delete_file")
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
_REMOVING = re.compile(
    r"unlink|rm_?rf|\brm\b|rimraf|rmdir|rmtree|\bdelete(?:Dir|Recursively)?!?\s*\(|\bremove\w*!?\s*\("
    r"|del_dir|RemoveAll|remove(?:Item|Directory|Path)"
)
_PRINTS = re.compile(r"print\w*|puts|putStr\w*|echo|say|log|write\w*|message|display", re.IGNORECASE)
_PROGRAM = re.compile(r"(?:/[\w.-]+)*/?[A-Za-z][\w.+-]*")
_MAX_LITERALS, _MAX_GUESS = 20, 500
_PLACE = re.compile(r"(?:/|~)[\w./*~-]*")
_TOKEN = re.compile(
    r"(?P<comment>\#[^\n]*|//[^\n]*|/\*.*?\*/)?(?P<prefix>[fFrRbBuU]{0,2})"
    r"(?P<string>'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`\\]|\\.)*`|(?:\bqx|%x)[{(\[][^})\]]*[})\]])"
    r"|(?P<hidden>(?<![$\w&{])\#[^\n]*)|(?P<name>[A-Za-z_$@]\w*)|(?P<number>-?\d+)|(?P<space>[ \t\r]+)|(?P<sign>.|\n)",
    re.DOTALL,
)
_ESCAPES = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_INTERPOLATED = re.compile(r"[$@]\w+(?:->)?(?:[\[{][^\]}]{0,200}[\]}])*")
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "0": ""}
_MAX_PROGRAM = 50_000
_MAX_REFERENCES = 3
_MADE = f"{UNSEEN}: a program runs what it makes"
_DOWNLOADERS = words(
    "curl wget fetch aria2c axel http https xh lynx w3m nc ncat netcat socat telnet ftp sftp scp rsync ssh s3cmd gsutil"
    " aws gh ipfs"
)
_READ_FILES = words("cat grep head tail sort uniq")
_Token = tuple[str, str]


def runs(command: Command) -> Runs:
    """Return what a program in another language runs that a command is given."""
    name = command.name
    if name in ("sed", "gsed"):
        return _sed(command)
    found = _lines(_LINES[name], command) if name in _LINES else Runs()
    if name in _LANGUAGES:
        return found + _interpreted(command)
    if name in _AWKS:
        options = Options.of(command.args, ("-F", "-v", "-f", "-i", "--file", "--assign"), first_ends=True)
        file = options.value("-f", "--file")
        texts = [
            *(word.text for word in options.operands),
            *(text for one, text in options.values if one in ("-v", "--assign")),
        ]
        pairs = (text.partition("=") for text in texts)
        values = "".join(f"{name} = {value!r};\n" for name, sign, value in pairs if sign and name.isidentifier())
        code = "" if file or not options.operands else options.operands[0].text
        found = found + _file(command, file) if file else found
        return found + _judged(values + code, command) if code else found
    if name in _EDITORS or name.endswith(("tex", "latex")):
        code = "\n".join(command.texts)
    elif name in ("redis-cli", "valkey-cli") and command.texts:
        code = "\n".join(command.texts) if "eval" in map(str.lower, command.texts) else ""
    else:
        lines = [text.strip().partition(" ") for text in command.texts if name in ("gdb", "lldb")]
        code = "\n".join(line for first, _, line in lines if first in ("py", "python", "script", "call", "print", "p"))
    return found + _judged(code, command) if code else found


def _lines(pattern: re.Pattern[str], command: Command) -> Runs:
    """Return what the arguments and the input of a client hand to a shell."""
    feeding = (*command.fed_by, *(fed for word in command.args for fed in word.fed_by))
    lines = [
        re.sub(r"^--?(?!-?pager)[\w-]+=|^-[a-zA-Z](?=!)", "", line).replace("file delete ", "exec rm -r ")
        for text in (*command.texts, command.given or "", *(one.prints or "" for one in feeding))
        for line in text.splitlines()
        if len(line) < _MAX_PROGRAM
    ]
    found = (one for line in lines for one in pattern.finditer(line))
    return Runs(texts=tuple(filter(None, (next(filter(None, one.groups()), "") for one in found))))


def _file(command: Command, path: str) -> Runs:
    """Return what a program runs that stands in a file: in the input, or in what commands print."""
    if path in ("-", "/dev/stdin", "/dev/fd/0"):
        return _read(command, command.fed_by, command.given)
    feeding = tuple(fed for word in command.args if word.text.endswith(path) for fed in word.fed_by)
    return _read(command, feeding, _printed(feeding)) if feeding else Runs()


def _interpreted(command: Command) -> Runs:
    given, valued = (text.split() for text in _LANGUAGES[command.name])
    options = Options.of(command.args, (*given, *valued), first_ends=True)
    codes = [value for option, value in options.values if option in given]
    if command.name in _GUESSED or command.name == "deno":
        codes = [value for option, value in pairwise(command.texts) if option in (*given, "eval", "e")]
        codes += [
            text[len(one) + 1 :] for text in command.texts for one in given if text.startswith((one + "=", one + ":"))
        ]
    if options.value("-m") in _RUNNING_MODULES:
        codes += [text for text in command.texts if not text.startswith("-") and text not in _RUNNING_MODULES]
    if codes:
        return _given("\n".join(codes), command)
    operand = next(iter(options.operands), None)
    if operand and operand.fed_by:
        return _read(command, operand.fed_by, _printed(operand.fed_by))
    if operand and operand.text in _SUBCOMMANDS:
        operand = next(iter(options.operands[1:]), None)
    if (options.value("-m") and options.value("-m") != "code") or (operand and operand.text not in ("-", "/dev/stdin")):
        return Runs()
    return _read(command, command.fed_by, command.given)


def _given(code: str, command: Command) -> Runs:
    if code.lstrip().startswith(UNKNOWN):
        feeding = tuple(fed for word in command.args for fed in word.fed_by)
        reason = unseen(feeding, "a program") if feeding else f"{UNSEEN}: a program is made while it runs"
        return Runs(reasons=(reason,) if reason else ())
    if command.name in ("emacs", "emacsclient", "sbcl", "guile", "racket", "clojure"):
        code = re.sub(r"(?<=[a-z])-(?=[a-z])", "_", code)
    return _judged(code, command)


def _guessed(code: str, command: Command) -> Runs:
    """Return the commands that the literals of a program would be, and those that its statements are."""
    tokens = [("", ""), ("", ""), *_tokens(code, command.name)]
    literals = [
        text
        for (_, one), (_, other), (kind, text) in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if kind in ("string", "shell")
        and not _PRINTS.fullmatch(other)
        and not (other == "(" and _PRINTS.fullmatch(one))
    ][:_MAX_LITERALS]
    guesses = [literals[at : at + 8] for at in range(len(literals))]
    for text in (*re.split(r"[;\n|]", code)[:_MAX_LITERALS], *literals):
        try:
            guesses.append(shlex.split(text[:_MAX_GUESS].strip("`'$[]() ").replace("<", " ").replace(">", " ")))
        except ValueError:
            continue
    named = [guess for guess in guesses if guess and _PROGRAM.fullmatch(guess[0])]
    made = [tuple(Word(text, glob="*" in text) for text in guess) for guess in named]
    return Runs(tuple(Command(one, directory=command.directory, start=command.start, carried=True) for one in made))


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
    if command.name in _QUOTES_BY_NAME:
        code = _QUOTED.sub(_quoted, code)
    tokens = list(_tokens(code, command.name))
    values = _values(tokens)
    made = _Program(command, code, tokens, values)
    made.read()
    found = Runs(tuple(made.commands), tuple(made.texts), tuple(dict.fromkeys(made.reasons)))
    return found + _guessed(code, command) if command.name in _GUESSED else found


_PLAINLY: Mapping[re.Pattern[str], str] = {
    re.compile(r"\bsys\.executable\b"): "'python3'",
    re.compile(r"\bprocess\.execPath\b"): "'node'",
    re.compile(r"\$\^X\b"): "'perl'",
    re.compile(r"\{\s*args\s*:\s*(\[[^\]]{0,500}\])[^}]{0,200}\}"): r"\1",
    re.compile(r"\b(system|exec)\s*\{[^}]{0,200}\}"): r"\1",
}
"""Forms that are written in another way before a program is taken apart."""
_QUOTES_BY_NAME = words("perl ruby raku")
_QUOTED = re.compile(
    r"(?:\b(q[qw]?)|%([qQwW]))\s*(?:\(([^()]*)\)|\{([^{}]*)\}|\[([^\[\]]*)\]|/([^/]*)/|\|([^|]*)\|)"
    r"|\b(?:run|shell)\s*<([^<>]+)>"
)


def _quoted(found: re.Match[str]) -> str:
    kind = (found[1] or found[2] or "w").lower()
    inner = next((one for one in found.groups()[2:] if one), "")
    if kind.endswith("w"):
        return ("run " if found[8] else "") + "(" + ", ".join(map(repr, inner.split())) + ")"
    return json.dumps(inner) if kind != "q" else repr(inner)


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
            yield "shell" if runs else "string", _plain(text, found["prefix"], language)
        elif kind not in ("space", "hidden"):
            yield kind, text


def _plain(text: str, prefix: str, language: str) -> str:
    """Return the text of a literal; an interpolation in it is unknown."""
    shell = re.match(r"(?:qx|%x)", text)
    width = 3 if text.startswith(("'''", '"""')) or (shell and text.startswith("qx")) else 1
    inner = text[width if not shell else 3 : -1 if shell or width == 1 else -3]
    if "r" not in prefix.lower():
        inner = _ESCAPES.sub(_character, inner)
    if "f" in prefix.lower():
        inner = re.sub(r"\{[^{}]*\}", UNKNOWN, inner)
    if text.startswith("'"):
        return inner
    inner = re.sub(r"[$#]\{[^{}]*\}", UNKNOWN, inner)
    return _INTERPOLATED.sub(UNKNOWN, inner) if language in ("perl", "php") and not text.startswith("`") else inner


def _character(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 8), (3, 16)):
        if found[group]:
            return chr(int(found[group], base))
    return _NAMED.get(found[4], found[4])


def _values(tokens: Sequence[_Token]) -> dict[str, list[_Token]]:
    """Return the literals that variables are set to, of those that are set once."""
    values: dict[str, list[_Token]] = {}
    for at in range(len(tokens) - 2):
        (kind, name), (_, sign), (_, behind) = tokens[at : at + 3]
        if kind != "name" or sign != "=" or behind in "=~>":
            continue
        if name in values:
            values[name] = [("sign", UNKNOWN)]
            continue
        ends = (one for one in range(at + 2, min(len(tokens), at + 60)) if tokens[one][1] in (";", "\n"))
        end = next(ends, len(tokens))
        values[name] = list(tokens[at + 2 : min(end, at + 60)])
    return values


class _Program:
    """Collects what a program runs."""

    def __init__(self, command: Command, code: str, tokens: list[_Token], values: dict[str, list[_Token]]) -> None:
        self.commands: list[Command] = []
        self.texts: list[str] = []
        self.reasons: list[str] = []
        self._command = command
        self._code = code
        self._tokens = tokens
        self._values = values
        self._aliases = {
            found[2] or found[3]: found[1] or found[4]
            for found in re.finditer(r"\b(\w+)\s+as\s+(\w+)|\b(\w+)\s*=\s*(?:\w+\.)+(\w+)\s*(?=[;\n]|$)", code)
        } | {found[2]: found[1] for found in re.finditer(r"[{,]\s*(\w+)\s*:\s*(\w+)", code) if found[1] in _SHELL_CALLS}

    def read(self) -> None:
        """Go through all calls."""
        code = self._code
        if _KILLS_ALL.search(code):
            self._run("kill", "-9", "-1")
        if _FORKS.search(code) and _FOREVER.search(code):
            self.reasons.append("it is a fork bomb: a program that starts itself over and over")
        if (_CONNECTS.search(code) and _GIVES_SHELL.search(code)) or _TERMINAL.search(code):
            self.reasons.append("it gives a shell to a connection")
        literals = [text for kind, text in self._tokens if kind == "string"]
        if _SENDS.search(code):
            secrets = (secret(Word(text), self._command) for text in literals if "/" in text or text.startswith("."))
            names = ["the environment"] if _ENVIRONMENT.search(code) else [one for one in secrets if one]
            self.reasons += [f"it sends secrets elsewhere ({one})" for one in names]
        walks = self._command.name in (_GUESSED | _EDITORS) or _WALKS.search(code)
        if walks and _REMOVING.search(code):
            for place in filter(_PLACE.fullmatch, literals):
                self._run("rm", "-rf", place.rstrip("*") if place.strip("/*") == "" else place)
        for at, (kind, text) in enumerate(self._tokens):
            if kind == "shell":
                self.texts.append(text)
            elif kind == "name":
                self._call(at, self._aliases.get(text, text))
            elif kind == "string" and text in (_SHELL_CALLS | _REMOVES) and re.search(r"getattr|__dict__|vars\(", code):
                self.reasons.append(_MADE)
            elif self._command.name in _AWKS and text in "|>" and kind == "sign":
                self._piped(at, text)

    def _run(self, *texts: str) -> None:
        made = tuple(Word(text, glob="*" in text) for text in texts)
        self.commands.append(Command(made, directory=self._command.directory, start=self._command.start, carried=True))

    def _write(self, path: str) -> None:
        if not path.startswith(UNKNOWN):
            where = replace(Command(directory=self._command.directory, start=self._command.start), carried=True)
            self.commands.append(replace(where, redirects=(Redirect(">", Word(path)),)))

    def _meant(self, token: _Token) -> _Token:
        """Return the literal that a variable is set to, or the token as it is."""
        value = self._values.get(token[1], []) if token[0] == "name" else []
        return value[0] if len(value) == 1 and value[0][0] == "string" else token

    def _piped(self, at: int, sign: str) -> None:
        """`"cmd" | getline`, `print | "cmd"`, `print > "file"` of awk."""
        both = at + 1 < len(self._tokens) and self._tokens[at + 1][1] == "&"
        before = [self._meant(one) for one in self._tokens[at - 1 : at]] or [("", "")]
        behind = [self._meant(one) for one in self._tokens[at + 1 + both : at + 2 + both]] or [("", "")]
        if any(one[0] == "string" and one[1].startswith("/inet") for one in (*before, *behind)):
            return
        if sign == ">":
            if behind[0][0] == "string":
                self._write(behind[0][1])
        elif "|" in (before[0][1], behind[0][1]):
            return
        elif behind[0] == ("name", "getline"):
            self.texts.append(before[0][1]) if before[0][0] == "string" else self.reasons.append(_MADE)
        elif behind[0][0] == "string":
            written = before[0][1] if before[0][0] == "string" else ""
            self.texts.append(f"echo {shlex.quote(written)} | {behind[0][1]}" if written else behind[0][1])
        elif behind[0][0] == "name" or behind[0][1] == "$":
            self.reasons.append(_MADE)

    def _call(self, at: int, name: str) -> None:
        behind = self._tokens[at + 1] if at + 1 < len(self._tokens) else ("", "")
        bare = self._command.name in _BARE_CALLS and name in (_SHELL_CALLS | _UNLINKS | {"open", "exec", "spawn"})
        if name == "$" and behind[0] == "string":
            self.texts.append(behind[1])
        if name.startswith("@") and behind[1] == "(" and self._command.name in _AWKS:
            self.reasons.append(_MADE)
        if behind[1] != "(" and behind[0] not in ("string", "shell") and not (bare and behind[0] == "name"):
            return
        dotted = at > 0 and self._tokens[at - 1][1] in (".", ">", ":")
        module = self._tokens[at - 2][1] if dotted and at > 1 else ""
        if name == "getattr" and (named := self._arguments(at)[1:2]) and named[0] in (_SHELL_CALLS | _REMOVES):
            self.reasons.append(_MADE)
        elif name in _SHELL_CALLS or (name in _WITH_MODULE and self._is_shell(name, module, dotted=dotted)):
            self._shell(self._arguments(at), name)
        elif name in _EVALUATES and not dotted:
            self._evaluate(at)
        elif name in _REMOVES or (name in ("rm", "unlink") and self._is_recursive(name)):
            self._remove(at)
        elif name in _UNLINKS or (name == "delete" and module == "File"):
            self._run("rm", "-f", *[text for text in self._arguments(at)[:1] if not text.startswith(UNKNOWN)])
        elif name in _COPIES and module in ("shutil", "os", "fs", "FileUtils", "File"):
            self._run(_COPIES[name], *self._arguments(at)[:2])
        elif name in _WRITES:
            self._open(name, module, self._arguments(at), at)

    def _is_recursive(self, name: str) -> bool:
        of_r = self._command.name in ("R", "Rscript", "julia")
        return "recursive" in self._code and (
            of_r or (name == "rm" and bool(re.search(r"\bfs\b|promises", self._code)))
        )

    def _is_shell(self, name: str, module: str, *, dotted: bool) -> bool:
        """Return True if a call of a common name runs a program, as `subprocess.run` and unlike `asyncio.run`."""
        if module in ("asyncio", "uvicorn", "app", "re"):
            return False
        if name in ("cmd", "command", "EXEC", "shell", "exec") and self._command.name in _GUESSED:
            return True
        if name in ("exec", "spawn", "run", "shell") and _BARE.fullmatch(self._command.name):
            return True
        evaluates = name == "exec" and not dotted and self._command.name in ("python", "pypy")
        return bool(_MODULES.search(self._code)) and not evaluates

    def _shell(self, arguments: list[str], name: str) -> None:
        if (
            name.startswith(("spawn", "posix_spawn"))
            and len(arguments) > 2
            and re.fullmatch(rf"{UNKNOWN}|\d+", arguments[0])
        ):
            arguments = arguments[1:]  # os.P_WAIT
        if not arguments:
            return
        first = arguments[0]
        if first.startswith(UNKNOWN):
            self.reasons.append(_MADE)
        elif len(arguments) == 1 or " " in first.strip():
            self.texts.append(first)
        else:
            same = (
                name.startswith(("exec", "spawn", "posix"))
                and arguments[1].rpartition("/")[2] == first.rpartition("/")[2]
            )
            made = [first, *arguments[2 if same else 1 :]]
            self._run(*(text for text in made))

    def _evaluate(self, at: int) -> None:
        begins = self._tokens[at + 2][1] if at + 2 < len(self._tokens) else ""
        if begins in ("open", "compile", "Path", "File", "fs"):
            return  # as if the file were run
        arguments = self._arguments(at)
        if arguments and arguments[0].startswith(UNKNOWN):
            self.reasons.append(_MADE)
        elif arguments and len(arguments[0]) < len(self._code):
            inner = _judged(arguments[0], self._command)
            self.commands += inner.commands
            self.texts += inner.texts
            self.reasons += inner.reasons

    def _remove(self, at: int) -> None:
        arguments = self._arguments(at)
        raw = " ".join(text for _, text in self._tokens[at + 1 : at + 20])
        if arguments and not arguments[0].startswith(UNKNOWN):
            self._run("rm", "-rf", arguments[0])
        elif _HOME.search(raw.replace(" ", "")):
            self._run("rm", "-rf", "~")
        elif arguments and not _MADE_FOR_ALL.search(self._code):
            self._run("rm", "-rf", UNKNOWN)

    def _open(self, name: str, module: str, arguments: list[str], at: int) -> None:
        if self._command.name in ("perl", "ruby") and name == "open":
            for one in arguments:
                if one.startswith("|") or one.endswith("|"):
                    self.texts.append(one.strip("| "))
            if {"|-", "-|"} & set(arguments):
                self._shell(arguments[1 + next(at for at, one in enumerate(arguments) if one in ("|-", "-|")) :], name)
        modes = [text for text in arguments[1:] if re.fullmatch(r"[+>]*[wax>][bt+]*", text)]
        piped = next((text for text in arguments if text.startswith(">") and len(text) > 2), "")
        if name in ("open", "fopen"):
            if modes or piped:
                self._write(piped.strip("> ") or (arguments[-1] if ">" in modes else arguments[0]))
        elif name == "Path":
            ahead = "".join(text for _, text in self._tokens[at : at + 8])
            if ".write_" in ahead or ".open('w" in ahead:
                self._write((arguments or [UNKNOWN])[0])
        elif name != "write" or module in ("File", "IO"):
            self._write((arguments or [UNKNOWN])[0])

    def _arguments(self, at: int) -> list[str]:
        """Return the arguments of a call as texts: lists are taken apart, a part that is made is unknown."""
        start = at + 1
        enclosed = self._tokens[start][1] == "("
        return _elements(self._tokens[start + enclosed : start + 400], self._values, enclosed=enclosed)


def _elements(
    tokens: Sequence[_Token], values: Mapping[str, list[_Token]], *, enclosed: bool, depth: int = 0
) -> list[str]:
    elements: list[str] = []
    text: str | None = None
    nested = skipped = 0
    for at, (kind, sign) in enumerate(tokens):
        behind = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if skipped:
            skipped += (kind == "sign") * ((sign in ("(", "{")) - (sign in (")", "}")))
        elif kind in ("string", "shell", "number"):
            text = (text or "") + sign
        elif kind == "name":
            if behind == "=" and text is None:
                break  # arguments by name come behind those that count
            inner = _named(sign, behind, values, depth)
            elements += inner[:-1]
            text = (text or "") + inner[-1] if inner else text
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


def _named(name: str, behind: str, values: Mapping[str, list[_Token]], depth: int) -> list[str]:
    """Return the values of a variable; nothing for a name that only splits or quotes what stands behind it."""
    if name in values and depth < _MAX_REFERENCES and behind not in (".", "("):
        return _elements(values[name], values, enclosed=False, depth=depth + 1) or [UNKNOWN]
    return [] if name in ("split", "shlex", "c", "my", "raw", "String", "glob") else [UNKNOWN]


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
        scripts += [(command.given if file in ("-", "/dev/stdin") else _printed(feeding)) or ""]
    script = "\n".join(scripts)[:_MAX_PROGRAM]
    texts = [found[1] for found in _SED_RUNS.finditer(script) if found[1]]
    replaced = list(_SED_REPLACES.finditer(script))
    made = any(found[2] for found in replaced) or any(not found[1] for found in _SED_RUNS.finditer(script))
    paths = [found[1] for found in _SED_WRITES.finditer(script)] + [found[3] for found in replaced if found[3]]
    written = tuple(
        Command(redirects=(Redirect(">", Word(path)),), directory=command.directory, start=command.start, carried=True)
        for path in paths
    )
    return Runs(written, tuple(texts), (_MADE,) if made else ())
